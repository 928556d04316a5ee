"""Exact: the fewest consumers, and of those packings the least moved speed, by OR-Tools CP-SAT.

1. The number of consumers lies between Martello and Toth's bound L2 and what Best Fit Decreasing
   needs. Where they differ, the solver is asked.
2. With that number, or with one that the caller sets, the solver finds the packing that moves the
   least speed, and of those the one that moves the fewest partitions. It starts from sticky's.
3. Speeds are rounded down to multiples of 2⁻⁴⁰ of the capacity. Every packing in floats is then a
   solution of the model, so the bounds hold. If an answer overfills a consumer in floats, it is
   searched for again with speeds rounded up.

This works for up to about 40 partitions. When the time is over, the best packing so far is the
answer, and `Solution` tells what is proven.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from lagless.errors import WrongInput
from lagless.packing import scores, sticky
from lagless.packing.inputs import Consumers, Speeds

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
        """Return whether no packing into as many consumers moves less, up to rounding."""
        return self.moved <= self.least * (1 + 1e-9)


def pack(speeds: Speeds, capacity: float, previous: Consumers, **limits: Any) -> Consumers:
    """Pack into the fewest consumers, or into at most `consumers`, moving the least speed."""
    return solve(speeds, capacity, previous, **limits).assignment


def solve(
    speeds: Speeds,
    capacity: float,
    previous: Consumers,
    *,
    seconds: float = 10.0,
    consumers: int = 0,
) -> Solution:
    """Pack as `pack` does, and return the bounds too; `seconds` limits each of the two steps."""
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
            answer, bound = _least_moved(
                speeds, capacity, previous, alone, allowed, seconds, start, rounded
            )
            least = max(least, bound) if rounded is np.floor else least
            if answer is not None and not _overfull(speeds, capacity, answer):
                best = answer
                break
    if consumers and _count(best) > allowed:
        raise WrongInput(f"no packing into {allowed} consumers was found; {_count(best)} will do")
    moved = scores.moved_rate(speeds, previous, best)
    return Solution(best, _count(best), oversize + fewest, allowed, moved, min(least, moved))


def bound_on_consumers(sizes: list[int]) -> int:
    """Return Martello and Toth's bound L2 for sizes in units of 2⁻⁴⁰ of the capacity."""
    best = 1 if sizes else 0
    for small in {0, *(size for size in sizes if 2 * size <= UNIT)}:
        huge = sum(size > UNIT - small for size in sizes)
        large = [size for size in sizes if UNIT // 2 < size <= UNIT - small]
        rest = sum(size for size in sizes if small <= size <= UNIT // 2)
        beyond = rest - (len(large) * UNIT - sum(large))
        best = max(best, huge + len(large) + max(0, -(-beyond // UNIT)))
    return best


def _fewest(sizes: list[int], known: int, seconds: float) -> tuple[int, int, list[int] | None]:
    """Return a lower bound on the consumers, the fewest found, and their packing if it is new."""
    bound = bound_on_consumers(sizes)
    packing = None
    while bound < known:
        model = cp_model.CpModel()
        order = sorted(range(len(sizes)), key=lambda j: -sizes[j])
        # Consumers are interchangeable: the i-th largest goes into one of the first i.
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

    A partition faster than the capacity keeps its consumer, and of several the fastest does: it
    weighs more than everything that could stay there instead.
    """
    base = _numbered(speeds, previous, alone, None)
    taken = set(base[alone].tolist())
    open_ = allowed - len(taken)
    homes = sorted({int(p) for p in previous[~alone] if p > 0} - taken)
    # An unused previous consumer serves wherever a new one would, so few new ones are needed.
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
    answer = base.copy()
    for (j, b), here in put.items():
        if solver.value(here):
            answer[j] = b
    return answer, least


def _hold(model: Any, put: Any, sizes: Any, numbers: Any) -> None:
    """Constrain each partition to one consumer, and each consumer to its capacity."""
    partitions = sorted({j for j, _ in put})
    for j in partitions:
        model.add_exactly_one(put[j, b] for b in numbers if (j, b) in put)
    for b in numbers:
        here = [j for j in partitions if (j, b) in put]
        model.add(sum(sizes[j] * put[j, b] for j in here) <= UNIT)
        model.add_at_most_one(put[j, b] for j in here if 2 * sizes[j] > UNIT)


def _solver(seconds: float) -> Any:
    """Return a solver whose answer is the same each time unless the time runs out."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 8
    solver.parameters.interleave_search = True
    return solver


def _numbered(
    speeds: Speeds, previous: Consumers, alone: NDArray[np.bool_], packing: list[int] | None
) -> Consumers:
    """Number the consumers: oversize partitions get their own, the others a packing's, or 0."""
    answer = np.zeros(len(speeds), np.int64)
    taken: set[int] = set()
    for j in sorted(np.flatnonzero(alone), key=lambda j: (-speeds[j], j)):
        number = int(previous[j])
        if number > 0 and number not in taken:
            answer[j] = number
            taken.add(number)
    had = set(previous.tolist())
    unused = (b for b in range(1, 2 * len(speeds) + 1) if b not in taken and b not in had)
    for j in np.flatnonzero(alone):
        if not answer[j]:
            answer[j] = next(unused)
    if packing is not None:
        names = {b: next(unused) for b in sorted(set(packing))}
        answer[~alone] = [names[b] for b in packing]
    return answer


def _count(assignment: Consumers) -> int:
    """Return the number of consumers of an assignment."""
    return len(set(assignment.tolist()))


def _overfull(speeds: Speeds, capacity: float, assignment: Consumers) -> bool:
    """Return whether a consumer is over capacity, its load summed by decreasing speed."""
    shares = (np.sort(speeds[assignment == n])[::-1] for n in set(assignment.tolist()))
    return any(len(held) > 1 and held.cumsum()[-1] > capacity for held in shares)
