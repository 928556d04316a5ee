"""Δt1: the plan of steps, the truth from log sizes, and when a speed counts as shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.lab.live import steps
from lagless.lab.live.steps import FACTOR, ROW


@given(st.integers(1, 60), st.integers(0, 1000))
def test_every_step_is_there_and_has_time_to_be_shown(count: int, seed: int) -> None:
    window, interval = 30.0, 5.0
    flow, planned = steps.plan(count, window, interval, np.random.default_rng(seed))
    assert len(planned) == count
    assert planned == sorted(planned, key=lambda step: step.at)
    for step in planned:
        assert step.until - step.at >= window + 2 * interval
        row = round(step.at / ROW)
        before, after = flow.speeds[row - 1, step.partition], flow.speeds[row, step.partition]
        assert max(before, after) >= FACTOR * min(before, after)
        same = flow.speeds[row : round(step.until / ROW), step.partition]
        assert (same == after).all(), "a step lasts until the next one"
    assert max(step.until for step in planned) <= len(flow.speeds) * ROW


def test_a_speed_is_shown_when_it_is_near_and_stays() -> None:
    heard = [(9.0, 200.0), (11.0, 104.0), (12.0, 120.0), (13.0, 95.1), (14.0, 100.0), (20.0, 0.0)]
    assert steps.shown_after(heard, 10.0, 20.0, 100.0) == 3.0
    assert steps.shown_after(heard, 10.0, 21.0, 100.0) is None, "it went away again"
    assert steps.shown_after(heard, 10.0, 20.0, 500.0) is None
    assert steps.shown_after([], 10.0, 20.0, 100.0) is None


def test_the_truth_is_what_the_log_grew_by() -> None:
    sizes = [(0.0, 1000.0), (1.0, 1100.0), (2.0, 1200.0), (4.0, 2200.0)]
    assert steps.rate(sizes, 0.0, 2.0) == pytest.approx(100.0)
    assert steps.rate(sizes, 2.0, 4.0) == pytest.approx(500.0)
    assert steps.rate(sizes, 0.5, 1.5) == pytest.approx(100.0)
