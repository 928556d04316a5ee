"""How far algorithms are from what is possible, by the exact solver, on few partitions.

docs/evaluation.md ("evaluate paper") says what is compared. Both are proven bounds, whether or not
the solver ends in time.
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from lagless import extras
from lagless.lab import report
from lagless.lab.model import replay
from lagless.lab.paper import cells
from lagless.packing import scores

MOST_PARTITIONS = 40
"""The solver works to about this many."""
MEASUREMENTS = 30
"""Measurements of a stream that are compared; each takes the solver a part of a second."""


@dataclass(frozen=True, slots=True)
class Gap(cells.Cell):
    """A cell with its algorithm's means over the stream, beside the proven bounds."""

    consumers: float
    fewest: float
    rscore: float
    least: float
    proven: float
    """The share of measurements at which the solver found what it proved to be least."""

    @property
    def surplus(self) -> float:
        """Return the consumers beyond the bound, as a share of it."""
        return self.consumers / self.fewest - 1 if self.fewest else 0.0


def over(
    grid: Sequence[cells.Cell],
    setting: cells.Setting,
    seconds: float,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Gap]:
    """Compare every cell's algorithm with the bounds, `seconds` at most for each question."""
    apart: list[Gap] = []
    for cell in grid:
        progress(len(apart))
        apart.append(_gap(cell, setting, seconds))
    progress(len(grid))
    return apart


def tables(apart: Sequence[Gap]) -> list[report.Table]:
    """Return the tables of the report: consumers beyond the bound, and speed moved beside it."""
    if not apart:
        return []
    names = list(dict.fromkeys(gap.algorithm for gap in apart))
    deltas = sorted({gap.delta for gap in apart})

    def mean(name: str, delta: float, key: str) -> float:
        here = [gap for gap in apart if (gap.algorithm, gap.delta) == (name, delta)]
        return float(np.mean([getattr(gap, key) for gap in here]))

    header = ("algorithm", *(f"{delta:g}" for delta in deltas))
    consumers = [(a, *(f"{mean(a, d, 'surplus'):.2%}" for d in deltas)) for a in names]
    moved = [
        (a, *(f"{mean(a, d, 'rscore'):.3f} / {mean(a, d, 'least'):.3f}" for d in deltas))
        for a in names
    ]
    proven = float(np.mean([gap.proven for gap in apart]))
    return [
        report.Table("Consumers beyond the proven bound by δ", header, consumers),
        report.Table(
            "E(Rscore), and the least that is possible from the same assignment into as many "
            f"consumers, by δ (proven optimal at {proven:.0%} of measurements)",
            header,
            moved,
        ),
    ]


def _gap(cell: cells.Cell, setting: cells.Setting, seconds: float) -> Gap:
    with extras.needed("exact"):
        from lagless.packing import exact

    speeds = cells.stream(cell, setting)[:MEASUREMENTS]
    ways = replay.assignments(
        cell.algorithm, speeds, setting.capacity, setting.order, cells.seed(cell)
    )
    previous = np.zeros(speeds.shape[1], np.int64)
    rows = []
    for measured, current in zip(speeds, ways, strict=True):
        taken = len(set(current.tolist()))
        moved = scores.moved_rate(measured, previous, current)
        solved = exact.solve(measured, setting.capacity, previous, seconds=seconds, consumers=taken)
        shares = (speed / setting.capacity for speed in (moved, min(solved.least, moved)))
        rows.append((taken, solved.fewest, *shares, float(solved.proven)))
        previous = current
    return Gap(*astuple(cell), *np.mean(rows, axis=0).tolist())
