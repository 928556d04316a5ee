"""Exact: the fewest consumers, and among such packings the least moved speed, by OR-Tools CP-SAT.

1. The number of consumers lies between Martello and Toth's bound L2 and what Best Fit Decreasing
   needs. Where they differ, the solver is asked.
2. With that number, or with one given, the solver finds the packing that moves the least speed,
   and of those the one that moves the fewest partitions. It starts from what `sticky` finds.
3. Speeds are whole 2⁻⁴⁰ths of the capacity, rounded down: every packing in floats is one of the
   model, so the bounds hold. Should an answer overfill a consumer in floats, it is sought again
   with speeds rounded up.

Works to about 40 partitions. When the time is over the best packing found so far is the answer,
and `Solution` says what is proven.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from lagless.errors import WrongInput
from lagless.packing import scores, sticky

Speeds: TypeAlias = NDArray[np.float64]
Consumers: TypeAlias = NDArray[np.int64]

UNIT = 1 << 40


@dataclass(frozen=True, slots=True)
class Solution:
    """A packing with what is proven about it; moved and least are speeds.

    `fewest` is a lower bound on the consumers of any packing, `least` one on the speed that any
    packing into at most `allowed` consumers moves.
    """

    assignment: Consumers
    consumers: int
    fewest: int
    allowed: int
    moved: float
    least: float

    @property
    def proven(self) -> bool:
        """Tell whether no packing into as many consumers moves less (but for rounding)."""
        return self.moved <= self.least * (1 + 1e-9)


def pack(
    speeds: Speeds,
    capacity: float,
    previous: Consumers,
    *,
    seconds: float = 10.0,
    consumers: int = 0,
) -> Consumers:
    """Pack into the fewest consumers, or into at most as many as given, moving the least speed."""
    return solve(speeds, capacity, previous, seconds=seconds, consumers=consumers).assignment


def solve(
    speeds: Speeds,
    capacity: float,
    previous: Consumers,
    *,
    seconds: float = 10.0,
    consumers: int = 0,
) -> Solution:
    """Pack as `pack` does, and give the bounds; `seconds` is the time for each of the two steps."""
    if not 0 < seconds < float("inf"):
        raise WrongInput(f"seconds has to be a number above 0, not {seconds!r}")
    if consumers < 0:
        raise WrongInput(f"consumers has to be a whole number from 0 (the fewest), not {consumers}")
    start = sticky.pack(speeds, capacity, previous, slack=0.0)
    if not len(speeds):
        return Solution(start, 0, 0, consumers, 0.0, 0.0)
    alone = speeds > capacity
    sizes = [int(size) for size in np.floor(speeds[~alone] * (UNIT / capacity))]
    fewest, known, packing = _fewest(sizes, _count(start[~alone]), seconds)
    oversize = int(alone.sum())
    allowed = consumers or oversize + known
    if allowed < oversize + fewest:
        raise WrongInput(
            f"{allowed} consumers are too few: these speeds need {oversize + fewest} or more"
        )
    if packing is not None and not consumers:
        smaller = _numbered(speeds, previous, alone, packing)
        start = start if _overfull(speeds, capacity, smaller) else smaller
    elif consumers > _count(start):
        start = sticky.pack(speeds, capacity, previous, slack=consumers / _count(start) - 1)
    best, least = start, 0.0
    if _count(start) > allowed or scores.moved(previous, start).any():
        for rounded in (np.floor, np.ceil):
            found, bound = _least_moved(
                speeds, capacity, previous, alone, allowed, seconds, start, rounded
            )
            least = max(least, bound) if rounded is np.floor else least
            if found is not None and not _overfull(speeds, capacity, found):
                best = found
                break
    if consumers and _count(best) > allowed:
        raise WrongInput(f"no packing into {allowed} consumers was found; {_count(best)} will do")
    moved = scores.moved_rate(speeds, previous, best)
    return Solution(best, _count(best), oversize + fewest, allowed, moved, min(least, moved))


def bound_on_consumers(sizes: list[int]) -> int:
    """Give Martello and Toth's bound L2 for sizes in units of the capacity's 2⁻⁴⁰th."""
    best = 1 if sizes else 0
    for small in {0, *(size for size in sizes if 2 * size <= UNIT)}:
        huge = sum(size > UNIT - small for size in sizes)
        large = [size for size in sizes if UNIT // 2 < size <= UNIT - small]
        rest = sum(size for size in sizes if small <= size <= UNIT // 2)
        beyond = rest - (len(large) * UNIT - sum(large))
        best = max(best, huge + len(large) + max(0, -(-beyond // UNIT)))
    return best


def _fewest(sizes: list[int], known: int, seconds: float) -> tuple[int, int, list[int] | None]:
    """Give a lower bound on the consumers, the fewest found, and the packing if it is a new one."""
    bound = bound_on_consumers(sizes)
    packing = None
    while bound < known:
        model = cp_model.CpModel()
        order = sorted(range(len(sizes)), key=lambda j: -sizes[j])
        # Consumers are alike: the i-th largest goes into one of the first i.
        put = {
            (j, b): model.new_bool_var("")
            for i, j in enumerate(order)
            for b in range(min(i + 1, known - 1))
        }
        _hold(model, put, sizes, range(known - 1))
        solver = _solver(seconds)
        status = solver.solve(model)
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            chosen = {j: b for (j, b), here in put.items() if solver.value(here)}
            packing = [chosen[j] for j in range(len(sizes))]
            known -= 1
            continue
        return (known if status == cp_model.INFEASIBLE else bound), known, packing
    return bound, known, packing


def _least_moved(
    speeds: Speeds,
    capacity: float,
    previous: Consumers,
    alone: NDArray[np.bool_],
    allowed: int,
    seconds: float,
    start: Consumers,
    rounded: Any,
) -> tuple[Consumers | None, float]:
    """Find the packing into at most `allowed` consumers that moves the least speed.

    A partition faster than the capacity keeps its consumer, the fastest if there are several: it
    weighs more than all that could stay in its place.
    """
    base = _numbered(speeds, previous, alone, None)
    taken = set(base[alone].tolist())
    open_ = allowed - len(taken)
    homes = sorted({int(p) for p in previous[~alone] if p > 0} - taken)
    # An unused previous consumer will do wherever a new one would, so few new ones are needed.
    spare = (b for b in range(1, allowed + 2 * len(speeds)) if b not in taken and b not in homes)
    numbers = homes + [next(spare) for _ in range(open_ - len(homes))]
    inside = [int(j) for j in np.flatnonzero(~alone)]
    sizes = {j: int(rounded(speeds[j] * (UNIT / capacity))) for j in inside}

    model = cp_model.CpModel()
    put = {(j, b): model.new_bool_var("") for j in inside for b in numbers}
    used = {b: model.new_bool_var("") for b in numbers}
    _hold(model, put, sizes, numbers)
    for (_, b), here in put.items():
        model.add_implication(here, used[b])
    model.add(sum(used.values()) <= open_)
    # Speeds first, then the number of moves.
    weigh = len(speeds) + 1
    sure = sum(sizes[j] for j in inside if previous[j] > 0 and int(previous[j]) in taken)
    model.minimize(
        sum(
            (sizes[j] * weigh + 1) * (1 - put[j, int(previous[j])])
            for j in inside
            if (j, int(previous[j])) in put
        )
    )
    names = {b: b for b in set(start[inside].tolist()) if b in used}
    others = iter([b for b in numbers if b not in names])
    for j in inside:
        if int(start[j]) not in names:
            names[int(start[j])] = next(others, 0)
        name = names[int(start[j])]
        for b in numbers:
            model.add_hint(put[j, b], b == name)
    solver = _solver(seconds)
    status = solver.solve(model)
    least = (sure + max(0.0, solver.best_objective_bound) // weigh) * (capacity / UNIT)
    least += scores.moved_rate(speeds[alone], previous[alone], base[alone])
    if status == cp_model.INFEASIBLE:
        least = float("inf")
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, least
    found = base.copy()
    for (j, b), here in put.items():
        if solver.value(here):
            found[j] = b
    return found, least


def _hold(model: Any, put: Any, sizes: Any, numbers: Any) -> None:
    """Give each partition one consumer, and no consumer more than its capacity."""
    partitions = sorted({j for j, _ in put})
    for j in partitions:
        model.add_exactly_one(put[j, b] for b in numbers if (j, b) in put)
    for b in numbers:
        here = [j for j in partitions if (j, b) in put]
        model.add(sum(sizes[j] * put[j, b] for j in here) <= UNIT)
        model.add_at_most_one(put[j, b] for j in here if 2 * sizes[j] > UNIT)


def _solver(seconds: float) -> Any:
    """Return a solver that gives the same answer each time, unless the time runs out."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 8
    solver.parameters.interleave_search = True
    return solver


