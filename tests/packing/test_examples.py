"""Small packings worked out by hand: from the literature, and from the paper."""

from collections import Counter

import pytest

from lagless import packing
from lagless.packing import plain, scores


def consumers(name: str, speeds: list[float], capacity: float) -> int:
    """Return how many consumers an algorithm opens."""
    return packing.packing(dict(enumerate(speeds)), capacity, None, name).consumers


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nf", [1, 2, 2, 3, 3, 3]),
        ("ff", [1, 2, 1, 1, 2, 1]),
        ("bf", [1, 2, 2, 1, 1, 2]),
        ("wf", [1, 2, 1, 1, 2, 1]),
        # Sorted: 8 (the second), 4 (the first), 4, 2, 1, 1.
        ("nfd", [2, 1, 3, 2, 2, 3]),
        ("ffd", [2, 1, 2, 2, 1, 2]),
        ("bfd", [2, 1, 2, 2, 1, 2]),
        ("wfd", [2, 1, 2, 2, 1, 2]),
    ],
)
def test_six_items_in_consumers_of_ten(name: str, expected: list[int]) -> None:
    speeds = dict(enumerate([4.0, 8.0, 1.0, 4.0, 2.0, 1.0]))
    assert list(packing.pack(speeds, 10, None, name).values()) == expected


def test_next_fit_wastes_every_other_half() -> None:
    # Johnson: a half and a crumb in turn need n consumers, where n/2 + 1 would do.
    speeds = [50.0, 1.0] * 8
    assert consumers("nf", speeds, 100) == 8
    assert consumers("ff", speeds, 100) == 5


def test_first_fit_needs_ten_sixths_of_the_best() -> None:
    # Johnson et al. 1974: six each of just over 1/7, 1/3 and 1/2, where six consumers would do.
    speeds = [145.0] * 6 + [337.0] * 6 + [505.0] * 6
    assert consumers("ff", speeds, 1008) == consumers("bf", speeds, 1008) == 10
    assert consumers("ffd", speeds, 1008) == 6


def test_decreasing_first_fit_needs_eleven_ninths_of_the_best() -> None:
    # Johnson 1973: 6 × {51, 26, 23} and 3 × {27, 27, 23, 23} would be nine full consumers.
    speeds = [51.0] * 6 + [27.0] * 6 + [26.0] * 6 + [23.0] * 12
    assert consumers("ffd", speeds, 100) == consumers("bfd", speeds, 100) == 11
    assert consumers("ezzeddine", speeds, 100) == 11


def test_a_new_consumer_is_the_previous_one_if_that_is_unused() -> None:
    speeds = {"a": 6.0, "b": 7.0, "c": 8.0, "d": 9.0}
    previous = {"a": 5, "b": 5, "c": 1}
    # a reopens 5; b finds 5 used and takes 1, the lowest; c finds its own 1 used and takes 2.
    assert packing.pack(speeds, 10, previous, "ff") == {"a": 5, "b": 1, "c": 2, "d": 3}
    assert packing.pack(speeds, 10, previous, "nf") == {"a": 5, "b": 1, "c": 2, "d": 3}


def test_first_fit_goes_by_number_and_not_by_age() -> None:
    speeds = {"a": 6.0, "b": 7.0, "c": 3.0}
    assert packing.pack(speeds, 10, {"a": 9}, "ff")["c"] == 1
    assert packing.pack(speeds, 10, {"a": 9}, "bf")["c"] == 1
    assert packing.pack(speeds, 10, {"a": 9}, "wf")["c"] == 9


def test_next_fit_goes_by_age_and_not_by_number() -> None:
    speeds = {"a": 6.0, "b": 7.0, "c": 3.0}
    assert packing.pack(speeds, 10, {"b": 1, "a": 9}, "nf") == {"a": 9, "b": 1, "c": 1}


