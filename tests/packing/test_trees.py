"""Best Fit's tree against a sorted list, with enough entries for two levels above the leaves."""

from bisect import bisect_right, insort

import numpy as np
import pytest

from lagless.packing.kernels import trees

ENTRIES = 60_000
LEVELS = 2


@pytest.mark.parametrize("grain", [0, 50], ids=["distinct", "with ties"])
@pytest.mark.parametrize("order", ["random", "rising", "falling"])
def test_finds_what_a_sorted_list_finds(grain: int, order: str) -> None:
    rng = np.random.default_rng([grain, len(order)])
    values = np.sort(rng.uniform(0, 1, ENTRIES))
    if grain:
        values = np.round(values * grain) / grain
    values = {"random": rng.permutation(values), "rising": values, "falling": values[::-1]}[order]
    held, links, counts = trees.empty(ENTRIES)
    known: list[tuple[float, int]] = []
    slots = rng.permutation(ENTRIES)
    levels = 0

    def take() -> None:
        speed = int(rng.integers(0, 2**20)) * int(rng.integers(0, 2)) / 2**20  # 1 - speed is exact
        at = bisect_right(known, (1.0 - speed, 1)) - 1
        found = trees.find(held, links, counts, speed, 1.0)
        if at < 0:
            assert found == -1
            return
        load, slot = known.pop(at)
        assert found == -slot
        assert trees.take(held, links, counts) == load

    for load, slot in zip(values.tolist(), slots.tolist(), strict=True):
        trees.insert(held, links, counts, slot, load)
        insort(known, (load, -slot))
        levels = max(levels, int(counts[trees.LEVELS]))
        if rng.random() < 0.2:
            take()
    assert levels >= LEVELS
    assert counts[trees.NODES] <= ENTRIES // (trees.LEAST - 1) + 16
    while known:
        take()
    assert trees.find(held, links, counts, 0.0, 1.0) == -1
    trees.insert(held, links, counts, 3, 0.5)
    assert trees.find(held, links, counts, 0.25, 1.0) == 3


def test_minus_zero_is_zero() -> None:
    held, links, counts = trees.empty(3)
    trees.insert(held, links, counts, 2, -0.0)
    trees.insert(held, links, counts, 1, 0.0)
    assert trees.find(held, links, counts, 0.5, 1.0) == 1
    assert trees.take(held, links, counts) == 0.0
    assert trees.find(held, links, counts, 0.5, 1.0) == 2
