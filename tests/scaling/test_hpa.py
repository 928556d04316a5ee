"""What a HorizontalPodAutoscaler with its 10 % tolerance makes of the reported value."""

import math

from hypothesis import given
from hypothesis import strategies as st

from lagless.adapters.keda.hpa import Demand, value
from lagless.lab.model.keda import replicas

ENOUGH = 10**6


def scaled(present: int, wanted: int) -> int:
    """Return what the autoscaler asks for, as KEDA hands the value on: in thousandths."""
    reported = value(Demand(wanted, present, active=True))
    return replicas(math.ceil(reported * 1000) / 1000, 1, present, ENOUGH)


def test_without_help_the_autoscaler_would_ignore_a_missing_member() -> None:
    assert replicas(21, 1, 20, ENOUGH) == 20
    assert scaled(20, 21) == 23
    assert scaled(23, 21) == 23, "and it stays there"
    assert scaled(3, 4) == 4


@given(present=st.integers(1, 2000), wanted=st.integers(1, 2000))
def test_there_are_never_fewer_than_wanted_nor_many_more(present: int, wanted: int) -> None:
    asked = scaled(present, wanted)
    assert asked >= wanted
    if present < wanted:
        assert asked <= math.ceil(1.1 * wanted)
    else:
        assert asked == wanted or (asked == present and wanted / present >= 0.9)


@given(present=st.integers(1, 2000), wanted=st.integers(1, 2000))
def test_it_comes_to_rest_after_one_change(present: int, wanted: int) -> None:
    once = scaled(present, wanted)
    assert scaled(once, wanted) == once


def test_the_last_member_goes_only_if_nothing_is_to_be_done() -> None:
    assert value(Demand(1, 1, active=False)) == 0
    assert value(Demand(1, 0, active=True)) == 1
    assert value(Demand(1, 1, active=True)) == 1
