"""Streams of measurements, as in the paper's section "Test Data Generation"."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lagless.errors import WrongInput

Floats: TypeAlias = NDArray[np.float64]
Start: TypeAlias = Literal["random", "zero", "half", "full"]
Clamp: TypeAlias = Literal["capacity", "none"]

STARTS: tuple[Start, ...] = get_args(Start)
CLAMPS: tuple[Clamp, ...] = get_args(Clamp)
DELTAS = (0.0, 5.0, 10.0, 15.0, 20.0, 25.0)


@dataclass(frozen=True, slots=True)
class Stream:
    """A sequence of measurements: one row each, in bytes/s, and one column per partition."""

    partitions: tuple[str, ...]
    speeds: Floats

    @property
    def measurements(self) -> int:
        """Count the rows."""
        return int(self.speeds.shape[0])


def first(start: Start, partitions: int, capacity: float, rng: np.random.Generator) -> Floats:
    """Give the first measurement: uniform in [0, C], or 0, C/2 or C for every partition."""
    match start:
        case "random":
            return rng.uniform(0.0, capacity, partitions)
        case "zero":
            return np.zeros(partitions)
        case "half":
            return np.full(partitions, capacity / 2)
        case "full":
            return np.full(partitions, capacity)
    raise WrongInput(f'there is no start "{start}": take one of {", ".join(STARTS)}')


def speeds(
    start: Start,
    delta: float,
    partitions: int,
    measurements: int,
    capacity: float,
    rng: np.random.Generator,
    clamp: Clamp = "capacity",
) -> Floats:
    """Draw a stream's speeds: s += φ(δ)/100·C from one measurement to the next.

    They stay within [0, C] as in the published tables; with clamp "none" they are only kept from
    falling below 0, as in the paper's formula.
    """
    _check(delta, partitions, measurements, capacity, clamp)
    drawn = np.empty((measurements, partitions))
    drawn[0] = first(start, partitions, capacity, rng)
    top = capacity if clamp == "capacity" else np.inf
    for k in range(1, measurements):
        step = rng.uniform(-delta, delta, partitions) * (capacity / 100)
        np.clip(drawn[k - 1] + step, 0.0, top, out=drawn[k])
    return drawn


def generate(
    start: Start,
    delta: float,
    partitions: int,
    measurements: int,
    capacity: float,
    rng: np.random.Generator,
    clamp: Clamp = "capacity",
) -> Stream:
    """Draw a stream whose partitions are named p0, p1, and so on."""
    drawn = speeds(start, delta, partitions, measurements, capacity, rng, clamp)
    return Stream(tuple(f"p{j}" for j in range(partitions)), drawn)


def _check(delta: float, partitions: int, measurements: int, capacity: float, clamp: Clamp) -> None:
    if partitions < 1 or measurements < 1:
        raise WrongInput(
            f"a stream has at least one partition and one measurement, not {partitions} partitions"
            f" and {measurements} measurements"
        )
    if not (np.isfinite(delta) and delta >= 0):
        raise WrongInput(f"δ is a percentage of the capacity, 0 or more, not {delta:g}")
    if not (np.isfinite(capacity) and capacity > 0):
        raise WrongInput(f"the capacity is a number of bytes/s above 0, not {capacity:g}")
    if clamp not in CLAMPS:
        raise WrongInput(f'there is no clamp "{clamp}": take one of {", ".join(CLAMPS)}')
