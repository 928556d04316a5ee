"""The bound for many partitions: never above the optimum, and near it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ortools")

from lagless.lab.model import streams
from lagless.packing import bounds, exact, scores, sticky

CAPACITY = 10.0
PARTITION = st.tuples(st.floats(0, 12), st.integers(0, 4))


@settings(max_examples=60, deadline=None)
@given(st.lists(PARTITION, min_size=1, max_size=9), st.integers(0, 2))
def test_no_packing_moves_less(partitions: list[tuple[float, int]], more: int) -> None:
    speeds = np.array([speed for speed, _ in partitions])
    previous = np.array([consumer for _, consumer in partitions])
    fewest = exact.solve(speeds, CAPACITY, previous)
    best = exact.solve(speeds, CAPACITY, previous, consumers=fewest.consumers + more)
    bound = bounds.least_moved(speeds, CAPACITY, previous, best.assignment, best.allowed)
    assert bound <= best.moved + 1e-6


def test_what_has_to_leave_is_in_the_bound() -> None:
    """Of 6 + 6 one leaves, and of 4 + 4 nothing; the bound sees it whatever the room elsewhere."""
    speeds, previous = np.array([6.0, 6.0, 4.0, 4.0]), np.array([1, 1, 2, 2])
    current = np.array([1, 3, 2, 2])
    assert bounds.least_moved(speeds, CAPACITY, previous, current, 3) == pytest.approx(6.0)


def test_want_of_room_is_in_the_bound() -> None:
    """6 + 6 and 4 + 4 into two consumers: a 6 and a 4 have to change places."""
    speeds, previous = np.array([6.0, 6.0, 4.0, 4.0]), np.array([1, 1, 2, 2])
    current = np.array([1, 2, 1, 2])
    assert bounds.least_moved(speeds, CAPACITY, previous, current, 2) == pytest.approx(10.0)


def test_nothing_has_to_move_if_the_speeds_are_the_same() -> None:
    speeds = streams.speeds("random", 5, 40, 1, 100.0, np.random.default_rng(4))[0]
    placed = sticky.pack(speeds, 100.0, np.zeros(40, np.int64), slack=0.0)
    bound = bounds.least_moved(speeds, 100.0, placed, placed, len(np.unique(placed)))
    assert bound == pytest.approx(0.0, abs=1e-6)


def test_sticky_is_near_the_bound_with_200_partitions() -> None:
    """Six steps of streams drawn here: within a tenth of what any packing has to move."""
    moved, least = 0.0, 0.0
    for delta in (5, 25):
        drawn = streams.speeds("random", delta, 200, 25, 100.0, np.random.default_rng(delta))
        previous = np.zeros(200, np.int64)
        for at, speeds in enumerate(drawn):
            current = sticky.pack(speeds, 100.0, previous, slack=0.0)
            if at >= 22:
                moved += scores.moved_rate(speeds, previous, current)
                allowed = len(np.unique(current))
                least += bounds.least_moved(speeds, 100.0, previous, current, allowed)
            previous = current
    assert 0 < least <= moved <= 1.1 * least
