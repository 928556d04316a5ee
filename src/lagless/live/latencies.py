"""The latency parts in words and tables: lagless, groups of fixed size, the model and the rival."""

from collections.abc import Mapping, Sequence
from typing import Any

from lagless.evaluation.report import Table
from lagless.live.layout import Section
from lagless.live.numbers import Data
from lagless.live.traffic import PACKED

RUNS = (
    *("", "consumers", "records", "p50 (s)", "p90 (s)", "p99 (s)", "most (s)", "lost", "doubled"),
    "unread",
)


def _run(row: Mapping[str, Any]) -> tuple[str, ...]:
    seconds = (
        "none" if row[key] is None else f"{row[key]:.2f}" for key in ("p50", "p90", "p99", "max")
    )
    counts = (f"{row[key]:,}" for key in ("lost", "duplicated", "unread"))
    return (row["name"], f"{row['consumers']:.2f}", f"{row['records']:,}", *seconds, *counts)


def delay(data: Data) -> Section:
    """Tell the end-to-end latency, and what the model says about the same stream."""
    runs = data.get("runs", [])
    predicted = [
        (
            row["name"],
            f"{row['model']['consumers']:.2f}",
            f"{100 * row['model']['late']:.1f} %",
            *(f"{row['model'][key]:.2f}" for key in ("p50", "p90", "p99", "max")),
            *(
                "none" if row[key] is None else f"{row[key] - row['model'][key]:+.2f}"
                for key in ("p50", "p90", "p99")
            ),
        )
        for row in runs
    ]
    header = (
        *("", "consumers", "late bytes", "p50 (s)", "p90 (s)", "p99 (s)", "most (s)"),
        *("measured − model, p50", "p90", "p99"),
    )
    words = [
        f"{data['settings']['partitions']} partitions under the paper's stream with δ = 5; a "
        "consumer is held to C̄ = 200 kB/s and given C = 5/6 of it. Every record written after a "
        "settling minute counts: from its timestamp in Kafka to the commit that makes it "
        "readable. lagless packs with mwf or sticky; kd_n is a fixed group of n that deals "
        "partitions out by count and runs the same consumer, n being what lagless used on average, "
        "rounded up, which is in its favour. It also has its consumers reading before "
        "the load begins.",
        *_compared(runs),
        *filter(None, [_moves(runs)]),
        "The paper's model knows only bytes that a consumer is too slow for, or that wait out a "
        "rebalance. Measured records also wait for their batch to be gathered (up to 2 s) and for "
        "the cycle that reads, writes and commits it, and a moved partition waits as long as the "
        "move takes, not a fixed 2.5 s. So where the model says 0 the measurement has a floor of a "
        "few seconds; where a consumer is overloaded the backlog decides. A fixed group that is "
        "too slow for the first row also begins with what it was late with after the settling "
        "minute, which the model does not have.",
    ]
    tables = [
        Table("Measured", RUNS, [_run(row) for row in runs]),
        Table("The model, of all bytes", header, predicted),
    ]
    return Section("End-to-end latency", words, tables, ["delay", "consumers"])


def _moves(runs: Sequence[Mapping[str, Any]]) -> str:
    """Say how often lagless reassigned."""
    told = [
        f"{row['name']} reassigned {row['reassignments']} times and moved {row['migrations']} "
        "partitions"
        for row in runs
        if row.get("reassignments")
    ]
    return ("; ".join(told) + ", the start included.") if told else ""


def _compared(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say who is better, at which percentile, in a sentence each."""
    packed = [row for row in runs if row["name"] in PACKED and row["p50"] is not None]
    others = [row for row in runs if row not in packed and row["p50"] is not None]
    told = []
    for other in others:
        for mine in packed:
            sides = {
                key: "better" if mine[key] < other[key] else "worse"
                for key in ("p50", "p90", "p99")
            }
            parts = ", ".join(
                f"{key} {side} ({mine[key]:.2f} against {other[key]:.2f} s)"
                for key, side in sides.items()
            )
            told.append(
                f"{mine['name']} with {mine['consumers']:.1f} consumers against {other['name']} "
                f"with {other['consumers']:.1f}: {parts}."
            )
    return told


def rival(data: Data) -> Section:
    """Tell what an ordinary group scaled by KEDA's rule does."""
    runs = data.get("runs", [])
    words = [
        "An ordinary consumer group with cooperative-sticky assignment (confluent-kafka), whose "
        "members append to Delta with deltalake and commit offsets afterwards, on the same stream "
        "and held to the same rate. KEDA's rule scales it: every 30 s replicas = lag / threshold, "
        "at most one per partition, fewer only after 300 s. The threshold is ten seconds of one "
        "consumer's reading. In its favour: it begins with as many consumers as sticky, all joined "
        "before the load begins; new ones are processes, not pods; it grows without the "
        "autoscaler's limits; members that go have time to write and commit; and it has no Spark, "
        "so that a member starts sooner and a batch is written faster.",
    ]
    for row in runs:
        sizes = [size for _, size in row["line"]]
        words.append(
            f"It had {min(sizes, default=0)} to {max(sizes, default=0)} consumers, "
            f"changed its size {row['rebalances']} times, had {row['refused']} commits of offsets "
            f"refused, {row['lost']:,} records lost and {row['duplicated']:,} doubled."
        )
    return Section(
        "A rival: a plain group scaled by KEDA",
        words,
        [Table("Measured", RUNS, [_run(row) for row in runs])],
        [],
    )


def against(measured: Data, other: Data) -> list[str]:
    """Compare lagless with the rival, where both were measured on streams of one kind."""
    packed = [row for row in measured.get("runs", []) if row["name"] in PACKED]
    told = _compared([*packed, *other.get("runs", [])])
    minutes = [data["settings"]["minutes"] for data in (measured, other)]
    if told and minutes[0] != minutes[1]:
        told.append(
            f"lagless was measured for {minutes[0]:g} minutes of that stream, the rival for "
            f"{minutes[1]:g}."
        )
    return told
