"""The bound on consumers: below every packing, and above the plain sum where halves collide."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lagless
from lagless.lab.model import least


@given(st.lists(st.floats(0, 1.5), min_size=1, max_size=60))
def test_no_packing_needs_fewer(rates: list[float]) -> None:
    speeds = np.array(rates)
    bound = least.consumers(speeds, 1.0)
    packed = lagless.pack(dict(enumerate(rates)), 1.0, algorithm="bfd")
    assert bound <= len(set(packed.values()))
    assert bound >= math.ceil(np.minimum(speeds, 1.0).sum() - 1e-6)


@pytest.mark.parametrize(
    ("rates", "bound"),
    [
        ([0.6, 0.6, 0.6], 3),
        ([0.7, 0.7, 0.4, 0.4], 3),
        ([0.0, 0.0], 1),
        ([3.0, 0.5, 0.5], 2),
        ([0.5, 0.5, 0.5, 0.5], 2),
    ],
)
def test_what_cannot_share_a_consumer_counts_alone(rates: list[float], bound: int) -> None:
    assert least.consumers(np.array(rates), 1.0) == bound


def test_hours_are_of_each_measurement() -> None:
    speeds = np.array([[10.0, 10.0], [3.0, 3.0]])
    assert least.consumer_hours(speeds, 10.0, 1800.0) == 1.5
