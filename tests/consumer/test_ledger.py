"""What a cycle reads, how fair it is, and how a quota is kept."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.consumer import batches
from lagless.model import TopicPartition
from lagless.ports import Bounds, Position, Span

P = [TopicPartition("t", number) for number in range(5)]
spans = st.dictionaries(
    st.sampled_from(P),
    st.builds(
        lambda first, n: Span(first, first + n), st.integers(0, 10**9), st.integers(1, 10**6)
    ),
    min_size=1,
)


def test_everything_is_read_where_it_fits() -> None:
    available = {P[0]: Span(5, 10), P[1]: Span(0, 3)}
    assert batches.choose(available, dict.fromkeys(P, 100.0), 1e6) == available


def test_a_backlog_is_shared_by_its_size() -> None:
    available = {P[0]: Span(0, 9000), P[1]: Span(0, 1000)}
    chosen = batches.choose(available, dict.fromkeys(P, 100.0), 100_000)
    assert {p: len(span) for p, span in chosen.items()} == {P[0]: 900, P[1]: 100}


def test_records_of_unknown_size_are_probed() -> None:
    chosen = batches.choose({P[0]: Span(7, 10**9)}, {}, 5e6)
    assert chosen == {P[0]: Span(7, 7 + batches.PROBE)}


def test_a_record_larger_than_the_budget_is_read_alone() -> None:
    available = {P[0]: Span(0, 3), P[1]: Span(0, 8)}
    assert batches.choose(available, dict.fromkeys(P, 9e6), 5e6) == {P[1]: Span(0, 1)}


@given(spans, st.floats(1, 1e9), st.floats(1, 1e7), st.none() | st.integers(1, 1000))
def test_what_is_chosen_is_there_and_within_budget_and_limit(
    available: dict[TopicPartition, Span], budget: float, weight: float, limit: int | None
) -> None:
    weights = dict.fromkeys(P, weight)
    chosen = batches.choose(available, weights, budget, limit)
    assert chosen
    for p, span in chosen.items():
        assert span.first == available[p].first
        assert 0 < len(span) <= len(available[p])
    offsets = sum(map(len, chosen.values()))
    assert offsets == 1 or offsets * weight <= budget * (1 + 1e-9)
    assert limit is None or offsets <= limit


@given(spans, st.floats(1, 1e9), st.floats(1, 1e7))
def test_the_next_batch_is_the_one_that_would_be_chosen_after_this_one(
    available: dict[TopicPartition, Span], budget: float, weight: float
) -> None:
    weights = dict.fromkeys(P, weight)
    chosen = batches.choose(available, weights, budget)
    following = batches.next_batch(available, chosen, weights, budget)
    at = {p: Position(chosen.get(p, Span(s.first, s.first)).until, 1) for p, s in available.items()}
    rest = batches.backlog(at, {p: Bounds(0, span.until) for p, span in available.items()})
    left = sum(map(len, rest.values())) * weight
    if left < budget * (1 - 1e-9):
        assert following == {}
    elif left > budget * (1 + 1e-9):
        assert following == batches.choose(rest, weights, budget)
        assert batches.follow(following, rest) == following


def test_nothing_follows_where_the_size_of_records_is_unknown() -> None:
    available = {P[0]: Span(0, 1000), P[1]: Span(0, 1000)}
    chosen = {P[0]: Span(0, 10)}
    assert batches.next_batch(available, chosen, {P[0]: 100.0}, 1000.0) == {}
    assert batches.next_batch(available, chosen, {P[0]: 100.0, P[1]: 1.0}, 1000.0) != {}


def test_what_was_begun_is_followed_only_as_a_whole() -> None:
    begun = {P[0]: Span(10, 20), P[1]: Span(5, 6)}
    there = {P[0]: Span(10, 30), P[1]: Span(5, 6), P[2]: Span(0, 9)}
    assert batches.follow(begun, there) == begun
    assert batches.follow(begun, {**there, P[0]: Span(11, 30)}) == {}
    assert batches.follow(begun, {**there, P[0]: Span(10, 19)}) == {}
    assert batches.follow(begun, {P[0]: Span(10, 30)}) == {}
    assert batches.follow({}, there) == {}


def test_what_is_deleted_or_beyond_is_told_from_what_is_there() -> None:
    at = {P[0]: Position(5, 1), P[1]: Position(5, 1), P[2]: Position(50, 1), P[3]: Position(9, 1)}
    bounds = {P[0]: Bounds(0, 9), P[1]: Bounds(7, 9), P[2]: Bounds(0, 9), P[3]: Bounds(0, 9)}
    assert batches.backlog(at, bounds) == {P[0]: Span(5, 9), P[1]: Span(7, 9)}
    assert batches.deleted(at, bounds) == {P[1]: Span(5, 7)}
    assert batches.beyond(at, bounds) == {P[2]: Span(9, 50)}


def test_spans_carry_the_epoch_of_the_log_that_they_were_chosen_from() -> None:
    there = batches.backlog({P[0]: Position(5, 1)}, {P[0]: Bounds(0, 900, 3)})
    chosen = batches.choose(there, {P[0]: 1.0}, 10)
    rest = batches.next_batch(there, chosen, {P[0]: 1.0}, 10)
    passed = batches.deleted({P[0]: Position(5, 1)}, {P[0]: Bounds(7, 9, 4)})
    assert [spans[P[0]].epoch for spans in (there, chosen, rest, passed)] == [3, 3, 3, 4]
    # What was begun ahead was read from the log of its own epoch.
    later = batches.backlog({P[0]: Position(15, 1)}, {P[0]: Bounds(0, 900, 4)})
    assert batches.follow(rest, later)[P[0]].epoch == 3


def test_a_position_is_doubted_only_if_its_leader_has_a_successor() -> None:
    at = {p: Position(5, 1, epoch) for p, epoch in zip(P, (2, 3, -1, 4), strict=False)}
    assert batches.succeeded(at, dict.fromkeys(at, Bounds(0, 9, 3))) == {P[0]: 2}
    assert batches.succeeded(at, dict.fromkeys(at, Bounds(0, 9))) == {}
    assert batches.succeeded(at, {}) == {}


def test_a_backlog_allows_larger_batches() -> None:
    batch = batches.Batch(5e6, 50e6)
    assert batch.budget(1e6, 0.3) == 5e6
    assert batch.budget(20e6, 0.3) == 20e6
    assert batch.budget(9e9, 0.3) == 50e6


def test_a_batch_grows_while_cycles_are_short_and_shrinks_when_they_are_long() -> None:
    batch = batches.Batch(1e6, 50e6)
    assert batch.budget(9e9, 3.0, last=1e6) == 8e6
    assert batch.budget(9e9, 0.3, last=20e6) == 50e6
    assert batch.budget(9e9, 10.0, last=20e6) == 10e6
    assert batch.budget(9e9, 100.0, last=5e6) == 1e6
    # A fixed cost of each cycle does not keep batches small for ever.
    size = 1e6
    for _ in range(20):
        size = batch.budget(9e9, 3.0 + size / 20e6, last=size)
    assert size > 30e6


@given(st.lists(st.floats(0.05, 5.0), min_size=20, max_size=60), st.floats(1e5, 1e8))
def test_a_quota_is_kept_and_used(cycles: list[float], rate: float) -> None:
    """Simulate cycles of any length, each after a wait of a second, over an endless backlog."""
    quota = batches.Quota(rate, 12.0, spent_until=0.0)
    now = read = 0.0
    for seconds in cycles:
        now += 1.0
        size = quota.left(now)
        assert 0 < size <= rate * 12.0
        quota.spend(now, size)
        read += size
        assert read == pytest.approx(rate * now)
        now += seconds


@given(st.floats(0, 1e6), st.floats(0, 100))
def test_what_is_saved_has_an_end_and_a_debt_is_paid(idle: float, more: float) -> None:
    quota = batches.Quota(100.0, 12.0, spent_until=0.0)
    assert quota.left(idle) == pytest.approx(100 * min(idle, 12.0))
    before = quota.left(idle)
    quota.spend(idle, before + 100 * more)  # a record that is larger than what is left
    assert quota.left(idle) == pytest.approx(-100 * more, abs=1e-3)
    assert quota.left(idle + more + 1) == pytest.approx(100, rel=1e-3)


def test_without_a_quota_nothing_is_held_back() -> None:
    quota = batches.Quota(None, 12.0, spent_until=0.0)
    quota.spend(1.0, 1e12)
    assert quota.left(1.0) == math.inf


def test_the_monitors_word_goes_before_the_own_measurement() -> None:
    weights = batches.Weights({P[0]: 10.0})
    weights.measure("t", 10, 5000)
    assert weights.of(P[:2]) == {P[0]: 10.0, P[1]: 500.0}


def test_larger_records_are_believed_at_once_and_smaller_ones_by_and_by() -> None:
    weights = batches.Weights()
    weights.measure("t", 10, 1000)
    weights.measure("t", 10, 1e6)
    assert weights.measured["t"] == 1e5
    weights.measure("t", 10, 1000)
    assert 100 < weights.measured["t"] < 1e5


def test_a_limit_is_halved_and_relaxed_until_it_is_none() -> None:
    limits = batches.Limits()
    for _ in range(20):
        limits.halve("t", limits.offsets.get("t", 10_000))
    assert limits.offsets == {"t": 1}
    for _ in range(20):
        limits.relax("t", 10_000)
    assert limits.offsets == {}


def test_delay_is_the_age_of_the_oldest_unread_record() -> None:
    delays = batches.Delays()
    for at, end in ((10.0, 5), (11.0, 7), (12.0, 7), (13.0, 9)):
        delays.see(at, {P[0]: Bounds(0, end)})
    assert delays.seconds(20.0, {P[0]: 0}) == 10.0
    assert delays.seconds(20.0, {P[0]: 5}) == 9.0
    assert delays.seconds(20.0, {P[0]: 8}) == 7.0
    assert delays.seconds(20.0, {P[0]: 9}) == 0.0


def test_delays_do_not_grow_for_ever() -> None:
    delays = batches.Delays()
    for number in range(5000):
        delays.see(float(number), {P[0]: Bounds(0, number + 1)})
    assert len(delays.ends[P[0]]) <= batches.KEPT
    assert delays.seconds(5000.0, {P[0]: 0}) == 5000.0


@pytest.mark.parametrize("backlog", [0.0, 1.0, 1e12])
def test_a_budget_is_finite(backlog: float) -> None:
    assert math.isfinite(batches.Batch(1, 2).budget(backlog, 0.0))


def test_a_consumer_gathers_for_as_long_as_its_cycles_take() -> None:
    wait = batches.Wait(0.1, 1.0)
    assert wait.seconds(0, math.inf) == 1.0  # no cycle has been timed yet
    for cycle, least, most in ((0.02, 0.1, 0.1), (0.4, 0.35, 0.45), (9.0, 1.0, 1.0)):
        for _ in range(20):
            wait.learn(cycle)
        assert least <= wait.seconds(1000, math.inf) <= most


def test_a_consumer_that_its_quota_holds_back_gathers_for_longest() -> None:
    wait = batches.Wait(0.1, 1.0)
    wait.learn(0.2)
    assert wait.seconds(1000, 2000.0) == 0.2
    assert wait.seconds(3000, 2000.0) == 1.0


def test_a_fixed_wait_stays_fixed() -> None:
    wait = batches.Wait(2.0, 2.0)
    wait.learn(0.2)
    assert wait.seconds(0, math.inf) == 2.0
    below_the_default = batches.Wait(0.1, 0.05)
    below_the_default.learn(0.2)
    assert below_the_default.seconds(0, math.inf) == 0.05
