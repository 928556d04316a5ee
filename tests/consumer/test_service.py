"""The four-phase cycle and the orders between cycles, on ports in memory."""

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from lagless.consumer.service import Service
from lagless.errors import Away, ClaimLost, DataLost, GiveUp, TooMuch, TryAgain
from lagless.messages import Order, OrderKind
from lagless.model import TopicPartition
from lagless.ports import Bounds, Position, Span, Topic
from lagless.settings import ConsumerSettings
from tests.consumer.ports import Kafka, Lake, Mail, Time

T = Topic("t", "id")
P = [TopicPartition("t", number) for number in range(3)]


class World:
    """A consumer and its world."""

    def __init__(self, partitions: int = 3, end: int = 1000, **settings: Any) -> None:
        self.clock = Time()
        self.kafka = Kafka()
        self.kafka.make("t", partitions, end)
        self.lake = Lake()
        self.mail = Mail(self.lake.story, clock=self.clock)
        self.settings = ConsumerSettings(**settings)
        self.service = self.make(self.mail)

    def make(self, mail: Mail | None) -> Service:
        return Service(
            "g", 1, "b.i", self.settings, self.kafka, self.lake, self.clock, mail, lambda: None
        )

    def order(self, kind: OrderKind, generation: int, *partitions: int, who: str = "b.i") -> None:
        self.mail.inbox.append(
            Order(
                group="g",
                kind=kind,
                consumer=1,
                incarnation=who,
                generation=generation,
                partitions=tuple(("t", p) for p in partitions),
                at=0,
            )
        )

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.service.turn()

    def run_until(self, condition: Callable[[], bool], turns: int = 500) -> None:
        for _ in range(turns):
            if condition():
                return
            self.turn()
        raise AssertionError("it never came about")

    def at(self, partition: int) -> Position:
        return self.lake.positions[(T, partition)]

    @property
    def held(self) -> set[int]:
        return {p.partition for p in self.service.state.held}


def test_a_start_order_is_claimed_then_persisted_then_answered_then_read() -> None:
    world = World()
    world.order("start", 5, 0, 1)
    world.run_until(lambda: bool(world.lake.landed))
    kinds = [line.split()[0] for line in world.lake.story if line != "ready"]
    assert kinds == ["claim", "persist", "receipt", "ingest"]
    assert world.mail.receipts[0].partitions == (("t", 0), ("t", 1))
    assert world.at(0).owner == 5


def test_a_consumer_without_work_rehearses_until_that_helps_no_more() -> None:
    world = World()
    world.lake.rounds = 4
    world.turn(200)
    assert world.lake.rehearsed == 4
    world.order("start", 5, 0, 1)
    world.run_until(lambda: bool(world.lake.landed))
    assert world.lake.rehearsed == 4


def test_a_consumer_that_gets_work_at_once_does_not_rehearse_first() -> None:
    world = World()
    world.lake.rounds = 4
    world.order("start", 5, 0, 1)
    world.run_until(lambda: bool(world.lake.landed))
    assert world.lake.rehearsed == 0


def test_a_rehearsal_that_fails_is_not_repeated_and_keeps_nobody_from_reading() -> None:
    world = World()
    world.lake.rounds = 4
    world.lake.rehearsal_fails = [Away("no Spark", "spark")]
    world.turn(100)
    assert (world.lake.rehearsed, world.lake.interrupted) == (1, 1)
    world.order("start", 5, 0, 1)
    world.run_until(lambda: bool(world.lake.landed))


def test_everything_is_read_and_the_group_hears_of_it_after_the_table() -> None:
    world = World(end=1000)
    world.order("start", 5, 0, 1, 2)
    world.run_until(
        lambda: all(world.at(p).offset == 1000 for p in range(3)) if world.lake.met else False
    )
    world.turn()
    assert world.kafka.group == {TopicPartition("t", p): 1000 for p in range(3)}
    spans = sorted((span.first, span.until) for _, p, span in world.lake.landed if p == 0)
    assert spans[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(spans))


