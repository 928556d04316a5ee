"""One consumer under every kind of fault, with the harness in the controller's place.

    python -m tests.chaos consumer --kills 50 --seed S --report FILE
    python -m tests.chaos consumer --lake s3 --kills 50 --seed S --report FILE
    python -m tests.chaos consumer --spark local --kills 50 --seed S --report FILE
    python -m tests.chaos consumer --format avro --kills 50 --seed S --report FILE
    python -m tests.chaos consumer --brokers 3 --kills 50 --seed S --report FILE

With `--lake s3` the lake is in a bucket, whose requests meet faults too (see `buckets`). After the
run the lake is compared with what was produced, record by record. `--spark` says where Spark runs,
parts of which are killed too (see `sparks`). `--format` says what records look like; their fields
may change in mid-run (see `evolving`). With `--brokers 3` Kafka is a cluster, whose leaders change
in mid-cycle (see `elections`); a fault of the broker is one of the whole cluster.
"""

import argparse
import contextlib
import json
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos import account as accounts
from tests.chaos import buckets, elections, evolving, sparks
from tests.chaos.buckets import BucketLake
from tests.chaos.evolving import Writing
from tests.chaos.orders import DEADLINE, TOPICS, Consumer, Harness
from tests.chaos.sparks import Sparks

POINTS = ("reading", "written", "between-tables", "committed", "claimed", "receipt")
KINDS = (*POINTS, "random", "stop-and-continue", "broker", "disk", "remake", "retention")


class Run:
    """A run of so many faults of some kinds, or of all, drawn from a seed."""

    def __init__(self, harness: Harness, kills: int, seed: int, chosen: Sequence[str] = ()) -> None:
        self.harness = harness
        self.elections = elections.of(harness.bed, TOPICS, seed)
        self.random = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        """How consumers ended by themselves, other than by a kill."""
        known = [*KINDS, *harness.engine.kinds, *harness.writing.kinds]
        known += [] if harness.bucket is None else buckets.KINDS
        known += [] if self.elections is None else elections.KINDS
        kinds = [kind for kind in chosen or known if kind != "disk" or harness.mounted]
        self.random.shuffle(kinds)
        plan = [kinds[number % len(kinds)] for number in range(kills)]
        self.random.shuffle(plan)
        self.plan = plan

    def go(self) -> None:
        """Do every fault of the plan, then let the consumer catch up."""
        harness = self.harness
        began = time.monotonic()
        consumer: Consumer | None = None
        for number, kind in enumerate(self.plan):
            if consumer is None or not consumer.alive:
                point = kind if kind in POINTS else "none"
                consumer = harness.launch(self.random.randint(1, 3), point, self._times(kind))
                harness.run(consumer)
            elif kind in POINTS:
                # The point is armed at the start: start again; this death is one of the plan's too.
                consumer.kill()
                consumer = harness.launch(consumer.number, kind, self._times(kind))
                harness.run(consumer)
            following = self._fault(kind, consumer)
            if (status := consumer.process.poll()) is not None and status != -signal.SIGKILL:
                self.statuses[status] += 1
            consumer = following
            self.kills[kind] += 1
            elapsed = time.monotonic() - began
            print(f"{elapsed:6.0f} s  {number + 1}/{len(self.plan)} {kind}", flush=True)
        harness.source.stop()
        self._catch_up(consumer)

    def _times(self, kind: str) -> int:
        """Say at which arrival to die; a start order is claimed and answered once or twice."""
        return self.random.randint(1, {"receipt": 1, "claimed": 3}.get(kind, 4))

    def _fault(self, kind: str, consumer: Consumer) -> Consumer | None:
        harness = self.harness
        if kind in POINTS:
            if not harness.until(lambda: not consumer.alive, 180):
                raise SystemExit(f"the consumer never came to {kind}")
            consumer.kill()
            return None
        harness.until(lambda: False, self.random.uniform(0.2, 2.5))
        if harness.bucket is not None and kind in buckets.KINDS:
            harness.bucket.misbehave(kind, harness.until)
        if self.elections is not None and kind in elections.KINDS:
            self.elections.hold(lambda seconds: harness.until(lambda: False, seconds))
        if kind in evolving.KINDS:
            harness.writing.change(kind, harness.until)
        if kind in ("random", "evolve"):
            consumer.kill()
            return None
        if kind == "stop-and-continue":
            return self._zombie(consumer)
        if kind == "connect":
            harness.bed.connect.kill()
            harness.until(lambda: False, self.random.uniform(0.0, 3.0))
            harness.bed.connect.start()
        elif kind in harness.engine.kinds:
            harness.engine.kill(kind, lambda: [consumer.process.pid])
        elif kind == "broker":
            if self.random.random() < 0.5:
                harness.bed.broker.kill()
            else:
                harness.bed.broker.stop()
            time.sleep(self.random.uniform(0.0, 3.0))
            harness.bed.broker.start()
        elif kind == "disk":
            self._fill(self.random.uniform(2.0, 5.0))
        elif kind == "remake":
            harness.source.remake("remade")
        elif kind == "retention":
            consumer.process.send_signal(signal.SIGSTOP)
            time.sleep(self.random.uniform(0.5, 2.0))
            harness.source.delete_records("short", self.random.randint(0, 20))
            consumer.process.send_signal(signal.SIGCONT)
        harness.until(lambda: not consumer.alive, 2.0)
        return consumer

    def _zombie(self, consumer: Consumer) -> Consumer:
        """Stop a consumer past its deadline, let another take over, and wake the first."""
        harness = self.harness
        consumer.process.send_signal(signal.SIGSTOP)
        other = harness.launch(consumer.number % 3 + 1)
        harness.run(other)
        time.sleep(max(0.0, self.random.uniform(-DEADLINE / 2, DEADLINE / 2)))
        consumer.process.send_signal(signal.SIGCONT)
        harness.until(lambda: False, 3.0)
        consumer.kill()
        return other

    def _fill(self, seconds: float) -> None:
        filler = self.harness.disk / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                while True:
                    file.write(b"\0" * (1 << 20))
        except OSError:
            time.sleep(seconds)
        filler.unlink(missing_ok=True)

    def _catch_up(self, consumer: Consumer | None) -> None:
        harness = self.harness
        end = time.monotonic() + 1200
        while time.monotonic() < end:
            if consumer is None or not consumer.alive:
                consumer = harness.launch(1)
                harness.run(consumer)
            seen = consumer.last
            time.sleep(1.0)
            harness.listen(0.5)
            now = consumer.last
            if (
                now is not None
                and seen is not None
                and now.lag_records == 0
                and not now.trouble
                and len(now.held) == sum(TOPICS.values())
                and now.at > seen.at
                and seen.lag_records == 0
            ):
                break
        else:
            print("the consumer did not catch up", flush=True)
        if consumer is not None:
            consumer.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                consumer.process.wait(30)


