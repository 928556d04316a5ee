"""Other settings tried on the current speeds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lagless
from lagless.dashboard import whatif
from lagless.model import TopicPartition

P = [TopicPartition("orders", n) for n in range(40)]


@given(st.lists(st.floats(0, 1.5), max_size=40))
def test_plain_kafka_needs_the_smallest_n_that_keeps_everyone_within_c(rates: list[float]) -> None:
    speeds = dict(zip(P, rates, strict=False))

    def fits(n: int) -> bool:
        dealt = lagless.pack(speeds, 1.0, algorithm=f"kd_{n}")
        bins = [[speeds[p] for p in dealt if dealt[p] == k] for k in range(1, n + 1)]
        return all(len(loads) <= 1 or sum(loads) <= 1.0 for loads in bins)

    needed = whatif.plain_kafka(speeds, 1.0)
    assert needed <= len(speeds)
    if speeds:
        assert fits(needed)
        assert not any(fits(n) for n in range(1, needed))


def test_plain_kafka_needs_no_consumers_without_partitions() -> None:
    assert whatif.plain_kafka({}, 1.0) == 0


@pytest.mark.parametrize("name", ["ffd", "mwf", "mbfp"])
def test_an_answer_is_what_pack_gives(name: str) -> None:
    speeds = {p: 0.1 + 0.02 * n for n, p in enumerate(P)}
    held = lagless.pack(speeds, 1.0, algorithm="bfd")
    answer = whatif.ask(speeds, 0.9, held, name, 0.05)
    expected = lagless.pack(speeds, 0.9, held, name)
    assert answer.assignment == expected
    assert answer.consumers == len(set(expected.values()))
    assert answer.migrations == sum(held[p] != expected[p] for p in held)
    assert answer.trouble == ""


def test_consumers_of_partitions_that_are_not_written_to_do_not_matter() -> None:
    answer = whatif.ask({P[0]: 0.5}, 1.0, {P[0]: 3, P[7]: 1}, "mwf", 0)
    assert (answer.assignment, answer.migrations) == ({P[0]: 3}, 0)


def test_invalid_input_is_answered_with_its_trouble() -> None:
    assert "capacity" in whatif.ask({P[0]: 0.5}, -1, {}, "ffd", 0).trouble


def test_all_algorithms_but_the_slow_and_the_parametrised_are_offered() -> None:
    assert {"mwf", "mbfp", "sticky", "ffd"} <= set(whatif.algorithms())
    assert not {"exact", "kd_<n>"} & set(whatif.algorithms())
