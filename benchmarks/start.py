"""How soon a consumer helps: MB/s in the seconds after it was requested, and the memory it takes.

    python -m benchmarks.start [--modes own,shared,cluster,spare,large] [--cpu 1.0] [--seconds 90]
        [--warm 60] [--json] [--page docs]

A consumer's process is requested, under a quota of `--cpu` cores (0: none), and given 4 partitions
with a backlog as soon as it is ready, as the controller does. Batches are of 5 MB.

own      with a Spark of its own: Python and JVM share the quota
shared   a thin consumer on a Connect server that has served another one for `--warm` seconds; the
         server has a quota as large
cluster  the same, with the server on a standalone cluster; its executor is in the consumer's quota
spare    an own Spark that was ready and has rehearsed until it rests: the request is the order
large    as own, with batches of 50 MB: for the memory

"ready" is the seconds until its heartbeat says so, "first_rows" until a commit with rows is in the
table's log, "half_rate" until half of the steady rate is reached and kept; that is the rate of the
last third of `--seconds`. "cpu_seconds" are the processor seconds until ready: on a busy machine
compare those. "memory_mb" is the most that the processes in its quota held together, mapped jars
and the archive of classes included, and "anonymous_mb" what of it no file backs, which is what a
memory limit kills for. "curve" is MB/s in steps of 2 s.

`--page docs` keeps the figures in docs/img/start.json, draws docs/img/start.svg of all modes with
one core, and writes the table in docs/consumer.md.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import landings, page, shares
from benchmarks.landings import Curve, TableLog
from benchmarks.ordered import OrderedConsumer
from benchmarks.scale import FASTEST
from benchmarks.stage import TOPIC, Stage, Way, say
from lagless.lab import report
from lagless.wiring import clock

MODES = ("own", "shared", "cluster", "spare", "large")
PARTITIONS = 4
STEP = 2.0
"""Seconds of a step of the curve."""
LARGE = 50_000_000
SPARE = 240.0
"""Seconds that a spare may rehearse."""


def measured(mode: str, stage: Stage, given: Any) -> dict[str, Any]:
    """Measure one start."""
    way = Way(mode if mode in ("shared", "cluster") else "own", stage, 1)
    # Nothing is written while a start is measured; the same backlog serves all.
    share_of_core = given.cpu or 2.0
    stage.keep_ahead({}, FASTEST * share_of_core * (given.seconds + given.warm) / PARTITIONS)
    consumer = {"batch_bytes": LARGE, "max_batch_bytes": LARGE} if mode == "large" else {}
    say(f"{mode}: starting")
    with way:
        settings, file = stage.group(
            f"start-{mode}-{time.time_ns()}", way.spark, consumer={"heartbeat": 0.5, **consumer}
        )
        if mode in ("shared", "cluster"):
            say(f"{mode}: another consumer reads for {given.warm:g} s")
            before = OrderedConsumer(stage, way.shares[1], settings, file, 1)
            until = before.start_all() + given.warm
            before.until(lambda: time.time() > until)
            before.end()
        log = TableLog(Path(str(settings.lake.path)) / TOPIC)
        had = {p: offset for landing in log.read() for p, offset in landing.offsets.items()}
        one = OrderedConsumer(stage, way.shares[1], settings, file, 2)
        if mode == "spare":
            one.until(lambda: one.ready is not None)
            one.rest(SPARE)
        at = one.start_all()
        requested = at if mode == "spare" else one.requested
        curve = Curve(frozenset(range(PARTITIONS)), stage.bytes_per_offset(), [], had)
        start = curve.size * sum(had.values())
        while time.time() < requested + given.seconds:
            one.listen(0.2)
            curve.add(log.read())
        one.end()
        curve.points[:] = [(moment, size - start) for moment, size in curve.points]
    if any(curve.offsets.get(p, 0) >= stage.written[p] for p in curve.partitions):
        raise SystemExit("a backlog ran out: take fewer --seconds")
    until = requested + given.seconds
    steady = curve.rate(until - given.seconds / 3, until)
    if steady is None or curve.first is None:
        raise SystemExit("too few cycles: take more --seconds")
    say(f"{mode}: first rows after {curve.first - requested:.1f} s, {steady / 1e6:.1f} MB/s")
    return {
        "mode": mode,
        "cpu": given.cpu or None,
        "ready": None if mode == "spare" else one.ready,
        "first_rows": curve.first - requested,
        "half_rate": landings.half_after(curve, requested, steady),
        "steady_mb_per_second": steady / 1e6,
        "cpu_seconds": one.ready_seconds,
        "memory_mb": one.memory / 1e6,
        "anonymous_mb": one.anonymous / 1e6,
        "curve": [round(rate, 2) for rate in landings.binned(curve, requested, until, STEP)],
    }


TITLES = {
    "own": "own Spark",
    "shared": "thin, on a shared server that is warm",
    "cluster": "thin, on a cluster that is warm",
    "spare": "warm spare with its own Spark",
    "large": "own Spark, batches of 50 MB",
}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the figures as a table in Markdown."""
    head = ["", "cores", "ready", "first rows", "half of the steady rate", "steady rate"]
    head += ["memory", "without mapped files"]
    lines = [head, ["---"] * len(head)]
    ordered = sorted(rows.values(), key=lambda row: (MODES.index(row["mode"]), -(row["cpu"] or 0)))
    for row in ordered:
        seconds = [row["ready"], row["first_rows"], row["half_rate"]]
        lines.append(
            [
                TITLES[row["mode"]],
                f"{row['cpu']:g}" if row["cpu"] else "no limit",
                *("–" if value is None else f"{value:.1f} s" for value in seconds),
                f"{row['steady_mb_per_second']:.1f} MB/s",
                f"{row['memory_mb']:.0f} MB",
                f"{row['anonymous_mb']:.0f} MB",
            ]
        )
    dates = ", ".join(sorted({row["date"] for row in rows.values()}))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\nMeasured on {dates}."


