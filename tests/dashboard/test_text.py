"""Numbers as readable text."""

import pytest

from lagless.dashboard import text


@pytest.mark.parametrize(
    ("speed", "expected"),
    [(0, "0 B/s"), (999, "999 B/s"), (1500, "1.50 kB/s"), (2e6, "2.00 MB/s"), (125e6, "125 MB/s")],
)
def test_rates_have_a_unit_and_three_digits(speed: float, expected: str) -> None:
    assert text.rate(speed) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
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
def test_durations_change_their_unit(seconds: float | None, expected: str) -> None:
    assert text.duration(seconds) == expected


def test_ages_are_whole_seconds() -> None:
    assert [text.age(-0.4), text.age(0.2), text.age(3.4), text.age(61.2)] == [
        "0 s",
        "0 s",
        "3 s",
        "61 s",
    ]


def test_only_one_is_singular() -> None:
    assert text.count(1, "record") == "1 record"
    assert text.count(12345, "record") == "12 345 records"


def test_an_axis_takes_the_unit_of_its_largest_value() -> None:
    assert text.scale(2e6) == ("MB/s", 1e6)
    assert text.scale(12) == ("B/s", 1)


def test_unknown_sizes_are_left_out() -> None:
    assert text.backlog(2_500_000, 12) == "2.50 MB, 12 records"
    assert text.backlog(0, 0) == "0 B, 0 records"
    assert text.backlog(0, 12) == "12 records"