def test_a_stop_takes_effect_after_the_running_cycle_and_not_in_its_middle() -> None:
    world = World(partitions=2)
    world.order("start", 5, 0, 1)
    seen: list[set[int]] = []

    def during() -> None:
        if not seen:
            world.order("stop", 6, 0)
        seen.append(world.held)

    world.lake.during = during
    world.run_until(lambda: len(world.mail.receipts) == 2)
    assert seen[0] == {0, 1}
    assert world.held == {1}
    story = world.lake.story
    assert story.index("ingest [0, 1]") < story.index("receipt stop")
    after = story[story.index("receipt stop") :]
    assert not any("ingest [0" in line for line in after)


def test_no_receipt_before_the_state_is_persisted() -> None:
    world = World()
    world.mail.fails = [TryAgain("Kafka is away"), TryAgain("Kafka is away")]
    world.order("start", 5, 0)
    world.turn()
    assert world.mail.receipts == []
    world.run_until(lambda: bool(world.mail.receipts))
    kinds = [line.split()[0] for line in world.lake.story if line != "ready"]
    assert kinds[:3] == ["claim", "persist", "receipt"]


def test_old_generations_and_other_incarnations_are_ignored() -> None:
    world = World()
    world.order("start", 5, 0)
    world.run_until(lambda: world.held == {0})
    world.order("stop", 4, 0)
    world.order("stop", 9, 0, who="somebody.else")
    world.turn(3)
    assert world.held == {0}


def test_a_repeated_order_is_answered_again_and_changes_nothing() -> None:
    world = World()
    for _ in range(2):
        world.order("start", 5, 0)
        world.run_until(lambda: not world.mail.inbox)
        world.turn()
    assert len(world.mail.receipts) == 2
    assert world.held == {0}


def test_a_claim_that_another_holds_is_refused_with_its_generation() -> None:
    world = World()
    world.lake.claim(T, [P[1]], 9, lambda: dict.fromkeys(P, 0), {})
    world.order("start", 5, 0, 1)
    world.run_until(lambda: bool(world.mail.receipts))
    (receipt,) = world.mail.receipts
    assert receipt.highest == 9
    assert [p for _, p, _ in receipt.refused] == [1]


def test_a_partition_that_was_taken_over_is_dropped_and_the_rest_goes_on() -> None:
    world = World(partitions=2, end=10_000)
    world.order("start", 5, 0, 1)
    world.run_until(lambda: len(world.lake.landed) > 0)
    world.lake.claim(T, [P[1]], 8, dict, {})
    world.run_until(lambda: world.held == {0})
    assert world.service.state.highest == 8
    world.run_until(lambda: world.at(0).offset == 10_000)
    assert world.at(1).offset < 10_000


def test_retire_ends_and_hands_back() -> None:
    world = World()
    world.order("start", 5, 0)
    world.order("retire", 6)
    world.service.run(lambda: False)
    assert world.mail.receipts[-1].kind == "retire"
    assert world.mail.states[-1].held == ()
    assert world.mail.beats[-1].state == "ending"


def test_sigterm_ends_the_cycle_and_hands_back() -> None:
    world = World()
    world.order("start", 5, 0)
    world.service.run(lambda: bool(world.lake.landed))
    assert world.mail.states[-1].held == ()
    assert (world.mail.beats[-1].state, world.mail.beats[-1].held) == ("ending", ())


def test_heartbeats_carry_lag_and_what_is_waited_for() -> None:
    world = World(partitions=1, end=500)
    world.order("start", 5, 0)
    world.lake.fails = [Away("Spark is away", "spark")]
    world.run_until(lambda: not world.lake.fails)
    beat = world.service.heartbeat(world.clock.now())
    assert (beat.waiting_for, beat.lag_records) == ("spark", 500)
    world.run_until(lambda: world.at(0).offset == 500)
    world.turn(30)
    beat = world.service.heartbeat(world.clock.now())
    assert (beat.waiting_for, beat.lag_records, beat.lag_seconds) == ("", 0, 0)
    assert (beat.held, beat.trouble) == ((("t", 0, 5),), "")


def test_a_consumer_that_cannot_claim_since_the_lake_is_away_says_that_it_waits() -> None:
    world = World(partitions=1, end=500)
    world.order("start", 5, 0)
    world.lake.claims_fail = [Away("the lake is away", "lake")] * 3
    world.run_until(lambda: len(world.lake.claims_fail) == 1)
    beat = world.service.heartbeat(world.clock.now())
    assert (beat.held, beat.waiting_for, beat.trouble) == ((), "lake", "the lake is away")
    world.run_until(lambda: bool(world.mail.receipts))
    beat = world.service.heartbeat(world.clock.now())
    assert (beat.held, beat.waiting_for, beat.trouble) == ((("t", 0, 5),), "", "")


