"""A bound for hundreds of partitions, where `exact` proves nothing: what any packing has to move.

A packing chooses fillings: sets of partitions that fit into one consumer, each put into a previous
consumer, where the partitions that it had stay, or into a new one. If fractions of fillings are
allowed, the most speed that can stay is a linear program with one column per filling:

1. The program starts with the columns of a known packing. Its dual gives each partition a worth.
2. For each consumer the filling of most worth, a knapsack problem, becomes a new column.
3. By duality any worths give a bound: the worth of the best fillings minus that of all partitions.
   It holds in every round, and approaches the program's value when no column is missing.

Speeds are rounded down to whole units of the capacity, so every packing is a solution. Gilmore
and Gomory (1961) solved cutting stock this way. Needs the extra `exact`.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from lagless.packing.inputs import Consumers, Speeds
from lagless.packing.kernels import kernel

Sizes: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

UNITS = 1000
"""The units that the capacity is divided into."""
NEAR = 1e-3
"""The gap between bound and program, relative to the speed that moves, at which to stop."""
ROUNDS = 200
CALM = 0.7
"""The share of the best worths so far in new ones, which otherwise swing widely."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of speeds; `stays` is what counts for a partition that stays with its consumer."""

    stays: Speeds
    sizes: Sizes
    home: Sizes
    homes: int
    consumers: int


def least_moved(
    speeds: Speeds, capacity: float, previous: Consumers, current: Consumers, consumers: int
) -> float:
    """Return a speed that every packing into at most `consumers` moves at least.

    `current` is any such packing, to start from.
    """
    names = np.unique(previous[previous > 0])
    rates = speeds / capacity
    # A rate that misses a whole unit only by rounding counts as that unit.
    sizes = np.floor(np.minimum(rates * UNITS + 1e-9, UNITS))
    step = Step(
        # Tiny rates are ignored: the solver cannot tell them from rounding.
        stays=np.where((previous > 0) & (rates > 1e-9), rates, 0.0),
        sizes=sizes.astype(np.int64),
        home=np.where(previous > 0, np.searchsorted(names, previous) + 1, 0),
        homes=len(names),
        consumers=consumers,
    )
    program = Program(step)
    for consumer in np.unique(current):
        known = np.flatnonzero(names == consumer)
        program.add(int(known[0]) + 1 if len(known) else 0, current == consumer)
    had = float(step.stays.sum())
    most, calm = had, np.zeros(len(speeds))
    for _ in range(ROUNDS):
        stay, worth = program.solve()
        added = 0
        for mixed in (CALM * calm + (1 - CALM) * worth, worth):
            values, inside = best_fillings(mixed, step.stays, step.sizes, step.home, step.homes)
            limit = at_most(values, float(mixed.sum()), consumers)
            if limit < most:
                most, calm = limit, mixed
            added = sum(program.add(k, inside[k]) for k in range(step.homes + 1))
            if added:
                break
        if most - stay <= NEAR * (had - stay) or not added:
            break
    return capacity * (had - most)


def at_most(values: Speeds, worths: float, consumers: int) -> float:
    """Return the bound on the speed that stays which these worths prove.

    Each consumer costs a rent, at least as high as a new one's best filling is worth; the bound is
    piecewise linear in it, and least at the value of some filling.
    """
    gains = values[1:]
    rents = values[values >= values[0]]
    return min(
        float(np.maximum(gains - rent, 0.0).sum() + rent * consumers) - worths for rent in rents
    )


class Program:
    """The linear program over the fillings so far."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        many = self.solver.infinity()
        self.placed = [self.solver.Constraint(1, many) for _ in step.sizes]
        self.once = [self.solver.Constraint(-many, 1) for _ in range(step.homes)]
        self.together = self.solver.Constraint(-many, step.consumers)
        self.objective = self.solver.Objective()
        self.objective.SetMaximization()
        self.seen: set[tuple[int, bytes]] = set()

    def add(self, home: int, inside: Flags) -> bool:
        """Add a filling of a previous consumer, or of a new one (0); return whether it is new."""
        key = (home, inside.tobytes())
        if key in self.seen:
            return False
        self.seen.add(key)
        column = self.solver.NumVar(0, self.solver.infinity(), "")
        for partition in np.flatnonzero(inside):
            self.placed[partition].SetCoefficient(column, 1)
        self.together.SetCoefficient(column, 1)
        if home:
            self.once[home - 1].SetCoefficient(column, 1)
            stay = self.step.stays[inside & (self.step.home == home)].sum()
            self.objective.SetCoefficient(column, float(stay))
        return True

    def solve(self) -> tuple[float, Speeds]:
        """Return the most speed that stays with the fillings so far, and the partitions' worths."""
        if self.solver.Solve() != pywraplp.Solver.OPTIMAL:
            raise RuntimeError("the solver did not solve a program that has a solution")
        worths = np.array([-row.dual_value() for row in self.placed])
        return self.objective.Value(), np.maximum(worths, 0.0)


@kernel
def best_fillings(
    worth: Speeds, stays: Speeds, sizes: Sizes, home: Sizes, homes: int
) -> tuple[Speeds, Flags]:
    """Return, for a new consumer (0) and each previous one, the best filling and its value."""
    n = len(worth)
    values, inside = np.zeros(homes + 1), np.zeros((homes + 1, n), np.bool_)
    taken = np.zeros((n, UNITS + 1), np.bool_)
    for consumer in range(homes + 1):
        best = np.zeros(UNITS + 1)
        for j in range(n):
            gain = worth[j] + (stays[j] if home[j] == consumer else 0.0)
            for room in range(sizes[j]):
                taken[j, room] = False
            for room in range(UNITS, sizes[j] - 1, -1):
                value = best[room - sizes[j]] + gain
                taken[j, room] = gain > 0 and value > best[room]
                if taken[j, room]:
                    best[room] = value
        values[consumer] = best[UNITS]
        room = UNITS
        for j in range(n - 1, -1, -1):
            if taken[j, room]:
                inside[consumer, j] = True
                room -= sizes[j]
    return values, inside
