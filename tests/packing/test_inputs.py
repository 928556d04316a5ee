"""What `pack` refuses, and how it says so."""

from collections import OrderedDict
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import lagless
from lagless.errors import WrongInput

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("speeds", "capacity", "previous", "match"),
    [
        ({"a": 1.0, "b": -1.0}, 1, None, "speed of 'b' .* from 0, not -1.0"),
        ({"a": NAN}, 1, None, "speed of 'a' .* not nan"),
        ({"a": INFINITE}, 1, None, "speed of 'a' .* not inf"),
        ({"a": 10**400}, 1, None, "speed of 'a' .* not 1000"),
        ({"a": "7"}, 1, None, "speed of 'a' has to be a number, not '7'"),
        ({"a": None}, 1, None, "speed of 'a' has to be a number, not None"),
        ({"a": True}, 1, None, "speed of 'a' has to be a number, not True"),
        ([1.0, 2.0], 1, None, "speeds have to be a mapping"),
        ({}, 0, None, "capacity .* above 0, not 0"),
        ({}, -1.5, None, "capacity .* not -1.5"),
        ({}, NAN, None, "capacity .* not nan"),
        ({}, INFINITE, None, "capacity .* not inf"),
        ({}, "9", None, "capacity has to be a number, not '9'"),
        ({}, None, None, "capacity has to be a number, not None"),
        ({"a": 1.0}, 1, {"a": 0}, "previous consumer of 'a' .* from 1, not 0"),
        ({"a": 1.0}, 1, {"a": -3}, "previous consumer of 'a' .* not -3"),
        ({"a": 1.0}, 1, {"a": 2**63}, "previous consumer of 'a' .* not 9223372036854775808"),
        ({"a": 1.0}, 1, {"a": 1.0}, "previous consumer of 'a' has to be a whole number, not 1.0"),
        ({"a": 1.0}, 1, {"a": None}, "previous consumer of 'a' has to be a whole number, not None"),
        ({"a": 1.0}, 1, [("a", 1)], "previous has to be a mapping"),
    ],
)
def test_wrong_input_is_named(speeds: Any, capacity: Any, previous: Any, match: str) -> None:
    with pytest.raises(WrongInput, match=match):
        lagless.pack(speeds, capacity, previous, "ff")


def test_numbers_of_every_kind_are_taken() -> None:
    speeds: dict[str, Any] = {"a": 1, "b": np.float32(0.5), "c": Fraction(1, 2), "d": np.int64(1)}
    capacity: Any = np.int32(2)
    previous: dict[str, Any] = {"a": np.int64(4)}
    found = lagless.pack(speeds, capacity, previous, "ff")
    assert found == {"a": 4, "b": 4, "c": 4, "d": 1}


def test_mappings_of_every_kind_are_taken() -> None:
    speeds = MappingProxyType(OrderedDict([(("t", 1), 1.0), (None, 1.0), (3, 0.5)]))
    assert lagless.pack(speeds, 1, {}, "ff") == {("t", 1): 1, None: 2, 3: 3}


def test_negative_zero_is_zero() -> None:
    # Equals are taken in the mapping's order, so the first and not the second reopens 5.
    found = lagless.pack({"a": 0.0, "b": -0.0, "c": 1.0}, 1, {"a": 5, "b": 6}, "nfd")
    assert found == lagless.pack({"a": 0.0, "b": 0.0, "c": 1.0}, 1, {"a": 5, "b": 6}, "nfd")
    assert lagless.pack({"a": -0.0, "b": 0.0}, 1, {"a": 5, "b": 6}, "ffd") == {"a": 5, "b": 5}


def test_high_numbers_cost_no_memory() -> None:
    previous = {"a": 2**63 - 1, "b": 2**62, "c": 2**63 - 1}
    speeds = {"a": 0.6, "b": 0.6, "c": 0.6, "d": 0.3}
    # First Fit by number: d finds c's 1 first; Worst Fit's tie goes to the lowest number.
    assert lagless.pack(speeds, 1, previous, "ff") == {"a": 2**63 - 1, "b": 2**62, "c": 1, "d": 1}
    assert lagless.pack(speeds, 1, previous, "wf")["d"] == 1
