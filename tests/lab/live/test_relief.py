"""Step → relieved: the load, what waits over time, and when it is gone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.lab.live import live_stream, relief, rival
from lagless.lab.model import keda


@given(st.integers(1, 4), st.integers(0, 1000))
def test_the_load_grows_by_a_factor_and_no_partition_is_too_fast(count: int, seed: int) -> None:
    steps = relief.plan(count, seed)
    flow = steps.flow("t")
    assert len(flow.speeds) * flow.step == steps.seconds
    assert len(steps.at) == count
    assert (steps.levels[:3] <= live_stream.CAPACITY).all(), "each can be given to a consumer"
    for at in steps.at:
        before, after = flow.at(at - 0.5).sum(), flow.at(at).sum()
        assert after == pytest.approx(relief.FACTOR * before)
    assert steps.levels[0].sum() == pytest.approx(relief.FIRST * live_stream.CAPACITY)


def observed(slow_until: float, seconds: float = 90.0) -> relief.Backlog:
    """Return what waits of 10 records per second, and of 20 from 45 s on.

    Each is readable after a second; those of the step's first seconds only at `slow_until`.
    """
    stamps = np.concatenate([np.arange(0, 45, 0.1), np.arange(45, seconds, 0.05)])
    delays = np.where((stamps >= 45) & (stamps < slow_until), slow_until - stamps, 1.0)
    return relief.backlog(stamps, np.maximum(delays, 1.0), seconds)


def test_the_backlog_is_what_was_written_and_is_not_readable() -> None:
    known = observed(45.0)
    assert known.within(20, 30) == pytest.approx(10, abs=1)
    assert known.within(60, 70) == pytest.approx(20, abs=1)
    assert observed(57.0).within(56, 57).max() == pytest.approx(20 * 12, abs=5)


@pytest.mark.parametrize("gone_at", [50.0, 57.0, 70.0])
def test_a_group_is_relieved_when_no_more_waits_than_before(gone_at: float) -> None:
    seconds = relief.relieved(observed(gone_at), 45.0, 90.0, (10.0, 20.0))
    assert seconds == pytest.approx(gone_at - 45, abs=2 * relief.GRID)


def test_a_group_that_keeps_up_is_relieved_at_once_and_a_slow_one_never() -> None:
    at_once = relief.relieved(observed(45.0), 45.0, 90.0, (10.0, 20.0))
    assert at_once == 0
    assert relief.relieved(observed(89.0), 45.0, 90.0, (10.0, 20.0)) is None


@given(st.integers(1, 30), st.floats(0, 1e4))
def test_the_autoscaler_adds_as_many_or_four(size: int, lag: float) -> None:
    scaler = keda.Scaler(size, 100.0, 64, 300.0, keda.STEP_UP)
    assert size <= scaler.look(15.0, lag) <= max(2 * size, size + 4)


def test_the_rival_keeps_the_autoscalers_pace() -> None:
    assert relief.SYNC == 15
    assert rival.ORDINARY.step_up is None


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.kafka
def test_a_step_is_observed_end_to_end() -> None:
    steps = relief.plan(1, 0, settle=16.0, hold=20.0)
    found = relief.of_keda(steps, lambda _: None)
    assert found["produced"] > 1000
    assert found["lost"] == 0
    (step,) = found["steps"]
    assert step["at"] == 16
    assert step["worst"] > 0
    assert step["seconds"] is None or 0 <= step["seconds"] <= 20
    assert found["looks"]
