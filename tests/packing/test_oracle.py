"""The fast algorithms against the slow, obvious ones: the same consumer for every partition."""

import numpy as np
import pytest

from lagless import packing
from tests.packing import reference

KINDS = ["floats", "integers", "tenths", "equal", "zeros", "oversize", "close", "tiny"]


def draw(rng: np.random.Generator, kind: str, n: int) -> tuple[list[float], float]:
    """Draw speeds of a kind that is hard in its own way, and a capacity."""
    if kind == "floats":
        return rng.uniform(0, 1, n).tolist(), 1.0
    if kind == "integers":
        return rng.integers(0, 8, n).astype(float).tolist(), 10.0
    if kind == "tenths":  # 0.1 + 0.2 > 0.3: sums whose rounding decides
        return (rng.integers(0, 8, n) / 10).tolist(), float(rng.integers(3, 12)) / 10
    if kind == "equal":
        return [float(rng.uniform(0, 1))] * n, 1.0
    if kind == "zeros":
        return np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0, 1.2, n)).tolist(), 1.0
    if kind == "oversize":
        return (rng.integers(0, 30, n) / 10).tolist(), 1.0
    if kind == "close":  # loads a rounding apart
        return (0.25 + rng.integers(0, 4, n) * 2.0**-54).tolist(), 1.0
    return (rng.integers(0, 8, n) * 5e-324).tolist(), 10 * 5e-324


def remember(rng: np.random.Generator, n: int) -> dict[str, int]:
    """Draw a previous assignment: none, dense, with gaps, or with huge numbers."""
    most = int(rng.choice([1, 3, max(1, n // 2), 3 * n + 1, 2**40, 2**63 - 1]))
    share = rng.choice([0.0, 0.7, 1.0])
    return {
        f"p{j}": int(rng.integers(1, most, endpoint=True)) for j in range(n) if rng.random() < share
    }


@pytest.mark.parametrize("name", reference.COVERED)
@pytest.mark.parametrize("kind", KINDS)
def test_same_consumer_for_every_partition(name: str, kind: str) -> None:
    rng = np.random.default_rng([KINDS.index(kind), reference.COVERED.index(name)])
    for _ in range(120):
        n = int(rng.choice([0, 1, 2, 5, 12, 30]))
        rates, capacity = draw(rng, kind, n)
        speeds = {f"p{j}": speed for j, speed in enumerate(rates)}
        previous = remember(rng, n)
        expected = reference.pack(speeds, capacity, previous, name)
        assert packing.pack(speeds, capacity, previous, name) == expected


@pytest.mark.parametrize("name", reference.COVERED)
def test_same_along_a_stream_with_arrivals_and_departures(name: str) -> None:
    rng = np.random.default_rng(reference.COVERED.index(name))
    for size, grain in ((150, 0), (60, 20)):
        current: dict[str, int] = {}
        speed = rng.uniform(0, 1, size)
        for _ in range(25):
            speed = np.clip(speed + rng.uniform(-0.15, 0.15, size), 0, 1.1)
            there = rng.permutation(size)[: int(size * 0.9)]
            rates = np.round(speed * grain) / grain if grain else speed
            speeds = {f"p{j}": float(rates[j]) for j in there}
            expected = reference.pack(speeds, 1.0, current, name)
            current = packing.pack(speeds, 1.0, current, name)
            assert current == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", reference.PAPER)
def test_same_on_a_thousand_partitions(name: str) -> None:
    # Enough consumers for several levels of each structure and more than one word of buckets.
    rng = np.random.default_rng(7)
    for scale in (1.0, 0.5, 0.01):
        speeds = {j: float(s) for j, s in enumerate(rng.uniform(0, scale, 1000))}
        previous = {j: int(rng.integers(1, 900)) for j in range(0, 1000, 2)}
        assert packing.pack(speeds, 1.0, previous, name) == reference.pack(
            speeds, 1.0, previous, name
        )
