"""Whether consumers add up: MB/s of 1, 2 and 3 consumers, each with a fixed share of a processor.

    python -m benchmarks.scale [--modes own,shared,cluster] [--counts 1,2,3] [--cpu 0.5]
        [--seconds 25] [--warm 210] [--json] [--page docs]

Each consumer is a process with a quota of `--cpu` cores (benchmarks.shares) and partitions of its
own, all with a backlog, which is read in batches of 5 MB. The modes are those of benchmarks.stage.

1. As many consumers as the largest count start, and read until the rate is steady: three stretches
   of 15 s in a row agree, or `--warm` seconds are over.
2. The rate is measured for `--seconds`, while nothing is written to Kafka. It is the log bytes that
   landed in the Delta table, by the table's own log, from commit to commit of each consumer.
3. The last consumer ends, and the next smaller count is measured. So every count is measured with
   the same warm processes, and a consumer has the same partitions throughout. One consumer is
   measured last, when it is warmest: where the rate was not "steady", ratios come out too low.

With `--json` it prints a list with one object per mode: "consumers" (MB/s by count), "ratio" (over
one consumer), "cores" (processor seconds per second, everything that has a share), "cpu" and
"steady". `--page docs` keeps the figures in docs/img/scale.json, and writes the table in
docs/consumer.md from that file; other modes' figures stay. Exit status 1 if a backlog ran out.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import landings, page, shares
from benchmarks.landings import Curve, TableLog
from benchmarks.stage import MODES, TOPIC, Stage, Way, say
from lagless.adapters.kafka import topics
from lagless.lab.parts import children
from lagless.wiring import clock

STRETCH = 15.0
"""Seconds of a stretch that is compared with the next one."""
AHEAD = 60e6
"""Bytes that each partition has at least while consumers get warm."""
FASTEST = 25e6
"""Bytes/s that a consumer with one core does not exceed: so much is written ahead of a window."""
SETTLE = 5.0
"""Seconds after a consumer has ended, until the next window."""
DONE = 60.0
"""Seconds for a consumer to end its cycle."""


class Group:
    """The consumers of a mode, and what they have landed."""

    def __init__(self, way: Way, most: int, size: float) -> None:
        self._way = way
        self._stage = stage = way.stage
        settings, file = stage.group(f"scale-{way.mode}", way.spark)
        topics.ensure(settings)
        self._log = TableLog(Path(str(settings.lake.path)) / TOPIC)
        each = stage.partitions // most
        self.curves: dict[int, Curve] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._logs: dict[int, Path] = {}
        for n in range(1, most + 1):
            mine = range((n - 1) * each, n * each)
            self.curves[n] = Curve(frozenset(mine), size)
            self._logs[n] = stage.folder / f"{way.mode}-{n}.log"
            words = ["consumer", str(n), "--config", str(file)]
            words += ["--assign", f"{TOPIC}:{','.join(map(str, mine))}"]
            self._processes[n] = stage.start(way.shares[n], self._logs[n], *words)

    @property
    def offsets(self) -> dict[int, int]:
        """The next offset of each partition."""
        return {p: offset for curve in self.curves.values() for p, offset in curve.offsets.items()}

    def look(self) -> None:
        """Take in what has landed; SystemExit if a consumer has ended by itself."""
        landed = self._log.read()
        for curve in self.curves.values():
            curve.add(landed)
        for n, process in self._processes.items():
            if process.poll() is not None:
                raise SystemExit(f"consumer {n} ended: {children.last_lines(self._logs[n])}")

    def rate(self, since: float, until: float) -> float | None:
        """Return bytes/s of all consumers that run."""
        rates = [self.curves[n].rate(since, until) for n in self._processes]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if len(known) == len(rates) else None

    def get_warm(self, seconds: float) -> bool:
        """Read, with a backlog that is kept up, until the rate is steady; False if it never is."""
        rates: list[float | None] = []
        end = time.time() + seconds
        while True:
            since = time.time()
            while time.time() < since + STRETCH:
                self.look()
                self._stage.keep_ahead(self.offsets, AHEAD)
                time.sleep(0.5)
            rates.append(self.rate(since, time.time()))
            told = "no rate yet" if rates[-1] is None else f"{rates[-1] / 1e6:.1f} MB/s"
            say(f"{self._way.mode}, getting warm: {told}")
            if landings.is_steady(rates):
                return True
            if time.time() > end and rates[-1] is not None:
                return False
            if time.time() > end + 300:
                raise SystemExit("the consumers do not read: give them more with --cpu")

    def measure(self, seconds: float) -> tuple[float, float]:
        """Return bytes/s and cores of a window in which nothing is written."""
        each = self._stage.partitions / len(self.curves)
        fastest = FASTEST * (self._stage.cores or 2.0)
        self._stage.keep_ahead(self.offsets, fastest * (seconds + SETTLE) / each)
        time.sleep(SETTLE)
        began, used, since = time.monotonic(), self._way.seconds(), time.time()
        while time.time() < since + seconds:
            time.sleep(0.5)
            self.look()
        rate = self.rate(since, time.time())
        cores = (self._way.seconds() - used) / (time.monotonic() - began)
        running = [p for n in self._processes for p in self.curves[n].partitions]
        if any(self.offsets.get(p, 0) >= self._stage.written[p] for p in running):
            raise SystemExit("a backlog ran out in the window: this machine is too fast for it")
        if rate is None:
            raise SystemExit("too few cycles in the window: take more --seconds")
        return rate, cores

    def end_one(self) -> None:
        """End the last consumer, and free its share."""
        n = max(self._processes)
        process = self._processes.pop(n)
        process.terminate()
        try:
            process.wait(DONE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._way.shares[n].close()


def measured(mode: str, stage: Stage, counts: Sequence[int], given: Any) -> dict[str, Any]:
    """Measure one mode, from the largest count to the smallest."""
    most = max(counts)
    say(f"{mode}: starting {most} consumers")
    rates, cores = {}, {}
    with Way(mode, stage, most) as way:
        group = Group(way, most, stage.bytes_per_offset())
        steady = group.get_warm(given.warm)
        for count in range(most, 0, -1):
            if count in counts:
                rate, used = group.measure(given.seconds)
                rates[count], cores[str(count)] = rate, round(used, 2)
                say(f"{mode}, {count} consumers: {rate / 1e6:.1f} MB/s on {used:.2f} cores")
            group.end_one()
    return {
        "mode": mode,
        "consumers": {str(count): rates[count] / 1e6 for count in sorted(rates)},
        "ratio": landings.ratios(rates),
        "cores": cores,
        "cpu": given.cpu or None,
        "steady": steady,
    }


TITLES = {
    "own": "own Spark in each consumer",
    "shared": "one shared server with the share of one consumer",
    "cluster": "server on a cluster, one executor per consumer",
}


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return the figures as a table in Markdown, a row per mode."""
    counts = sorted({count for row in found.values() for count in row["consumers"]}, key=int)
    names = [f"{count} consumer{'s' if count != '1' else ''}" for count in counts]
    lines = [["", *names], ["---"] * (1 + len(counts))]
    for mode in (mode for mode in MODES if mode in found):
        row = found[mode]
        cells = []
        for count in counts:
            rate, ratio = row["consumers"].get(count), row["ratio"].get(count)
            text = "–" if rate is None else f"{rate:.1f} MB/s"
            cells.append(text if ratio is None else f"{text} (× {ratio:.2f})")
        lines.append([TITLES[mode], *cells])
    shares_told = sorted({row["cpu"] or 0 for row in found.values()})
    cores = " and ".join(f"{share:g}" if share else "no limit" for share in shares_told)
    dates = ", ".join(sorted({row["date"] for row in found.values()}))
    note = f"\n\nCores per consumer: {cores}. Measured on {dates}."
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + note


