"""What the page shows, from messages alone: consumers, notices, lines over time, timings."""

from hypothesis import given
from hypothesis import strategies as st

from lagless.dashboard import text, view
from lagless.dashboard.observations import KEPT, Observations
from lagless.dashboard.snapshot import Link, Snapshot
from lagless.messages import Echo, Heartbeat, Message, Receipt
from lagless.model import TopicPartition
from tests.dashboard import plays

A, B, C = (TopicPartition("orders", n) for n in range(3))
NOW = 1_000_000.0
KNOBS = plays.settings(heartbeat=2, lost_after=20)
SPEEDS = {A: 900_000.0, B: 600_000.0, C: 300_000.0}


def look(*messages: Message, now: float = NOW, link: Link | None = None) -> Snapshot:
    observations = Observations(plays.GROUP, KNOBS.capacity)
    for message in messages:
        observations.take(message)
    return view.look(observations, KNOBS, now, link or Link(heard=True))


def bins(snapshot: Snapshot) -> dict[int, list[TopicPartition]]:
    return {bin_.consumer: [block.partition for block in bin_.blocks] for bin_ in snapshot.bins}


def texts(snapshot: Snapshot) -> str:
    return " ".join(notice.text for notice in snapshot.notices)


def test_blocks_are_in_the_bin_of_their_consumer() -> None:
    snapshot = look(
        plays.speeds(NOW, SPEEDS),
        plays.heartbeat(NOW, 1, {A: 1, B: 1}, backlog={"orders": {0: 5000.0}}),
        plays.heartbeat(NOW, 2, {C: 1}),
    )
    assert bins(snapshot) == {1: [A, B], 2: [C]}
    assert [bin_.load for bin_ in snapshot.bins] == [1_500_000, 300_000]
    assert snapshot.bins[0].blocks[0].backlog == 5000
    assert snapshot.unassigned == ()
    assert snapshot.held == {A: 1, B: 1, C: 2}


def test_a_receipt_moves_a_block_before_the_next_heartbeat() -> None:
    start = [plays.speeds(NOW, SPEEDS), plays.heartbeat(NOW, 1, {A: 1, B: 1})]
    receipt = Receipt(
        group=plays.GROUP,
        kind="start",
        consumer=2,
        incarnation="two",
        generation=2,
        highest=2,
        held=(("orders", 1, 2),),
        at=NOW + 1,
    )
    assert bins(look(*start, receipt, now=NOW + 1)) == {1: [A], 2: [B]}


def test_of_two_claims_to_a_partition_the_newer_order_wins() -> None:
    messages = [plays.heartbeat(NOW, 2, {A: 7}), plays.heartbeat(NOW + 0.5, 1, {A: 3, B: 3})]
    for order in (messages, messages[::-1]):
        assert bins(look(*order, now=NOW + 1)) == {1: [B], 2: [A]}


def test_a_new_incarnation_holds_nothing_until_it_says_so() -> None:
    snapshot = look(
        plays.heartbeat(NOW - 3, 1, {A: 1}, incarnation="old"),
        plays.heartbeat(NOW, 1, {}, incarnation="new", state="starting"),
    )
    assert bins(snapshot) == {1: []}
    assert snapshot.bins[0].condition == "starting"


def test_a_spare_is_counted_apart_until_it_holds_something() -> None:
    start = [plays.speeds(NOW, SPEEDS), plays.heartbeat(NOW, 1, {A: 1, B: 1, C: 1})]
    target = {"orders": {0: 1, 1: 1, 2: 1}}
    plan = plays.decision(NOW, "assignment", "r", "Reassign", 1, assignment=target, spares=[2])
    idle = [*start, plays.heartbeat(NOW, 2, {}), plan]
    snapshot = look(*idle)
    assert [bin_.condition for bin_ in snapshot.bins] == ["ready", "spare"]
    assert text.consumers(snapshot) == ("1", "all healthy, 1 spare")
    later = plays.heartbeat(NOW + 1, 2, {C: 2})
    snapshot = look(*idle, later, now=NOW + 1)
    assert [bin_.condition for bin_ in snapshot.bins] == ["ready", "ready"]
    assert text.consumers(snapshot) == ("2", "all healthy")


