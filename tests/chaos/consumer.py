"""One consumer under every kind of fault, with the harness in the controller's place.

    python -m tests.chaos consumer --kills 50 --seed S --report FILE

After the run the lake is compared with what was produced, record by record.
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
from pathlib import Path
from typing import Any

from tests.chaos import account as accounts
from tests.chaos.ground import DEADLINE, TOPICS, Ward, World

POINTS = ("reading", "written", "between-tables", "committed", "claimed", "receipt")
KINDS = (*POINTS, "random", "stop-and-continue", "spark", "broker", "disk", "remake", "retention")


class Run:
    """A run of so many faults, drawn from a seed."""

    def __init__(self, world: World, kills: int, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.kills: Counter[str] = Counter()
        kinds = [kind for kind in KINDS if kind != "disk" or world.mounted]
        plan = [kinds[number % len(kinds)] for number in range(kills)]
        self.random.shuffle(plan)
        self.plan = plan

    def go(self) -> None:
        """Do every fault of the plan, then let the consumer catch up."""
        world = self.world
        began = time.monotonic()
        ward: Ward | None = None
        for number, kind in enumerate(self.plan):
            if ward is None or not ward.alive:
                point = kind if kind in POINTS else "none"
                ward = world.bear(self.random.randint(1, 3), point, self._times(kind))
                world.run(ward)
            elif kind in POINTS:
                # The point is armed at the start: begin anew, this death is one of the plan's too.
                ward.kill()
                ward = world.bear(ward.number, kind, self._times(kind))
                world.run(ward)
            ward = self._fault(kind, ward)
            self.kills[kind] += 1
            elapsed = time.monotonic() - began
            print(f"{elapsed:6.0f} s  {number + 1}/{len(self.plan)} {kind}", flush=True)
        world.source.stop()
        self._catch_up(ward)

    def _times(self, kind: str) -> int:
        """Say at which arrival to die; a start order is claimed and answered once or twice."""
        return self.random.randint(1, {"receipt": 1, "claimed": 3}.get(kind, 4))

    def _fault(self, kind: str, ward: Ward) -> Ward | None:
        world = self.world
        if kind in POINTS:
            if not world.until(lambda: not ward.alive, 180):
                raise SystemExit(f"the consumer never came to {kind}")
            ward.kill()
            return None
        world.until(lambda: False, self.random.uniform(0.2, 2.5))
        if kind == "random":
            ward.kill()
            return None
        if kind == "stop-and-continue":
            return self._zombie(ward)
        if kind == "spark":
            world.spark.kill()
            world.until(lambda: False, self.random.uniform(0.0, 3.0))
            world.spark.start()
        elif kind == "broker":
            if self.random.random() < 0.5:
                world.broker.kill()
            else:
                world.broker.stop()
            time.sleep(self.random.uniform(0.0, 3.0))
            world.broker.start()
        elif kind == "disk":
            self._fill(self.random.uniform(2.0, 5.0))
        elif kind == "remake":
            world.source.remake("anew")
        elif kind == "retention":
            ward.process.send_signal(signal.SIGSTOP)
            time.sleep(self.random.uniform(0.5, 2.0))
            world.source.delete_records("short", self.random.randint(0, 20))
            ward.process.send_signal(signal.SIGCONT)
        world.until(lambda: not ward.alive, 2.0)
        return ward

    def _zombie(self, ward: Ward) -> Ward:
        """Stop a consumer past its deadline, let another take over, and wake the first."""
        world = self.world
        ward.process.send_signal(signal.SIGSTOP)
        other = world.bear(ward.number % 3 + 1)
        world.run(other)
        time.sleep(max(0.0, self.random.uniform(-DEADLINE / 2, DEADLINE / 2)))
        ward.process.send_signal(signal.SIGCONT)
        world.until(lambda: False, 3.0)
        ward.kill()
        return other

    def _fill(self, seconds: float) -> None:
        filler = self.world.lake / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                while True:
                    file.write(b"\0" * (1 << 20))
        except OSError:
            time.sleep(seconds)
        filler.unlink(missing_ok=True)

    def _catch_up(self, ward: Ward | None) -> None:
        world = self.world
        end = time.monotonic() + 1200
        while time.monotonic() < end:
            if ward is None or not ward.alive:
                ward = world.bear(1)
                world.run(ward)
            seen = ward.last
            time.sleep(1.0)
            world.listen(0.5)
            now = ward.last
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
        if ward is not None:
            ward.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                ward.process.wait(30)


def main(arguments: list[str]) -> int:
    """Run, compare, write the report; 0 if nothing is lost, doubled or out of order."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos consumer")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--rate", type=float, default=40, help="records per second and partition")
    parser.add_argument("--data-dir", type=Path, help="kept for a look afterwards")
    given = parser.parse_args(arguments)
    folder = given.data_dir or Path(tempfile.mkdtemp(prefix="lagless-chaos-"))
    world = World(folder.absolute(), given.rate)
    try:
        world.start()
        run = Run(world, given.kills, given.seed)
        run.go()
        found = result(world, run)
    finally:
        world.stop()
    if given.data_dir is None:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(found, indent=2)
    print(text)
    if given.report is not None:
        given.report.write_text(text)
    wrong = ("lost", "duplicated", "out_of_order", "unexpected", "gone_and_landed")
    return 1 if any(found[name] for name in wrong) else 0


def result(world: World, run: Run) -> dict[str, Any]:
    """Compare the lake with what was produced, in the fields of the demo's report."""
    counted = accounts.report(world.source.account, world.lake, world.source.runs)
    nothing = dict.fromkeys(("dt1", "dt2", "dt3", "dt4"))
    return {
        **counted,
        "reassignments": 0,
        "migrations": run.kills["stop-and-continue"],
        "consumers_max": 2 if run.kills["stop-and-continue"] else 1,
        **nothing,
        "kills": dict(run.kills),
    }