def test_a_lag_of_unknown_bytes_is_not_made_up() -> None:
    world = World(partitions=1, end=500_000)
    world.order("start", 5, 0)
    lags: list[tuple[int, float]] = []
    vitals = world.service.vitals
    world.lake.during = lambda: lags.append((vitals.lag_records, vitals.lag_bytes))
    world.run_until(lambda: len(world.lake.landed) == 2)
    assert lags[0] == (500_000, 0)
    assert lags[1] == (499_900, 499_900 * 1000.0)


def test_after_spark_was_lost_it_is_warmed_up_before_the_next_cycle() -> None:
    world = World(partitions=1, end=500)
    world.order("start", 5, 0)
    world.run_until(lambda: bool(world.lake.landed))
    world.lake.fails = [Away("Spark is away", "spark")]
    before = world.lake.story.count("ready")
    world.kafka.logs[TopicPartition("t", 0)] = Bounds(0, 900)
    world.run_until(lambda: world.at(0).offset == 900)
    assert world.lake.story.count("ready") == before + 1


def test_what_retention_deleted_stops_or_is_named_by_setting() -> None:
    world = World(partitions=1, on_data_loss="continue")
    world.order("start", 5, 0)
    world.run_until(lambda: world.held == {0})
    world.kafka.logs[TopicPartition("t", 0)] = Bounds(600, 1000)
    world.run_until(lambda: world.at(0).offset == 1000)
    named = [span for _, _, span in world.lake.gone]
    read = sum(len(span) for _, _, span in world.lake.landed)
    assert [span.until for span in named] == [600]
    assert read + sum(map(len, named)) == 1000


def unclean(end: int) -> World:
    """Return a world with a log of which 500 records were read; its new leader had 300 of them."""
    world = World(partitions=2, end=500)
    world.lake.claim(T, P[:2], 1, lambda: dict.fromkeys(P[:2], 0), {})
    world.lake.positions[(T, 0)] = Position(500, 1, 3)
    world.kafka.logs[P[0]] = Bounds(0, end, 4)
    world.kafka.epochs[(P[0], 3)] = 300
    return world


@pytest.mark.parametrize("end", [400, 900])
def test_records_that_were_read_and_that_kafka_lost_are_named(end: int) -> None:
    """With 400 the log ends too early; with 900 new records hide it, and only the epoch tells."""
    world = unclean(end)
    with pytest.raises(GiveUp, match=r"at offset 500, .* offset 300 on.*--to 300"):
        world.make(None).run_by_hand([P[0]], lambda: bool(world.lake.landed))
    assert world.lake.landed == []


def test_a_leader_that_has_everything_is_asked_once() -> None:
    """Partition 0 has nothing new, and stays at its old epoch while partition 1 is read."""
    world = unclean(500)
    world.kafka.epochs[(P[0], 3)] = 500
    ends = iter(range(600, 1000, 100))

    def read() -> bool:
        if world.at(1).offset == world.kafka.logs[P[1]].end:
            world.kafka.logs[P[1]] = Bounds(0, next(ends), 4)
        return world.at(1).offset >= 800

    world.make(None).run_by_hand(P[:2], read)
    assert world.kafka.asked == 1
    assert world.at(0) == Position(500, 2)


def test_by_hand_lost_data_end_the_process_with_the_range() -> None:
    world = World(partitions=1)
    world.lake.claim(T, [P[0]], 1, lambda: {P[0]: 100}, {})
    world.kafka.logs[TopicPartition("t", 0)] = Bounds(600, 1000)
    with pytest.raises(DataLost, match="t:0 offsets 100 to 599"):
        world.make(None).run_by_hand([TopicPartition("t", 0)], lambda: False)


def test_by_hand_the_owners_generation_plus_one_is_claimed() -> None:
    world = World(partitions=1, end=50)
    world.lake.claim(T, [P[0]], 7, lambda: {P[0]: 0}, {})
    world.make(None).run_by_hand([TopicPartition("t", 0)], lambda: bool(world.lake.landed))
    assert world.at(0) == Position(50, 8)


