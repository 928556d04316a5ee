"""How far algorithms are from what is possible, by the exact solver, on few partitions.

Each algorithm goes its own way through a stream. At every measurement the solver says how few
consumers would do, and how little speed anyone would move from the same assignment into as many
consumers as the algorithm took. Both are proven bounds, whether or not the solver ends in time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lagless import extras
from lagless.evaluation import cells, report
from lagless.packing import scores
from lagless.simulation import replay

MOST_PARTITIONS = 40
"""The solver works to about this many."""
MEASUREMENTS = 30
"""Measurements of a stream that are compared; each takes the solver a part of a second."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An algorithm's means over a stream beside the proven bounds."""

    algorithm: str
    delta: float
    start: str
    seed: int
    partitions: int
    consumers: float
    fewest: float
    rscore: float
    least: float
    proven: float
    """The share of measurements at which the solver found what it proved to be least."""

    @property
    def surplus(self) -> float:
        """Give the consumers beyond the bound, as a share of it."""
        return self.consumers / self.fewest - 1 if self.fewest else 0.0


def is_possible(partitions: int) -> bool:
    """Say whether the solver can be asked for so many partitions."""
    return partitions <= MOST_PARTITIONS


def over(
    grid: Sequence[cells.Cell],
    setting: cells.Setting,
    seconds: float,
    told: Callable[[int], None] = lambda done: None,
) -> list[Gap]:
    """Compare every cell's algorithm with the bounds, `seconds` at most for each question."""
    found = []
    for done, cell in enumerate(grid):
        told(done)
        found.append(_gap(cell, setting, seconds))
    told(len(grid))
    return found


def tables(apart: Sequence[Gap]) -> list[report.Table]:
    """Give the tables of the report: consumers beyond the bound, and speed moved beside it."""
    if not apart:
        return []
    names = list(dict.fromkeys(one.algorithm for one in apart))
    deltas = sorted({one.delta for one in apart})

    def rows(show: Callable[[list[Gap]], str]) -> list[tuple[str, ...]]:
        return [
            (
                name,
                *(show([g for g in apart if (g.algorithm, g.delta) == (name, d)]) for d in deltas),
            )
            for name in names
        ]

    header = ("algorithm", *(f"{delta:g}" for delta in deltas))
    proven = float(np.mean([one.proven for one in apart]))
    return [
        report.Table(
            "Consumers beyond the proven bound by δ",
            header,
            rows(lambda some: f"{np.mean([g.surplus for g in some]):.2%}"),
        ),
        report.Table(
            "E(Rscore), and the least that is possible from the same assignment into as many "
            f"consumers, by δ (proven optimal at {proven:.0%} of measurements)",
            header,
            rows(
                lambda some: (
                    f"{np.mean([g.rscore for g in some]):.3f} / "
                    f"{np.mean([g.least for g in some]):.3f}"
                )
            ),
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
        least = min(solved.least, moved)
        shares = moved / setting.capacity, least / setting.capacity
        rows.append((taken, solved.fewest, *shares, float(solved.proven)))
        previous = current
    consumers, fewest, rscore, least, proven = np.mean(rows, axis=0).tolist()
    return Gap(
        cell.algorithm,
        cell.delta,
        cell.start,
        cell.seed,
        cell.partitions,
        consumers,
        fewest,
        rscore,
        least,
        proven,
    )
