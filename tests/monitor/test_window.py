"""The window against logs whose true speed is known."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lagless.model import TopicPartition
from lagless.monitor.window import Window
from lagless.ports import LogSize, Measurement
from tests.monitor.logs import Log

P = TopicPartition("orders", 0)
Q = TopicPartition("orders", 1)
INTERVAL, WINDOW = 5.0, 30.0
FULL = 8
"""Rounds after which the window is full, with one to spare for late rounds."""
# What happens to a log between two rounds, with how often it does.
EVENTS = ("retain", "compact", "delete_records", "collect", "recreate", "move", "fail", "nothing")


def happen(log: Log, event: str, rng: np.random.Generator) -> None:
    """Let one of EVENTS happen to the log."""
    if event == "retain":
        log.retain(rng.uniform(1, 4) * log.segment)
    elif event in ("compact", "move"):
        getattr(log, event)(rng.uniform(0.1, 0.9))
    elif event == "delete_records":
        log.delete_records(rng.uniform(0, 1))
    elif event in ("collect", "recreate"):
        getattr(log, event)()


def speed(window: Window) -> float:
    """Return the one partition's speed."""
    return window.readings()[P].speed


def feed(
    window: Window, log: Log, rate: float, seconds: float, at: float, failed: bool = False
) -> float:
    """Write at a rate for some seconds, then measure; return the time."""
    log.write(rate * seconds)
    at += seconds
    if failed:
        window.add(Measurement(at, {}, frozenset({P})))
    else:
        window.add(Measurement(at, {P: log.size()}))
    return at


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rate=st.floats(10_000, 1e6),
    record=st.floats(20, 500),
    retention=st.floats(1, 20),
    step=st.sampled_from([None, 0.2, 5.0]),
)
def test_a_steady_writer_is_told_within_2_percent_under_retention(
    seed: int, rate: float, record: float, retention: float, step: float | None
) -> None:
    rng = np.random.default_rng(seed)
    log, window = Log(rng, record), Window(WINDOW)
    at = feed(window, log, 0, INTERVAL, 1000.0)
    rounds = FULL + 12
    for number in range(rounds):
        # Retention runs at its own times, so split the interval.
        part = rng.uniform(0.1, 0.9) * INTERVAL
        log.write(rate * part)
        log.retain(retention * log.segment)
        at = feed(window, log, rate, INTERVAL - part, at + part)
        if number >= FULL:
            assert speed(window) == pytest.approx(rate, rel=0.02, abs=3 * record / WINDOW)
    if step is None:
        return
    for number in range(FULL + 2):
        at = feed(window, log, rate * step, INTERVAL, at)
        log.retain(retention * log.segment)
        low, high = sorted((rate, rate * step))
        assert low * 0.97 - record <= speed(window) <= high * 1.03 + record
        if number >= 6:  # the step is a window ago
            assert speed(window) == pytest.approx(rate * step, rel=0.02, abs=3 * record / WINDOW)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rate=st.floats(0, 1e6),
    record=st.floats(20, 500),
    events=st.lists(st.sampled_from(EVENTS), min_size=10, max_size=40),
)
def test_no_history_gives_a_negative_or_absurd_speed(
    seed: int, rate: float, record: float, events: list[str]
) -> None:
    rng = np.random.default_rng(seed)
    log, window = Log(rng, record), Window(WINDOW)
    at = feed(window, log, rate, INTERVAL, 0.0)
    for event in events:
        happen(log, event, rng)
        at = feed(window, log, rate, INTERVAL + rng.uniform(-0.5, 0.5), at, event == "fail")
        for reading in window.readings().values():
            # Events in a row leave nothing that sizes could tell: then density is all there is.
            assert 0 <= reading.speed <= 1.5 * rate + 3 * record


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rate=st.floats(20_000, 1e6),
    event=st.sampled_from(["compact", "delete_records", "collect", "move", "fail"]),
    every=st.integers(4, 9),
)
def test_rare_events_leave_a_steady_speed_within_2_percent(
    seed: int, rate: float, event: str, every: int
) -> None:
    rng = np.random.default_rng(seed)
    log, window = Log(rng, 100), Window(WINDOW)
    at = feed(window, log, 0, INTERVAL, 0.0)
    for number in range(40):
        now = number > FULL and number % every == 0
        if now:
            before, first = log.bytes, number <= FULL + every
            happen(log, event, rng)
            # A first compaction that frees less than is written in a step leaves no trace in sizes.
            assume(event != "compact" or not first or before - log.bytes > 1.1 * rate * INTERVAL)
        at = feed(window, log, rate, INTERVAL, at, now and event == "fail")
        if number >= FULL:
            assert speed(window) == pytest.approx(rate, rel=0.02)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rate=st.floats(50_000, 1e6), steps=st.floats(1.5, 10))
def test_bytes_per_offset_that_change_do_not_mislead_under_retention(
    seed: int, rate: float, steps: float
) -> None:
    rng = np.random.default_rng(seed)
    log, window = Log(rng, 200, segment=round(rate * 2)), Window(WINDOW)
    at = feed(window, log, 0, INTERVAL, 0.0)
    truth = [(at, log.appended)]
    for number in range(40):
        # Compression depends on batches, and batches on the moment.
        log.record = 200 * rng.uniform(0.85, 1.15)
        log.write(rate * 2)
        log.retain(steps * rate * INTERVAL)
        at = feed(window, log, rate, INTERVAL - 2, at + 2)
        truth.append((at, log.appended))
        if number >= FULL:
            (first_at, first), (last_at, last) = truth[-7], truth[-1]
            assert speed(window) == pytest.approx((last - first) / (last_at - first_at), rel=0.03)


