"""What the algorithms take: mappings are checked and become arrays."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagless.errors import WrongInput

Partition = TypeVar("Partition", bound=Hashable)
MOST = np.iinfo(np.int64).max


def arrays(
    speeds: Mapping[Partition, float],
    capacity: float,
    previous: Mapping[Partition, int] | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Return previous consumers (0: none) and speeds in the mapping's order, and the capacity."""
    limit = positive(capacity)
    rates = measured(speeds)
    if previous is None:
        return np.zeros(len(rates), np.int64), rates, limit
    numbered(previous, "previous")
    before = np.fromiter(map(previous.get, speeds, _nobody()), np.int64, len(rates))
    return before, rates, limit


def positive(capacity: float) -> float:
    """Return the capacity as a float if it is one that can be worked with."""
    if not isinstance(capacity, Real) or isinstance(capacity, bool):
        raise WrongInput(f"the capacity has to be a number, not {capacity!r}")
    limit = _float(capacity)
    if not 0 < limit < math.inf:
        raise WrongInput(f"the capacity has to be a finite number above 0, not {capacity!r}")
    return limit


def measured(speeds: Mapping[Any, float]) -> NDArray[np.float64]:
    """Return the speeds as an array if each is a finite number from 0."""
    if not isinstance(speeds, Mapping):
        raise WrongInput(f"speeds have to be a mapping of partition to speed, not {speeds!r}")
    _each(speeds, lambda kind: issubclass(kind, Real), "the speed of", "a number")
    try:
        rates = np.fromiter(speeds.values(), np.float64, len(speeds))
    except OverflowError:
        rates = np.fromiter(map(_float, speeds.values()), np.float64, len(speeds))
    wrong = ~((rates >= 0) & (rates < math.inf))
    if wrong.any():
        partition, speed = list(speeds.items())[int(wrong.argmax())]
        raise WrongInput(
            f"the speed of {partition!r} has to be a finite number from 0, not {speed!r}"
        )
    return rates + 0.0  # -0.0 becomes 0.0


def numbered(assignment: Mapping[Any, int], noun: str) -> None:
    """Check that an assignment names consumers by numbers from 1."""
    if not isinstance(assignment, Mapping):
        raise WrongInput(f"{noun} has to be a mapping of partition to consumer, not {assignment!r}")
    _each(
        assignment,
        lambda kind: issubclass(kind, Integral),
        f"the {noun} consumer of",
        "a whole number",
    )
    if assignment and not (min(assignment.values()) >= 1 and max(assignment.values()) <= MOST):
        partition, consumer = next(pair for pair in assignment.items() if not 1 <= pair[1] <= MOST)
        raise WrongInput(
            f"the {noun} consumer of {partition!r} has to be a number from 1, not {consumer!r}"
        )


def _each(mapping: Mapping[Any, Any], right: Callable[[type], bool], of: str, noun: str) -> None:
    """Name the first value of a type that is not right; one pass over types keeps it quick."""
    wrong = tuple(k for k in set(map(type, mapping.values())) if k is bool or not right(k))
    if wrong:
        partition, value = next(p for p in mapping.items() if type(p[1]) in wrong)
        raise WrongInput(f"{of} {partition!r} has to be {noun}, not {value!r}")


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _nobody() -> Iterable[int]:
    while True:
        yield 0