def test_silence_shows_within_ten_seconds_and_then_as_lost() -> None:
    beat = plays.heartbeat(NOW, 1, {A: 1})
    conditions = [look(beat, now=NOW + s).bins[0].condition for s in (1, 5.9, 6.5, 10, 21)]
    assert conditions == ["ready", "ready", "silent", "silent", "lost"]
    assert "Consumer 1 is silent." in texts(look(beat, now=NOW + 10))
    assert "Consumer 1 is lost." in texts(look(beat, now=NOW + 21))
    assert bins(look(beat, now=NOW + 61)) == {}


def test_who_decision_that_it_ends_is_gone_when_it_is_silent() -> None:
    beat = plays.heartbeat(NOW, 1, {}, state="ending")
    assert look(beat, now=NOW + 1).bins[0].condition == "ending"
    assert look(beat, now=NOW + 7).bins == ()


def test_a_deleted_consumer_is_gone_and_may_come_back() -> None:
    decision = plays.decision(NOW, "deleted", "consumer 1 has no work", "Sentinel", 4, consumer=1)
    beat = plays.heartbeat(NOW - 0.5, 1, {})
    assert look(beat, decision, now=NOW + 3).bins == ()
    again = plays.heartbeat(NOW + 9, 1, {}, incarnation="next")
    assert [bin_.consumer for bin_ in look(beat, decision, again, now=NOW + 10).bins] == [1]


def test_who_waits_for_spark_is_snapshot_waiting() -> None:
    snapshot = look(plays.heartbeat(NOW, 1, {A: 1}, waiting_for="spark"))
    assert snapshot.bins[0].condition == "waiting"
    assert "Consumer 1 is waiting for Spark." in texts(snapshot)


def test_a_partition_without_a_consumer_is_snapshot() -> None:
    snapshot = look(plays.speeds(NOW, SPEEDS), plays.heartbeat(NOW, 1, {A: 1}))
    assert [block.partition for block in snapshot.unassigned] == [B, C]
    assert "No consumer reads orders:1 and orders:2." in texts(snapshot)


def test_a_block_that_is_to_move_says_where() -> None:
    group = plays.Group(KNOBS)
    messages = group.reassign(NOW - 60, SPEEDS, "first", {A: 1, B: 1, C: 1})
    held = plays.heartbeat(NOW, 1, {A: 1, B: 1, C: 1})
    messages += group.reassign(NOW, SPEEDS, "the interval is up", {A: 1, B: 1, C: 2})
    blocks = {b.partition: b.target for b in look(*messages, held).bins[0].blocks}
    assert blocks == {A: None, B: None, C: 2}


def test_reassignments_have_their_reason_cost_and_times() -> None:
    group = plays.Group(KNOBS)
    messages = group.reassign(NOW - 60, SPEEDS, "3 partitions are not read", {A: 1, B: 1, C: 1})
    messages += group.reassign(NOW - 30, SPEEDS, "consumer 1 is too full", {A: 1, B: 2, C: 2})
    messages.append(plays.speeds(NOW - 30.5, SPEEDS))
    first, second = look(*messages).reassignments
    assert (first.reason, first.migrations, first.rscore) == ("3 partitions are not read", 0, 0)
    assert second.migrations == 2
    assert second.rscore == 900_000 / KNOBS.capacity
    assert second.consumers == 2
    assert (second.dt2, second.dt3, second.dt4) == (0.5, 3.8, 2.3)
    names = {timing.name: timing.last for timing in look(*messages).timings}
    assert names == {"Δt1": None, "Δt2": 0.5, "Δt3": 3.8, "Δt4": 2.3}
    assert look(*messages).phase == "Sentinel"


