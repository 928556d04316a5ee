"""What follows from the observations of members that lagless did not write."""

from collections.abc import Iterator, Sequence

from lagless.lab.live.journal import Data
from lagless.lab.report import Section, Table

TIMES = ("p50", "p90", "p99", "max")
MEMBERS = (
    *("", "members", "member-seconds", "records", "p50 (s)", "p90 (s)", "p99 (s)", "most (s)"),
    *("partitions moved", "lost", "processed twice", "unread"),
)


def members(data: Data) -> Section:
    """Return the section on members that lagless did not write."""
    runs = data.get("runs", [])
    words = [
        "The same program, an ordinary confluent-kafka consumer that appends to Delta with "
        "deltalake and then commits its offsets, runs three times with "
        "`group.protocol=consumer`; only `group.remote.assignor` differs. The stream is that of "
        "the latency part, and every member is held to C̄ = 200 kB/s. lagless places and scales "
        'the first group with `members.kind = "group"`. `uniform` is Kafka\'s own assignor, '
        "which counts partitions, with as many members as lagless used on average, rounded up. "
        "The third group is placed by `uniform` and scaled by KEDA's rule, as in the rival's part. "
        "All begin with members that have joined. Processed means committed to the table.",
        *_placed(runs),
    ]
    rows = []
    for row in runs:
        seconds = ("none" if row[key] is None else f"{row[key]:.2f}" for key in TIMES)
        counts = ("migrations", "lost", "duplicated", "unread")
        rows.append(
            (
                *(row["name"], f"{row['consumers']:.2f}", f"{row['consumer_seconds']:,}"),
                *(f"{row['records']:,}", *seconds, *(f"{row[key]:,}" for key in counts)),
            )
        )
    figures = ["members-delay", "members-consumers"]
    return Section(
        "Members that lagless did not write", words, [Table("Measured", MEMBERS, rows)], figures
    )


def _placed(runs: Sequence[Data]) -> Iterator[str]:
    """Give a sentence per rival: how its p99 and its member-seconds compare with lagless's."""
    mine = next((row for row in runs if row["name"] == "lagless"), None)
    for row in runs:
        if mine is None or row is mine or not mine["p99"] or row["p99"] is None:
            continue
        yield (
            f"{row['name']}: a p99 of {row['p99']:.1f} s, {row['p99'] / mine['p99']:.1f} times "
            f"lagless's {mine['p99']:.1f} s, with "
            f"{row['consumer_seconds'] / max(1, mine['consumer_seconds']):.2f} times its "
            f"member-seconds."
        )
