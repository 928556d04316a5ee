"""The way of now and the way of lagless are followed through the same latency model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.errors import WrongInput
from lagless.lab.model import latency, side_by_side

MODEL = latency.Model(max_rate=10.0, iteration=30.0, rebalance=5.0)
CAPACITY = 10.0 * 5 / 6


def packed(speeds: np.ndarray, first: np.ndarray, backlog: float = 0.0) -> side_by_side.Then:
    late = np.full(speeds.shape[1], backlog)
    return side_by_side.then(speeds, first, MODEL, CAPACITY, "sticky:slack=0.05", late, 60)


def test_an_overloaded_member_is_late_now_and_relieved_then() -> None:
    speeds = np.tile([6.0, 6.0, 1.0, 1.0], (5, 1))
    holders = np.tile([1, 1, 2, 2], (5, 1))
    now, then = side_by_side.now(speeds, holders, MODEL), packed(speeds, holders[0])
    assert (now.consumers, now.worst_load, now.moves) == (2, 12.0, 0)
    assert then.way.consumers == 2
    assert then.way.worst_load <= CAPACITY
    assert then.first_moves == 1
    assert then.way.latency.late.total == 0 < now.latency.late.total
    assert now.latency.bytes == then.way.latency.bytes == 4 * 30 * 14


def test_idle_consumers_are_not_needed() -> None:
    speeds, holders = np.full((3, 4), 1.0), np.tile([1, 2, 3, 4], (3, 1))
    assert side_by_side.now(speeds, holders, MODEL).consumers == 4
    assert packed(speeds, holders[0]).way.consumers == 1


def test_a_backlog_asks_for_more_consumers_for_a_while() -> None:
    speeds, first = np.full((3, 4), 2.0), np.array([1, 1, 1, 1])
    assert packed(speeds, first).catching_up == 1
    assert packed(speeds, first, backlog=300).catching_up > 1


def test_partitions_above_the_capacity_are_named() -> None:
    speeds = np.array([[1.0, 9.0], [1.0, 1.0]])
    assert packed(speeds, np.array([1, 2])).oversize == (1,)


def test_a_group_without_members_has_only_arrivals() -> None:
    then = packed(np.full((2, 3), 5.0), np.zeros(3, np.int64))
    assert (then.first_moves, then.first_rscore, then.way.consumers) == (0, 0.0, 3)


def test_one_measurement_is_not_enough() -> None:
    with pytest.raises(WrongInput, match="2 or more measurements"):
        side_by_side.now(np.ones((1, 2)), np.ones((1, 2), np.int64), MODEL)


@given(st.integers(0, 2**32 - 1))
def test_then_is_never_over_capacity_unless_a_partition_alone_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speeds = rng.uniform(0, 9, (4, 12))
    then = packed(speeds, rng.integers(0, 5, 12))
    assert then.way.worst_load <= max(CAPACITY, speeds.max())
    assert (then.oversize == ()) == (speeds.max() <= CAPACITY)
