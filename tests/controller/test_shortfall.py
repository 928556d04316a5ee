"""Consumers that read less than C̄ at full load."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from lagless.controller import shortfall
from lagless.messages import Heartbeat

C = 10e6
Waiting = Literal["", "spark"]


def beat(rate: float, lag: float = 1e9, incarnation: str = "a", waiting: Waiting = "") -> Heartbeat:
    return Heartbeat(
        group="g",
        at=0,
        consumer=1,
        incarnation=incarnation,
        state="ready",
        bytes_per_second=rate,
        lag_bytes=lag,
        highest=0,
        waiting_for=waiting,
    )


def told(beats: list[Heartbeat], step: float = 2.0) -> list[str]:
    watch, texts = shortfall.Watch(), []
    for number, one in enumerate(beats):
        watch, text = shortfall.look(watch, number * step, {1: one}, C)
        texts.append(text)
    return [text for text in texts if text]


def test_a_consumer_that_reads_less_for_minutes_is_named_with_its_rate() -> None:
    texts = told([beat(6e6)] * 120)
    assert len(texts) == 1
    assert "consumer 1" in texts[0]
    assert "6 MB/s" in texts[0]
    assert "10 MB/s" in texts[0]


def test_it_is_said_again_only_after_a_while() -> None:
    assert len(told([beat(6e6)] * 600)) == 2


@given(st.lists(st.floats(0.91 * C, 3 * C), min_size=100, max_size=120))
def test_nobody_is_blamed_who_reads_enough(rates: list[float]) -> None:
    assert told([beat(rate) for rate in rates]) == []


@given(st.integers(0, 89), st.sampled_from(["idle", "other", "waiting"]))
def test_a_break_begins_a_new_time(at: int, kind: str) -> None:
    broken = {
        "idle": beat(0, lag=0),
        "other": beat(1e6, incarnation="b"),
        "waiting": beat(0, waiting="spark"),
    }[kind]
    beats = [beat(1e6)] * 90
    assert told([*beats[:at], broken, *beats[at:]][:90]) == []


def test_without_consumers_there_is_nothing_to_say() -> None:
    assert shortfall.look(shortfall.Watch(), 1.0, {}, C) == (shortfall.Watch(), "")
