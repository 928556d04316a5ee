"""What follows from the observations of members that lagless did not write."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lagless.lab import report
from lagless.lab.live import live_stream
from lagless.lab.live.journal import Data, known, spread
from lagless.lab.live.live_stream import (
    BUSIEST,
    CAPACITY,
    DELTA,
    ITERATION,
    MANY,
    MAX_RATE,
    PATIENCE,
    SKEW,
)
from lagless.lab.report import Section, Table

TIMES = ("p50", "p90", "p99", "max")
TOTALS = ("lost", "duplicated", "unread")
RANGED = (*TIMES, "consumers", "consumer_seconds", "migrations", "fullest")
QUARTER = 0.25

GROUPS = (
    *("", "runs", "members", "member-seconds", "p50 (s)", "p90 (s)", "p99 (s)"),
    *("partitions moved", "lost", "processed twice", "unread", "fullest member (C̄)"),
)
RUNS = (
    *("run", "", "members", "member-seconds", "records", "p50 (s)", "p90 (s)", "p99 (s)"),
    *("most (s)", "partitions moved", "lost", "processed twice", "unread", "fullest member (C̄)"),
)
ODDS = (
    *("skew", "busiest (kB/s)", "members when packed", "`uniform`'s members"),
    *("draws with an overloaded member", "fullest member (C̄): p10", "median", "p90"),
    "members that `uniform` needs",
)
FRONT = ("", *GROUPS[2:10])


def by_name(data: Data) -> dict[str, list[Data]]:
    """Return the runs of each group, in the order of the turns."""
    runs: dict[str, list[Data]] = {}
    for row in data.get("runs", []):
        runs.setdefault(row["name"], []).append(row)
    return runs


def sums(data: Data) -> dict[str, Any]:
    """Return each group's numbers: spreads over its runs, and what was lost in all of them."""
    groups = {
        name: {
            "runs": len(rows),
            **{key: spread(known(rows, key)) for key in RANGED},
            **{key: sum(row[key] for row in rows) for key in (*TOTALS, "records")},
        }
        for name, rows in by_name(data).items()
    }
    return {"groups": groups, "draws": data.get("draws", [])}


def members(data: Data) -> Section:
    """Return the section on members that lagless did not write."""
    drawn = data.get("draws", [])
    runs = [_run(row) for row in data.get("runs", [])]
    tables = [Table("Medians over the runs (least to most)", GROUPS, _groups(data))]
    tables += [Table("`uniform`, computed", ODDS, [_odds(row) for row in drawn])] if drawn else []
    tables.append(Table("Each run", RUNS, runs))
    words = [*STREAM, *_compared(data), *([COMPUTED.format(**drawn[0])] if drawn else [])]
    figures = ["members-delay", "members-consumers"]
    return Section("Members that lagless did not write", words, tables, figures)


AT_FIRST = live_stream.zipf(SKEW)
STREAM = (
    "The same program, an ordinary confluent-kafka consumer that appends to Delta with deltalake "
    "and then commits its offsets, runs in three groups with `group.protocol=consumer`; only "
    "`group.remote.assignor` differs. lagless places and scales the first with "
    '`members.kind = "group"`. `uniform` is Kafka\'s own assignor, which levels the number of '
    "partitions; it has as many members as lagless used on average on the same stream, rounded up, "
    "all the time. The third group is placed by `uniform` and scaled by KEDA's rule, as in the "
    "rival's part. All begin with members that have joined.",
    f"{MANY} partitions follow Zipf's law with exponent {SKEW:g}: the k-th busiest gets 1/k of "
    f"what the busiest gets, and that is at first {AT_FIRST[0] / 1000:.0f} kB/s, {BUSIEST:g} of "
    f"the C̄ = {MAX_RATE / 1000:.0f} kB/s to which every member is held. All together get "
    f"{AT_FIRST.sum() / 1000:.0f} kB/s, {AT_FIRST.sum() / CAPACITY:.2f} times C = 5/6 of C̄. Each "
    f"speed walks by up to {DELTA:g} % of itself every {ITERATION:g} s, to C at most. Which "
    "partitions are hot is drawn for each run, and is the same for the three groups. Every record "
    "written after the first minute counts, from its timestamp in Kafka to the commit to the "
    f"table. What a group has not read {PATIENCE:g} s after the end of the load is unread: it is "
    "in no percentile, which favours a group that is behind.",
)
COMPUTED = (
    "Whether `uniform` overloads a member depends on which partitions are hot and, less, on the "
    "order of the member ids. The second table is computed with the assignor's rule over "
    "{draws:,} draws of both, for the speeds at the beginning: how often a member has more to read "
    "than C̄, and how much the fullest member has. Its other rows spread the same total by Zipf's "
    "law with other exponents (the skew); 0 is an even load, for which counting is as good as "
    "measuring. Members when packed are those that lagless's algorithm needs, none above C; "
    "`uniform` needs as many as it takes that in 19 of 20 draws no member is above C̄."
)