def test_by_hand_a_missing_partition_is_named() -> None:
    world = World(partitions=1)
    with pytest.raises(GiveUp, match="has 1 partitions and no partition 4"):
        world.make(None).run_by_hand([TopicPartition("t", 4)], lambda: False)


def test_by_hand_a_consumer_that_lost_everything_ends() -> None:
    world = World(partitions=1, end=10**6)
    service = world.make(None)

    def taken() -> None:
        world.lake.positions[(T, 0)] = Position(0, 99)

    world.lake.during = taken
    with pytest.raises(ClaimLost):
        service.run_by_hand([TopicPartition("t", 0)], lambda: False)


def test_a_topic_created_again_is_claimed_again_and_read_from_its_begin() -> None:
    world = World(partitions=1, end=500)
    world.order("start", 5, 0)
    world.run_until(lambda: bool(world.lake.met) and world.at(0).offset == 500)
    world.kafka.make("t", 1, 30, "another")
    recreated = Topic("t", "another")
    world.run_until(lambda: world.lake.positions.get((recreated, 0)) == Position(30, 5))
    assert [span for topic, _, span in world.lake.landed if topic == recreated] == [Span(0, 30)]


def test_what_is_too_much_is_halved_until_it_fits() -> None:
    world = World(partitions=1, end=64)
    sizes: list[int] = []
    ingest = world.lake.ingest

    def small_only(topic: Topic, spans: Any, generations: Any, check: Any, then: Any) -> Any:
        sizes.append(sum(map(len, spans.values())))
        if sizes[-1] > 10:
            raise TooMuch("too much")
        return ingest(topic, spans, generations, check, then)

    world.lake.ingest = small_only  # type: ignore[method-assign]  # a test's own
    world.order("start", 5, 0)
    world.run_until(lambda: bool(world.lake.met) and world.at(0).offset == 64)
    assert sizes[:4] == [64, 32, 16, 8]


def test_who_is_behind_says_what_comes_next_and_keeps_to_it() -> None:
    size = {"batch_bytes": 100_000, "max_batch_bytes": 100_000}
    world = World(partitions=2, end=1000, **size)
    world.order("start", 5, 0, 1)
    world.run_until(lambda: bool(world.lake.met) and world.at(1).offset == 1000)
    told = [(then, after[0]) for (_, then), after in pairwise(world.lake.then) if then]
    assert len(told) > 10
    assert all(then == spans for then, spans in told)
    assert not world.lake.then[-1][1]

    slow = World(partitions=2, end=1000, max_rate=200_000, **size)
    slow.order("start", 5, 0, 1)
    slow.run_until(lambda: bool(slow.lake.met) and slow.at(1).offset == 1000)
    assert not any(then for _, then in slow.lake.then)


def test_a_stop_makes_what_comes_next_another_thing() -> None:
    world = World(partitions=2, end=1000, batch_bytes=100_000, max_batch_bytes=100_000)
    world.order("start", 5, 0, 1)
    world.run_until(lambda: len(world.lake.then) > 3)
    assert world.lake.then[-1][1].keys() == {P[0], P[1]}
    world.order("stop", 6, 0)
    world.run_until(lambda: world.at(1).offset == 1000)
    assert world.at(0).offset < 1000
    landed = sorted((p, span.first, span.until) for _, p, span in world.lake.landed)
    ends = dict.fromkeys((0, 1), 0)
    for p, first, until in landed:
        assert first == ends[p]
        ends[p] = until


def test_a_cycle_that_does_not_end_is_left_behind_and_never_commits() -> None:
    world = World(partitions=1, cycle_deadline=0.05, order_deadline=30, lost_after=20)
    world.lake.hang = threading.Event()
    world.order("start", 5, 0)
    world.run_until(lambda: world.lake.interrupted > 0)
    world.clock.sleep(1)
    hang, world.lake.hang = world.lake.hang, None
    hang.set()
    world.run_until(lambda: world.at(0).offset == 1000)
    spans = sorted((span.first, span.until) for _, _, span in world.lake.landed)
    assert spans[0][0] == 0
    assert sum(until - first for first, until in spans) == 1000


