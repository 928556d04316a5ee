"""Time the paper's grid on Spark beside a plain process pool, and a grid of 100,000 partitions.

python benchmarks/evaluation.py [grid] [large] [loop] [--json FILE]
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # it ships no types
import pyarrow as pa
import pyarrow.parquet as pq

from lagless import packing
from lagless.lab.model import replay, streams
from lagless.lab.paper import cells, grid
from lagless.lab.paper.experiments import PAPER
from lagless.packing import kernels

SMALL = cells.every(PAPER, deltas=(5.0,), starts=("random",), partitions=(50,))
LARGE = (*PAPER, "ezzeddine", "sticky", "kd_50000")


class Memory:
    """The most memory that this process and its descendants had together, in bytes."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._over.wait(0.2):
            total = 0
            for process in (me, *me.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    # Shared pages count once: workers are forks that share most of theirs.
                    total += process.memory_full_info().pss
            self.peak = max(self.peak, total)


@contextlib.contextmanager
def timed(times: dict[str, float], name: str) -> Iterator[None]:
    """Note how long the block takes."""
    began = time.perf_counter()
    yield
    times[name] = time.perf_counter() - began


def paper(rounds: int = 3) -> dict[str, float]:
    """Time the paper's grid: Spark with everything, then warm Spark and a warm pool in turn.

    Of the turns the best counts. The seconds of processor time say what a busy machine hides.
    """
    times: dict[str, float] = {}
    wanted, setting = cells.every(PAPER), cells.Setting()
    began = time.perf_counter()
    warm: list[tuple[float, float]] = []
    pooled: list[tuple[float, float]] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with timed(times, "session start"):
            spark = stack.enter_context(grid.opened("local[2]", PAPER))
        with timed(times, "grid on a cold session"):
            grid.run(spark, wanted, setting, folder / "cold")
        times["session start and grid"] = time.perf_counter() - began
        pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(2))
        work = partial(cells.work, setting=setting)
        pool.map(work, SMALL * 2, chunksize=len(SMALL))
        for turn in range(rounds):
            with measured(warm):
                rows = grid.run(spark, wanted, setting, folder / f"warm-{turn}")
            with measured(pooled):
                found = list(pool.imap_unordered(work, wanted))
                pq.write_table(pa.Table.from_batches(found), folder / "pool.parquet")
        assert rows.num_rows == len(wanted) * setting.measurements
    for name, turns in (("grid on a warm session", warm), ("process pool, warm", pooled)):
        times[name], times[f"{name}: processor"] = (
            min(column) for column in zip(*turns, strict=True)
        )
    times["ratio"] = times["grid on a warm session"] / times["process pool, warm"]
    times["ratio: processor"] = (
        times["grid on a warm session: processor"] / times["process pool, warm: processor"]
    )
    return times


@contextlib.contextmanager
def measured(turns: list[tuple[float, float]]) -> Iterator[None]:
    """Note seconds and processor seconds of this process and its descendants."""
    began, spent = time.perf_counter(), processor()
    yield
    turns.append((time.perf_counter() - began, processor() - spent))


def processor() -> float:
    """Sum the processor time of this process and its descendants."""
    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system
    return total


def large(partitions: int = 100_000, measurements: int = 20) -> dict[str, float]:
    """Time every algorithm on many partitions, and measure the memory of all processes."""
    times: dict[str, float] = {}
    spent: list[tuple[float, float]] = []
    known = [name for name in LARGE if _there(name)]
    wanted = cells.every(known, deltas=(5.0,), starts=("random",), partitions=(partitions,))
    with (
        Memory() as memory,
        tempfile.TemporaryDirectory() as folder,
        timed(times, f"{len(known)} algorithms, {partitions} partitions × {measurements}"),
        grid.opened("local[2]", known) as spark,
        measured(spent),
    ):
        rows = grid.run(spark, wanted, cells.Setting(measurements), Path(folder))
    times["processor"] = spent[0][1]
    times["peak memory of all processes (GiB)"] = memory.peak / 2**30
    names, seconds = (rows.column(key).to_numpy() for key in ("algorithm", "seconds"))
    return times | {
        f"  {a} per packing": float(seconds[names == a].mean()) for a in sorted(set(names))
    }


def _there(name: str) -> bool:
    try:
        packing.packer(name)
    except ImportError:
        return False
    return True


@kernels.kernel
def _whole(pack: Any, speeds: Any, capacity: float) -> float:
    """Replay in one compiled loop."""
    previous = np.zeros(speeds.shape[1], np.int64)
    total = 0.0
    for k in range(len(speeds)):
        current = pack(speeds[k], capacity, previous)
        _, rate, _ = kernels.tally(speeds[k], previous, current)
        total += rate / capacity
        previous = current
    return total


def loop() -> dict[str, float]:
    """Compare the replay's loop in Python with one that is compiled as a whole."""
    speeds = streams.speeds("random", 5.0, 200, 500, 1.0, np.random.default_rng(0))
    times: dict[str, float] = {}
    for name in ("nf", "nfd", "bfd", "mwf"):
        pack = packing.packer(name)
        with timed(times, f"{name}: compiling the whole loop"):
            _whole(pack, speeds[:2], 1.0)
        with timed(times, f"{name}: compiled loop"):
            total = _whole(pack, speeds, 1.0)
        replay.run(name, speeds[:2], 1.0, "fixed", 0)
        with timed(times, f"{name}: Python loop"):
            found = replay.run(name, speeds, 1.0, "fixed", 0)
        assert np.isclose(found.rscore.sum(), total)
    return times


def main() -> None:
    """Run what is asked for and print it."""
    parts: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
        "grid": lambda given: paper(given.rounds),
        "large": lambda _: large(),
        "loop": lambda _: loop(),
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="{grid,large,loop}", help="all if none is named"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of the warm grids")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in parts]
    if unknown:
        parser.error(f"there is no part {unknown[0]}: choose from {', '.join(parts)}")
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    for part in given.parts or parts:
        found[part] = parts[part](given)
        print(part)
        for name, value in found[part].items():
            print(f"  {name:<55} {value:9.3f}")
        sys.stdout.flush()
    if given.json:
        given.json.write_text(json.dumps(found, indent=2), "utf-8")


if __name__ == "__main__":
    main()