def main() -> None:
    """Measure the modes, and print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--modes", default=",".join(MODES), help="with commas between")
    add("--counts", default="1,2,3", help="numbers of consumers; 1 is always measured")
    add("--cpu", type=float, default=0.5, help="cores of each consumer; 0: no limit")
    add("--seconds", type=float, default=25, help="of each measurement")
    add("--warm", type=float, default=210, help="maximum seconds until a measurement begins")
    add("--json", action="store_true")
    add("--page", type=Path, metavar="FOLDER", help="keep figures and table in the documentation")
    given = parser.parse_args()
    modes = given.modes.split(",")
    counts = sorted({1, *map(int, given.counts.split(","))})
    if unknown := set(modes) - set(MODES):
        parser.error(f"--modes: there is no {', '.join(sorted(unknown))}")
    if counts[0] < 1:
        parser.error("--counts: at least 1")
    # On SIGTERM, end through the context managers, which leave nothing behind.
    clock.on_signals(lambda: sys.exit(1), (signal.SIGTERM,))
    try:
        where = shares.here() if given.cpu else None
        # A consumer's share must not be what the others leave.
        if given.cpu * max(counts) > (os.cpu_count() or 1):
            say(f"{max(counts)} consumers with {given.cpu:g} cores do not fit on this machine")
        rows = []
        with Stage(2 * max(counts), given.cpu, where) as stage:
            say("writing the first backlog")
            stage.keep_ahead({}, 2 * AHEAD)
            for mode in modes:
                rows.append(measured(mode, stage, counts, given))
    except shares.NoShares as error:
        sys.exit(f"benchmarks.scale: {error}")
    found = {row["mode"]: row for row in rows}
    if given.page:
        whole = page.keep(given.page / "img" / "scale.json", found)
        page.write(given.page / "consumer.md", "scale", table(whole))
    print(json.dumps(rows, indent=2) if given.json else table(page.dated(found)))


if __name__ == "__main__":
    main()
