"""Numbers as people read them."""

import pytest

from lagless.dashboard import words


@pytest.mark.parametrize(
    ("speed", "text"),
    [(0, "0 B/s"), (999, "999 B/s"), (1500, "1.50 kB/s"), (2e6, "2.00 MB/s"), (125e6, "125 MB/s")],
)
def test_rates_have_a_unit_and_three_digits(speed: float, text: str) -> None:
    assert words.rate(speed) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.08, "80 ms"),
        (4.24, "4.2 s"),
        (30, "30 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_change_their_unit(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


def test_ages_are_whole_seconds() -> None:
    assert [words.age(-0.4), words.age(0.2), words.age(3.4), words.age(61.2)] == [
        "0 s",
        "0 s",
        "3 s",
        "61 s",
    ]


def test_one_is_no_plural() -> None:
    assert words.count(1, "record") == "1 record"
    assert words.count(12345, "record") == "12 345 records"


def test_an_axis_takes_the_unit_of_its_largest_value() -> None:
    assert words.scale(2e6) == ("MB/s", 1e6)
    assert words.scale(12) == ("B/s", 1)


def test_sizes_that_nobody_knows_yet_are_not_told() -> None:
    assert words.waiting(2_500_000, 12) == "2.50 MB, 12 records"
    assert words.waiting(0, 0) == "0 B, 0 records"
    assert words.waiting(0, 12) == "12 records"