def _numbered(
    speeds: Speeds, previous: Consumers, alone: NDArray[np.bool_], packing: list[int] | None
) -> Consumers:
    """Give oversize partitions consumers of their own, and the others those of a packing, or 0."""
    found = np.zeros(len(speeds), np.int64)
    taken: set[int] = set()
    for j in sorted(np.flatnonzero(alone), key=lambda j: (-speeds[j], j)):
        number = int(previous[j])
        if number < 1 or number in taken:
            continue
        found[j] = number
        taken.add(number)
    had = set(previous.tolist())
    unused = (b for b in range(1, 2 * len(speeds) + 1) if b not in taken and b not in had)
    for j in np.flatnonzero(alone):
        if not found[j]:
            found[j] = next(unused)
    if packing is not None:
        names = {b: next(unused) for b in sorted(set(packing))}
        found[~alone] = [names[b] for b in packing]
    return found


def _count(assignment: Consumers) -> int:
    """Count the consumers of an assignment."""
    return len(set(assignment.tolist()))


def _overfull(speeds: Speeds, capacity: float, assignment: Consumers) -> bool:
    """Tell whether a consumer has more than it can hold, summed by decreasing speed."""
    for consumer in set(assignment.tolist()):
        held = np.sort(speeds[assignment == consumer])[::-1]
        if len(held) > 1 and held.cumsum()[-1] > capacity:
            return True
    return False