def draw(rows: dict[str, dict[str, Any]], folder: Path) -> None:
    """Draw the curves of one core."""
    with report.canvas(folder, "start") as axes:
        for mode in MODES[:4]:
            row = rows.get(name(mode, 1.0))
            if row is not None:
                at = [STEP * (number + 0.5) for number in range(len(row["curve"]))]
                axes.plot(at, row["curve"], label=TITLES[mode])
        axes.set(xlabel="seconds after the request", ylabel="MB/s", xlim=(0, None), ylim=(0, None))
    (folder / "start.png").unlink()


def name(mode: str, cpu: float | None) -> str:
    """Return the name under which a start's figures are kept."""
    return f"{mode} {cpu:g}" if cpu else f"{mode} no limit"


def main() -> None:
    """Measure the starts, and print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--modes", default=",".join(MODES), help="with commas between")
    add("--cpu", type=float, default=1.0, help="cores of a consumer, and of a server; 0: no limit")
    add("--seconds", type=float, default=90, help="after the request")
    add("--warm", type=float, default=60, help="seconds that a server has worked before")
    add("--json", action="store_true")
    add("--page", type=Path, metavar="FOLDER", help="keep figures, plot and table there")
    given = parser.parse_args()
    modes = given.modes.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"--modes: there is no {', '.join(sorted(unknown))}")
    # On SIGTERM, end through the context managers, which leave nothing behind.
    clock.on_signals(lambda: sys.exit(1), (signal.SIGTERM,))
    try:
        where = shares.here() if given.cpu else None
        with Stage(PARTITIONS, given.cpu, where) as stage:
            found = [measured(mode, stage, given) for mode in modes]
    except shares.NoShares as error:
        sys.exit(f"benchmarks.start: {error}")
    rows = {name(row["mode"], row["cpu"]): row for row in found}
    if given.page:
        rows = page.keep(given.page / "img" / "start.json", rows)
        draw(rows, given.page / "img")
        page.write(given.page / "consumer.md", "start", table(rows))
    print(json.dumps(found, indent=2) if given.json else table(page.dated(rows)))


if __name__ == "__main__":
    main()
