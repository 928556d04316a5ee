"""Time the packing algorithms beside `binpacking` and `prtpy`, on the same partitions.

    python benchmarks/packing.py [--fastest 1.0] [--sizes 200,1000,10000,100000,1000000]

Speeds are uniform in [0, fastest · C]; the previous assignment is ffd's for speeds up to 5 % of C
away. Times are CPU seconds of one thread, the best of several runs, so that a machine that does
other work too tells the same; ratios are within one run. The rivals get a minute each.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lagless import packing

PAPER = ["nf", "nfd", "ff", "ffd", "bf", "bfd", "wf", "wfd", "mwf", "mbf", "mwfp", "mbfp"]
OTHERS = ["ezzeddine", "sticky"]
RIVALS = ["binpacking", "prtpy"]
PATIENCE = 60.0
Items = tuple[NDArray[np.float64], NDArray[np.int64]]


def items(size: int, fastest: float) -> Items:
    """Draw speeds at C = 1, and the assignment before."""
    rng = np.random.default_rng(size)
    before = rng.uniform(0, fastest, size)
    previous = packing.packer("ffd")(before, 1.0, np.zeros(size, np.int64))
    return np.clip(before + rng.uniform(-0.05, 0.05, size), 0, fastest), previous


def best(work: Callable[[], object], size: int) -> float:
    """Return the CPU seconds of the quickest of several runs."""
    runs = max(30, min(300, 2_000_000 // size))
    quickest = float("inf")
    for _ in range(runs):
        start = time.process_time()
        work()
        quickest = min(quickest, time.process_time() - start)
    return quickest


def rival(name: str, size: int, fastest: float) -> float | None:
    """Time a rival in a process of its own; None if it does not finish within a minute."""
    try:
        done = subprocess.run(
            [
                sys.executable,
                __file__,
                f"--rival={name}",
                f"--sizes={size}",
                f"--fastest={fastest}",
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE + 10,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds = float(done.stdout)
    return seconds if seconds < PATIENCE else None


def run_rival(name: str, size: int, fastest: float) -> None:
    """Print the CPU seconds of one packing by a rival, which knows no previous assignment."""
    speeds = items(size, fastest)[0].tolist()
    if name == "binpacking":
        import binpacking

        start = time.process_time()
        binpacking.to_constant_volume(dict(enumerate(speeds)), 1.0)
    else:
        import prtpy

        start = time.process_time()
        prtpy.pack(
            algorithm=prtpy.packing.first_fit_decreasing, binsize=1.0, items=dict(enumerate(speeds))
        )
    print(time.process_time() - start)


def shown(seconds: float | None) -> str:
    """Write seconds with a fitting unit."""
    if seconds is None:
        return "> 1 min"
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def row(name: str, cells: list[str]) -> None:
    """Print a row of the table."""
    print(f"{name:<22}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="200,1000,10000,100000,1000000")
    parser.add_argument("--fastest", type=float, default=1.0, help="fastest partition, in C")
    parser.add_argument("--rival", choices=RIVALS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    if options.rival:
        run_rival(options.rival, sizes[0], options.fastest)
        return
    data = {size: items(size, options.fastest) for size in sizes}
    growth = (100_000, 1_000_000)
    grown = all(size in sizes for size in growth)

    print(f"C = 1, speeds uniform in [0, {options.fastest:g}], CPU time of one packing\n")
    row("kernel", [f"{size:,}" for size in sizes] + ["growth", "consumers"])
    kernels: dict[tuple[str, int], float] = {}
    for name in PAPER + OTHERS:
        pack = packing.packer(name)
        for size, (speeds, previous) in data.items():
            pack(speeds[:2], 1.0, previous[:2])  # compile
            kernels[name, size] = best(partial(pack, speeds, 1.0, previous), size)
        times = [kernels[name, size] for size in sizes]
        ratio = f"{kernels[name, growth[1]] / kernels[name, growth[0]]:.1f}" if grown else "-"
        used = len(np.unique(pack(data[sizes[-1]][0], 1.0, data[sizes[-1]][1])))
        row(name, [shown(t) for t in times] + [ratio, f"{used:,}"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory of the kernels' process: {peak:.2f} GiB\n")

    row("dict around it (ffd)", [f"{size:,}" for size in sizes])
    around = []
    for size, (speeds, previous) in data.items():
        named = {f"topic:{j}": speed for j, speed in enumerate(speeds.tolist())}
        before = dict(zip(named, previous.tolist(), strict=True))
        whole = best(partial(packing.pack, named, 1.0, before, "ffd"), 10 * size)
        around.append(shown(max(whole - kernels["ffd", size], 0.0)))
    row("pack", around)

    print()
    row("rival", [f"{size:,}" for size in sizes])
    for name in RIVALS:
        slower: list[str] = []
        cells: list[str] = []
        seconds: float | None = 0.0
        for size in sizes:
            seconds = None if seconds is None else rival(name, size, options.fastest)
            cells.append(shown(seconds))
            slower.append("-" if seconds is None else f"{seconds / kernels['ffd', size]:,.0f} ×")
        row(name, cells)
        row("  against ffd here", slower)


if __name__ == "__main__":
    main()