def test_a_log_that_retention_shortens_while_it_grows_is_not_understated() -> None:
    window = Window(WINDOW)
    window.add(Measurement(0, {P: LogSize(1000, 0, 100, "a", 1)}))
    window.add(Measurement(5, {P: LogSize(2000, 0, 200, "a", 1)}))
    # 1000 bytes came and 500 went: the size alone says 500.
    window.add(Measurement(10, {P: LogSize(2500, 50, 300, "a", 1)}))
    assert speed(window) == pytest.approx(200)


def test_a_replica_that_holds_less_does_not_overstate_what_retention_deletes_of_it() -> None:
    window = Window(WINDOW)
    for number in range(4):
        end = 100 * number
        window.add(Measurement(5 * number, {P: LogSize(10 * end, 0, end, "a", 1)}))
    # The new leader has 1,200 bytes of 400 offsets, since its old segments were compacted.
    window.add(Measurement(20, {P: LogSize(1200, 0, 400, "a", 2)}))
    # All but the last hundred offsets are deleted, which frees 900 bytes here and not 3,000.
    window.add(Measurement(25, {P: LogSize(1300, 300, 500, "a", 2)}))
    assert speed(window) == pytest.approx(200)


def test_a_topic_created_again_counts_what_its_new_log_holds() -> None:
    window = Window(WINDOW)
    window.add(Measurement(0, {P: LogSize(10**9, 0, 10**6, "a", 1)}))
    window.add(Measurement(5, {P: LogSize(700, 0, 7, "b", 1)}))
    assert speed(window) == pytest.approx(140)


def test_deleting_all_records_at_first_sight_does_not_make_a_record_huge() -> None:
    window = Window(WINDOW)
    window.add(Measurement(0, {P: LogSize(10**9, 999_999, 10**6, "a", 1)}))
    window.add(Measurement(5, {P: LogSize(10**9 + 1000, 10**6, 10**6 + 1, "a", 1)}))
    assert speed(window) < 10**9 / 5 + 1000


def test_a_clock_set_back_is_no_step_and_the_bytes_show_later() -> None:
    window = Window(WINDOW)
    for at, size in ((10, 0), (15, 500), (14, 600), (20, 1000)):
        window.add(Measurement(at, {P: LogSize(size, 0, size, "a", 1)}))
    assert speed(window) == pytest.approx(100)


def test_a_gap_is_spanned_and_keeps_the_last_speed_as_stale() -> None:
    window = Window(WINDOW)
    window.add(Measurement(0, {P: LogSize(0, 0, 0, "a", 1)}))
    window.add(Measurement(5, {P: LogSize(500, 0, 5, "a", 1)}))
    for _ in range(20):
        window.miss()
    assert window.readings()[P].stale
    assert speed(window) == pytest.approx(100)
    window.add(Measurement(105, {P: LogSize(10_500, 0, 105, "a", 1)}))
    assert not window.readings()[P].stale
    assert speed(window) == pytest.approx(100)


def test_a_partition_measured_once_is_left_out_and_one_that_went_is_dropped() -> None:
    window = Window(WINDOW)
    both = {P: LogSize(0, 0, 0), Q: LogSize(0, 0, 0)}
    window.add(Measurement(0, {P: both[P]}))
    assert not window.readings()
    window.add(Measurement(5, both))
    assert set(window.readings()) == {P}
    window.add(Measurement(10, both))
    assert set(window.readings()) == {P, Q}
    window.add(Measurement(15, {P: both[P]}))
    assert window.readings()[Q].stale
    window.add(Measurement(20, {P: both[P]}))
    assert set(window.readings()) == {P}


def test_failing_does_not_make_a_partition_go() -> None:
    window = Window(WINDOW)
    for at in (0, 5):
        window.add(Measurement(at, {P: LogSize(at, 0, at)}))
    for at in range(10, 200, 5):
        window.add(Measurement(at, {}, frozenset({P})))
    assert window.readings()[P].stale


def test_bytes_per_offset_come_from_clean_growth_and_else_from_the_whole_log() -> None:
    window = Window(WINDOW)
    window.add(Measurement(0, {P: LogSize(1000, 0, 10, "a", 1)}))
    window.add(Measurement(5, {P: LogSize(1000, 0, 10, "a", 1)}))
    assert window.readings()[P].bytes_per_offset == pytest.approx(100)
    window.add(Measurement(10, {P: LogSize(1500, 0, 20, "a", 1)}))
    assert window.readings()[P].bytes_per_offset == pytest.approx(50)


@pytest.mark.parametrize("late", [0.0, 0.05, 0.4])
def test_the_window_spans_its_length_even_if_rounds_are_a_little_late(late: float) -> None:
    window = Window(WINDOW)
    log = Log(np.random.default_rng(0), 100)
    at = feed(window, log, 0, INTERVAL, 0.0)
    for number in range(20):
        at = feed(window, log, 1e5, INTERVAL + (late if number == 15 else 0), at)
    past = window._logs[P].past
    assert past[-1][0] - past[0][0] == pytest.approx(WINDOW, abs=0.6)
    assert all(earlier[1] <= later[1] for earlier, later in pairwise(past))