def test_an_assignment_without_a_reason_came_with_the_interval() -> None:
    decision = plays.assignment(NOW, 3, {}, {A: 1}, SPEEDS, KNOBS.capacity)
    assert look(decision).reassignments[0].reason == "the interval is up"


def test_nothing_at_all_is_snapshot_as_such() -> None:
    snapshot = look(link=Link())
    assert snapshot.empty
    assert snapshot.speeds_age is None
    assert "Is it running?" in texts(snapshot)


def test_old_speeds_and_a_quiet_controller_are_snapshot_as_such() -> None:
    echo = Echo(group=plays.GROUP, echo="", at=NOW - 200)
    snapshot = look(plays.speeds(NOW - 100, SPEEDS), echo)
    assert snapshot.speeds_stale
    assert snapshot.controller_stale
    assert "The monitor is silent" in texts(snapshot)
    assert "The controller is silent" in texts(snapshot)
    fresh = look(plays.speeds(NOW - 5, SPEEDS), Echo(group=plays.GROUP, echo="", at=NOW - 3))
    assert not fresh.speeds_stale
    assert not fresh.controller_stale


def test_notices_do_not_grow_with_the_group() -> None:
    beats = [plays.heartbeat(NOW, n, {}) for n in range(1, 10)]
    assert "Consumers 1, 2, 3, 4, 5 and 4 more are silent." in texts(look(*beats, now=NOW + 9))
    troubled = [plays.heartbeat(NOW, n, {}, trouble="no Spark") for n in (1, 2, 3)]
    assert texts(look(*troubled)).count("no Spark") == 1
    assert "Consumers 1, 2 and 3: no Spark" in texts(look(*troubled))
    fast = {p: 1.1 * speed for p, speed in SPEEDS.items()}
    full = look(plays.speeds(NOW, fast), plays.heartbeat(NOW, 3, {A: 1, B: 1, C: 1}))
    assert "Consumer 3 is above the capacity C." in texts(full)


def test_kafka_out_of_reach_is_snapshot_as_such() -> None:
    snapshot = look(
        plays.heartbeat(NOW - 15, 1, {A: 1}), link=Link(heard=True, trouble="all brokers are down")
    )
    assert len(snapshot.notices) == 1
    assert snapshot.notices[0].level == "bad"
    assert "all brokers are down" in snapshot.notices[0].text


def test_messages_of_other_groups_are_ignored() -> None:
    other = plays.heartbeat(NOW, 1, {A: 1}).model_copy(update={"group": "other"})
    assert look(other).bins == ()


def test_a_partition_faster_than_c_is_named() -> None:
    snapshot = look(plays.speeds(NOW, {A: 1.8e6}), plays.heartbeat(NOW, 1, {A: 1}))
    assert "one consumer: orders:0. Only more partitions help." in texts(snapshot)
    assert "above the capacity" not in texts(snapshot)


@given(st.permutations(range(8)))
def test_the_order_of_arrival_does_not_matter(order: list[int]) -> None:
    group = plays.Group(KNOBS)
    messages: list[Message] = [
        plays.speeds(NOW - 5, {A: 1.0, B: 2.0, C: 3.0}),
        plays.speeds(NOW, SPEEDS),
        plays.heartbeat(NOW - 4, 1, {A: 1, B: 1}),
        plays.heartbeat(NOW - 2, 1, {A: 1}),
        plays.heartbeat(NOW - 2, 2, {B: 2}),
        plays.heartbeat(NOW - 1, 2, {B: 2, C: 2}),
        Echo(group=plays.GROUP, echo="", at=NOW - 1),
        plays.assignment(NOW - 3, 2, {A: 1, B: 1}, {A: 1, B: 2, C: 2}, SPEEDS, KNOBS.capacity),
    ]
    assert group.generation == 0
    expected = look(*messages)
    snapshot = look(*[messages[index] for index in order])
    assert snapshot.bins == expected.bins
    assert snapshot.speeds == expected.speeds
    assert snapshot.reassignments == expected.reassignments
    assert [m.consumers for m in snapshot.moments] == [m.consumers for m in expected.moments]