@pytest.mark.parametrize("cycle", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("wait", [0.5, 2.0])
def test_a_quota_is_kept_and_used(cycle: float, wait: float) -> None:
    # Less than a batch is there, so that each cycle waits.
    settings: dict[str, Any] = {"max_rate": 100_000.0, "batch_bytes": 50_000_000}
    world = World(partitions=2, end=20_000, wait_seconds=wait, **settings)
    world.order("start", 5, 0, 1)
    world.run_until(lambda: bool(world.lake.landed))
    world.lake.during = lambda: world.clock.sleep(cycle)
    world.turn(50)
    began = world.clock.now()
    world.lake.landed.clear()
    world.run_until(lambda: world.clock.now() > began + 100, turns=5000)
    read = sum(len(span) for _, _, span in world.lake.landed) * world.lake.record_bytes
    seconds = world.clock.now() - began
    assert read < 40_000 * world.lake.record_bytes, "the backlog should not end"
    assert 95_000 <= read / seconds <= 105_000


@pytest.mark.parametrize(("cycle", "apart"), [(0.2, 0.4), (0.8, 1.6), (3.0, 4.0)])
def test_small_cycles_follow_each_other_as_fast_as_they_are(cycle: float, apart: float) -> None:
    world = World(partitions=1, end=500)
    began: list[float] = []

    def during() -> None:
        began.append(world.clock.now())
        world.clock.sleep(cycle)
        world.kafka.logs[P[0]] = Bounds(0, world.kafka.logs[P[0]].end + 10)

    world.lake.during = during
    world.order("start", 5, 0)
    world.run_until(lambda: len(began) > 30)
    gaps = [b - a for a, b in pairwise(began)][10:]
    assert sum(gaps) / len(gaps) == pytest.approx(apart, rel=0.1)


def test_a_consumer_that_cannot_read_all_that_is_there_says_so_at_once() -> None:
    world = World(partitions=1, end=100)
    world.order("start", 5, 0)
    world.run_until(lambda: bool(world.lake.met) and world.at(0).offset == 100)
    nudged: list[float] = []
    world.service.nudge = lambda: nudged.append(world.clock.now())
    world.kafka.logs[P[0]] = Bounds(0, 200)
    world.run_until(lambda: world.at(0).offset == 200)
    assert nudged == [], "all of it fits into one cycle"
    world.lake.during = lambda: world.clock.sleep(0.2)
    world.kafka.logs[P[0]] = Bounds(0, 500_000)
    world.run_until(lambda: world.at(0).offset == 500_000)
    assert len(nudged) > 3
    assert all(b - a >= 0.5 for a, b in pairwise(nudged))


def test_the_first_record_after_a_quiet_time_does_not_wait() -> None:
    world = World(partitions=1, end=500, shortest_wait=1.0)
    world.order("start", 5, 0)
    world.run_until(lambda: bool(world.lake.met) and world.at(0).offset == 500)
    world.turn(100)
    came, world.kafka.logs[P[0]] = world.clock.now(), Bounds(0, 501)
    world.run_until(lambda: world.at(0).offset == 501)
    assert world.clock.now() - came < 0.3


def test_what_moved_to_a_consumer_does_not_wait_until_a_batch_is_gathered() -> None:
    world = World(end=500, shortest_wait=5.0, wait_seconds=5.0)
    world.order("start", 5, 0)
    world.run_until(lambda: bool(world.lake.met) and world.at(0).offset == 500)
    world.kafka.logs[P[0]] = Bounds(0, 501)
    came = world.clock.now()
    world.order("start", 6, 1)
    world.run_until(lambda: world.at(1).offset == 500)
    assert world.clock.now() - came < 1.0


def test_two_topics_and_144_partitions() -> None:
    world = World(partitions=72, end=200)
    world.kafka.make("u", 72, 200, "other")
    for topic in ("t", "u"):
        world.mail.inbox.append(
            Order(
                group="g",
                kind="start",
                consumer=1,
                incarnation="b.i",
                generation=5,
                partitions=tuple((topic, p) for p in range(72)),
                at=0,
            )
        )
    world.run_until(lambda: sum(at.offset for at in world.lake.positions.values()) == 144 * 200)
    assert len(world.service.state.held) == 144