def main(arguments: list[str]) -> int:
    """Run, compare, write the report; 0 if nothing is lost, doubled or out of order."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos consumer")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--rate", type=float, default=40, help="records per second and partition")
    parser.add_argument("--kinds", help="faults, with commas between; all by default")
    parser.add_argument("--lake", choices=("folder", "s3"), default="folder")
    parser.add_argument("--spark", choices=sparks.MODES, default="connect")
    parser.add_argument("--format", choices=evolving.MODES, default="json")
    parser.add_argument("--brokers", type=int, default=1, help="of Kafka; from 2 on a cluster")
    parser.add_argument("--data-dir", type=Path, help="kept for a look afterwards")
    given = parser.parse_args(arguments)
    chosen = given.kinds.split(",") if given.kinds else []
    folder = given.data_dir or Path(tempfile.mkdtemp(prefix="lagless-chaos-"))
    folder = folder.absolute()
    bucket = BucketLake(folder, given.seed) if given.lake == "s3" else None
    engine = Sparks(given.spark, folder, given.seed, "1g", brokers=given.brokers)
    writing = Writing(given.format, TOPICS, folder, given.seed)
    known = {*KINDS, *engine.kinds, *writing.kinds, *(() if bucket is None else buckets.KINDS)}
    known |= {*elections.KINDS} if given.brokers > 1 else set()
    if unknown := set(chosen) - known:
        parser.error(f"--kinds: here there is no {', '.join(sorted(unknown))}")
    harness = Harness(folder, given.rate, bucket, engine, writing)
    try:
        harness.start()
        run = Run(harness, given.kills, given.seed, chosen)
        run.go()
        found = result(harness, run)
    finally:
        harness.stop()
    if given.data_dir is None:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(found, indent=2)
    print(text)
    if given.report is not None:
        given.report.write_text(text)
    wrong = (
        "lost",
        "duplicated",
        "out_of_order",
        "unexpected",
        "gone_and_landed",
        "holes",
        "fields_wrong",
    )
    return 1 if any(found.get(name) for name in wrong) else 0


def result(harness: Harness, run: Run) -> dict[str, Any]:
    """Compare the lake with what was produced, in the fields of the demo's report."""
    met = {} if harness.bucket is None else harness.bucket.calm()
    counted = accounts.report(harness.source.account, harness.lake, harness.source.runs)
    nothing = dict.fromkeys(("dt1", "dt2", "dt3", "dt4"))
    return {
        **counted,
        "holes": buckets.holes(harness.lake),
        "reassignments": 0,
        "migrations": run.kills["stop-and-continue"],
        "consumers_max": 2 if run.kills["stop-and-continue"] else 1,
        **nothing,
        "kills": dict(run.kills),
        "statuses": dict(run.statuses),
        **met,
        **harness.writing.report(harness.lake),
        **({} if run.elections is None else run.elections.report()),
    }