def test_heartbeats_have_the_fields_that_the_page_shows() -> None:
    beat = plays.heartbeat(NOW, 1, {A: 1}, lag_seconds=4, lag_bytes=9, lag_records=2, trouble="oh")
    assert isinstance(beat, Heartbeat)
    bin_ = look(beat).bins[0]
    assert (bin_.lag_seconds, bin_.lag_bytes, bin_.lag_records, bin_.trouble) == (4, 9, 2, "oh")


def measured(*points: tuple[float, float]) -> Observations:
    """Return the observations of one partition with these times and speeds; C is 1 MB/s."""
    observations = Observations(plays.GROUP, 1e6)
    for at, speed in points:
        observations.take(plays.speeds(at, {A: speed}))
    return observations


def test_a_sudden_change_shows_as_a_ramp_as_long_as_the_window() -> None:
    flat = [(5.0 * n, 1e5) for n in range(6)]
    ramp = [(30 + 5.0 * n, 1e5 + 2e5 * n) for n in range(7)]
    after = [(65 + 5.0 * n, 1.3e6) for n in range(4)]
    assert view.ramps(measured(*flat, *ramp, *after).samples) == [30.0]


def test_noise_does_not_count_as_a_change_of_load() -> None:
    points = [(5.0 * n, 1e5 + 1e5 * (n % 2)) for n in range(30)]
    assert view.ramps(measured(*points).samples) == []


def test_a_change_that_is_not_over_does_not_count_yet() -> None:
    points = [(5.0 * n, 1e5 + 2e5 * n) for n in range(6)]
    assert view.ramps(measured(*points).samples) == []


def test_a_change_back_is_a_second_one() -> None:
    up = [(5.0 * n, 2e5 * n) for n in range(6)]
    down = [(30 + 5.0 * n, 1e6 - 2e5 * (n + 1)) for n in range(5)]
    rest = [(60.0, 0.0), (65.0, 0.0)]
    assert view.ramps(measured(*up, *down, *rest).samples) == [25.0, 25.0]


def test_consumers_count_while_they_are_heard() -> None:
    observations = measured(*[(5.0 * n, 1e5) for n in range(200)])
    observations.take(plays.heartbeat(100, 1, {}))
    observations.take(plays.heartbeat(500, 1, {}))
    observations.take(plays.heartbeat(300, 2, {}))
    observations.take(plays.heartbeat(400, 2, {}))
    counts = {moment.at: moment.consumers for moment in view.moments(observations, 6)}
    at = {near: counts[max(t for t in counts if t <= near)] for near in (50, 200, 350, 450, 600)}
    assert at == {50: 0, 200: 1, 350: 2, 450: 1, 600: 0}


def test_old_points_go_and_lines_have_no_more_points_than_can_be_seen() -> None:
    observations = measured(*[(1.0 * n, 1e5) for n in range(int(2 * KEPT))])
    assert observations.samples[0].at == KEPT - 1
    shown = view.moments(observations, 6)
    assert view.POINTS <= len(shown) <= view.POINTS + 1
    assert shown[-1].at == 2 * KEPT - 1


def test_consumers_that_ended_long_ago_are_forgotten() -> None:
    observations = measured((0, 1e5))
    observations.take(plays.heartbeat(0, 1, {}))
    observations.take(plays.heartbeat(KEPT, 2, {}))
    observations.take(plays.speeds(KEPT + 1, {A: 1e5}))
    assert [member.consumer for member in observations.members.values()] == [2]
    assert list(observations.lags) == [2]
