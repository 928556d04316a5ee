"""The algorithms' inputs: mappings are checked here and become arrays."""

import math
from collections.abc import Hashable, Mapping
from itertools import repeat
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagless.errors import WrongInput

Partition = TypeVar("Partition", bound=Hashable)
Speeds: TypeAlias = NDArray[np.float64]
"""Bytes per second of each partition, in the mapping's order."""
Consumers: TypeAlias = NDArray[np.int64]
"""The consumer of each partition, a number from 1; 0 in a previous assignment means none."""

MOST = np.iinfo(np.int64).max


def arrays(
    speeds: Mapping[Partition, float], capacity: float, previous: Mapping[Partition, int] | None
) -> tuple[Speeds, float, Consumers]:
    """Return speeds, capacity and previous consumers as a packer takes them."""
    limit = positive(capacity)
    rates = measured(speeds)
    if previous is None:
        return rates, limit, np.zeros(len(rates), np.int64)
    numbered(previous, "previous")
    before = np.fromiter(map(previous.get, speeds, repeat(0)), np.int64, len(rates))
    return rates, limit, before


def positive(capacity: float) -> float:
    """Return the capacity as a float, or refuse it if it is not a finite number above 0."""
    if not isinstance(capacity, Real) or isinstance(capacity, bool):
        raise WrongInput(f"the capacity has to be a number, not {capacity!r}")
    limit = _float(capacity)
    if not 0 < limit < math.inf:
        raise WrongInput(f"the capacity has to be a finite number above 0, not {capacity!r}")
    return limit


def measured(speeds: Mapping[Any, float]) -> Speeds:
    """Return the speeds as an array, or name the first that is not a finite number from 0."""
    if not isinstance(speeds, Mapping):
        raise WrongInput(f"speeds have to be a mapping of partition to speed, not {speeds!r}")
    _each(speeds, Real, "the speed of", "a number")
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
    """Check that an assignment's consumers are numbers from 1."""
    if not isinstance(assignment, Mapping):
        raise WrongInput(f"{noun} has to be a mapping of partition to consumer, not {assignment!r}")
    _each(assignment, Integral, f"the {noun} consumer of", "a whole number")
    if assignment and not (min(assignment.values()) >= 1 and max(assignment.values()) <= MOST):
        partition, consumer = next(pair for pair in assignment.items() if not 1 <= pair[1] <= MOST)
        raise WrongInput(
            f"the {noun} consumer of {partition!r} has to be a number from 1, not {consumer!r}"
        )


def _each(mapping: Mapping[Any, Any], kind: type, of: str, noun: str) -> None:
    """Refuse the first value of a wrong type; checking the set of types first keeps it quick."""
    types = set(map(type, mapping.values()))
    wrong = {t for t in types if t is bool or not issubclass(t, kind)}
    if wrong:
        partition, value = next(p for p in mapping.items() if type(p[1]) in wrong)
        raise WrongInput(f"{of} {partition!r} has to be {noun}, not {value!r}")


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