@pytest.mark.parametrize("name", ["nf", "ff", "bf", "wf", "mwf", "mbf", "mwfp", "mbfp"])
def test_fitting_is_decided_by_the_sum(name: str) -> None:
    # 0.8 + 0.2 is 1, though 1 − 0.8 is below 0.2; 0.6 + 1.1 is above 1.7, though 1.7 − 0.6 is 1.1.
    assert consumers(name, [0.8, 0.2], 1.0) == 1
    assert consumers(name, [0.6, 1.1], 1.7) == 2


@pytest.mark.parametrize("name", [*plain.PAPER, "ezzeddine"])
def test_nothing_joins_what_is_oversize(name: str) -> None:
    speeds = {"a": 11.0, "b": 0.0, "c": 10.0, "d": 0.0}
    result = packing.packing(speeds, 10, {"a": 1, "b": 1}, name)
    assert result.oversize == ("a",)
    assert Counter(result.assignment.values())[result.assignment["a"]] == 1
    # What is just as fast as the capacity is not oversize.
    assert result.consumers == 2 or name.startswith("nf")


@pytest.mark.parametrize("name", ["mwf", "mbf", "mwfp", "mbfp"])
def test_algorithm_1_moves_the_smallest_and_drops_a_consumer(name: str) -> None:
    speeds = {"a": 6.0, "b": 3.0, "c": 5.0, "d": 1.0, "e": 4.0}
    previous = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3}
    # 1 keeps a and b (9); d fits there, c does not, so 2 keeps c; e fits 2, so 3 goes.
    result = packing.packing(speeds, 10, previous, name)
    assert result.assignment == {"a": 1, "b": 1, "c": 2, "d": 1, "e": 2}
    assert (result.consumers, result.migrations, result.rscore) == (2, 2, 0.5)


@pytest.mark.parametrize(("name", "last"), [("mwf", 3), ("mbf", 1), ("mwfp", 3), ("mbfp", 1)])
def test_algorithm_1_stops_at_the_first_that_does_not_fit(name: str, last: int) -> None:
    speeds = {"a": 8.0, "b": 5.0, "c": 2.0, "d": 7.0}
    previous = {"a": 1, "b": 1, "c": 1, "d": 2}
    # 1 takes a and stops at b, so c is left over too, though it would fit; d re-creates 2.
    # Then b opens 3, and c joins the emptiest (3) or the fullest that it fits (1).
    assert packing.pack(speeds, 10, previous, name) == {"a": 1, "b": 3, "c": last, "d": 2}


@pytest.mark.parametrize(("name", "later"), [("mwf", 1), ("mbf", 1), ("mwfp", 2), ("mbfp", 2)])
def test_consumers_come_by_cumulative_or_by_largest_speed(name: str, later: int) -> None:
    speeds = {"a": 5.0, "b": 5.0, "c": 9.0}
    previous = {"a": 1, "b": 1, "c": 2}
    # By sums 1 comes first and c stays alone; by the largest 2 does, and of two equals the later
    # one, b, is tried first and joins it.
    assert packing.pack(speeds, 14, previous, name) == {"a": 1, "b": later, "c": 2}


def test_kafka_deals_partitions_out_by_count() -> None:
    # Paper, "Comparison with Kafka's Assignment Strategy": 32 partitions on 20 consumers.
    found = packing.pack(dict.fromkeys(range(32), 1.0), 1.0, None, "kd_20")
    assert found == {j: j % 20 + 1 for j in range(32)}
    assert Counter(Counter(found.values()).values()) == {2: 12, 1: 8}


def test_ezzeddine_forgets_the_previous_assignment() -> None:
    speeds = {"a": 3.0, "b": 8.0, "c": 7.0}
    previous = {"a": 4, "b": 5, "c": 6}
    assert packing.pack(speeds, 10, previous, "ezzeddine") == {"a": 2, "b": 1, "c": 2}
    assert packing.pack(speeds, 10, previous, "ffd") == {"a": 6, "b": 5, "c": 6}


def test_three_moves_of_a_full_partition_cost_three() -> None:
    # Paper, "Rscore": 100 bytes/s each at C = 100.
    speeds = dict.fromkeys("abc", 100.0)
    assert scores.rscore(speeds, 100, {"a": 1, "b": 2, "c": 3}, {"a": 2, "b": 3, "c": 1}) == 3