def _compared(data: Data) -> Iterator[str]:
    """Give a sentence per rival: how its p99 and its member-seconds compare with lagless's."""
    groups, runs = sums(data)["groups"], by_name(data)
    mine = groups.get("lagless")
    for name, other in groups.items():
        if (
            mine is None
            or name == "lagless"
            or not (mine["p99"]["count"] and other["p99"]["count"])
        ):
            continue
        pairs = _pairs(runs["lagless"], runs[name])
        wins = sum(few <= QUARTER * many for few, many in pairs)
        cost = mine["consumer_seconds"]["mean"] / max(1, other["consumer_seconds"]["mean"])
        few, many = mine["p99"]["p50"], other["p99"]["p50"]
        yield (
            f"{name}: a median p99 of {many:.1f} s, {many / max(few, 0.001):.1f} times lagless's "
            f"{few:.1f} s. lagless used {cost:.2f} times its member-seconds; its p99 was at most a "
            f"quarter of {name}'s on {wins} of {len(pairs)} streams."
        )


def _pairs(mine: Sequence[Data], others: Sequence[Data]) -> list[tuple[float, float]]:
    """Return the p99 of two groups on the same streams."""
    theirs = {row["turn"]: row["p99"] for row in others}
    pairs = [(row["p99"], theirs.get(row["turn"])) for row in mine]
    return [(few, many) for few, many in pairs if few is not None and many is not None]


def _groups(data: Data) -> list[tuple[str, ...]]:
    rows = []
    for name, part in sums(data)["groups"].items():
        times = (_ranged(part[key], 2) for key in ("p50", "p90", "p99"))
        rows.append(
            (
                *(name, str(part["runs"]), _ranged(part["consumers"], 2)),
                *(_ranged(part["consumer_seconds"], 0), *times, _ranged(part["migrations"], 0)),
                *(f"{part[key]:,}" for key in TOTALS),
                _ranged(part["fullest"], 2),
            )
        )
    return rows


def _ranged(found: Mapping[str, float], digits: int) -> str:
    """Return a median, and in brackets the least and the most where they differ."""
    if not found["count"]:
        return "none"
    median, least, most = (f"{found[key]:,.{digits}f}" for key in ("p50", "min", "max"))
    return median if least == most else f"{median} ({least} to {most})"


def _run(row: Data) -> tuple[str, ...]:
    seconds = ("none" if row[key] is None else f"{row[key]:.2f}" for key in TIMES)
    fullest = "none" if row["fullest"] is None else f"{row['fullest']:.2f}"
    return (
        *(str(row["turn"] + 1), row["name"], f"{row['consumers']:.2f}"),
        *(f"{row['consumer_seconds']:,}", f"{row['records']:,}", *seconds),
        *(f"{row[key]:,}" for key in ("migrations", *TOTALS)),
        fullest,
    )


def _odds(row: Data) -> tuple[str, ...]:
    return (
        *(f"{row['skew']:g}", f"{row['busiest'] / 1000:.0f}", str(row["packed"])),
        *(str(row["members"]), f"{100 * row['overloaded']:.0f} %"),
        *(f"{row[key]:.2f}" for key in ("p10", "p50", "p90")),
        str(row["needed"]),
    )


def drawn(data: Data) -> list[dict[str, Any]]:
    """Return a row per group for the figures: the delays of all its runs, the members of one."""
    return [
        {
            **rows[0],
            "consumers": float(np.mean([row["consumers"] for row in rows])),
            "sample": sorted(value for row in rows for value in row["sample"]),
        }
        for rows in by_name(data).values()
    ]


def page(data: Data, links: Sequence[str]) -> str:
    """Return the section for the documentation, without its title."""
    section = members(data)
    tables = [f"{table.caption}:\n\n{report.markdown(table)}" for table in section.tables]
    return "\n\n".join([made(data), *section.words, *tables, *links])


def made(data: Data) -> str:
    """Say by which command, where and when the numbers were measured."""
    asked, machine = data["settings"], data.get("machine", {})
    where = ", ".join(str(machine[key]) for key in ("processor", "memory") if key in machine)
    took = data.get("seconds", 0) / 60
    return (
        f"Measured with `lagless evaluate live --only members --minutes {asked['minutes']:g} "
        f"--repeats {asked['repeats']} --seed {asked['seed']}` in {took:.0f} minutes on one "
        f"machine ({where})."
    )


def front(data: Data) -> str:
    """Return what the front page shows: medians over the runs."""
    rows = [(row[0], *row[2:10]) for row in _groups(data)]
    runs = max((part["runs"] for part in sums(data)["groups"].values()), default=0)
    streams = f"{runs} skewed stream{'s' * (runs != 1)} of {MANY} partitions"
    return (
        f"Consumers that lagless did not write, unmodified, on {streams}: seconds from produced to "
        "processed, medians over the runs (least to most). `uniform` has as many members as "
        "lagless used, rounded up. [Conditions, and each "
        "run](docs/results.md#members-that-lagless-did-not-write).\n\n"
        + report.markdown(Table("", FRONT, rows))
    )
