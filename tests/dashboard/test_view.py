"""What the page shows, from messages alone."""

from hypothesis import given
from hypothesis import strategies as st

from lagless.dashboard import view
from lagless.dashboard.snapshot import Link, Snapshot
from lagless.dashboard.story import Story
from lagless.messages import Echo, Heartbeat, Message, Receipt
from lagless.model import TopicPartition
from tests.dashboard import plays

A, B, C = (TopicPartition("orders", n) for n in range(3))
NOW = 1_000_000.0
KNOBS = plays.settings(heartbeat=2, lost_after=20)
SPEEDS = {A: 900_000.0, B: 600_000.0, C: 300_000.0}


def seen(*messages: Message, now: float = NOW, link: Link | None = None) -> Snapshot:
    story = Story(plays.GROUP, KNOBS.capacity)
    for message in messages:
        story.tell(message)
    return view.look(story, KNOBS, now, link or Link(heard=True))


def bins(shown: Snapshot) -> dict[int, list[TopicPartition]]:
    return {one.consumer: [block.partition for block in one.blocks] for one in shown.bins}


def texts(shown: Snapshot) -> str:
    return " ".join(notice.text for notice in shown.notices)


def test_blocks_are_in_the_bin_of_who_holds_them() -> None:
    shown = seen(
        plays.speeds(NOW, SPEEDS),
        plays.heartbeat(NOW, 1, {A: 1, B: 1}, backlog={"orders": {0: 5000.0}}),
        plays.heartbeat(NOW, 2, {C: 1}),
    )
    assert bins(shown) == {1: [A, B], 2: [C]}
    assert [one.load for one in shown.bins] == [1_500_000, 300_000]
    assert shown.bins[0].blocks[0].backlog == 5000
    assert shown.unassigned == ()
    assert shown.held == {A: 1, B: 1, C: 2}


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
    assert bins(seen(*start, receipt, now=NOW + 1)) == {1: [A], 2: [B]}


def test_of_two_who_claim_a_partition_the_newer_order_is_right() -> None:
    messages = [
        plays.heartbeat(NOW, 2, {A: 7}),
        plays.heartbeat(NOW + 0.5, 1, {A: 3, B: 3}),
    ]
    for order in (messages, messages[::-1]):
        assert bins(seen(*order, now=NOW + 1)) == {1: [B], 2: [A]}


def test_a_new_incarnation_holds_nothing_until_it_says_so() -> None:
    shown = seen(
        plays.heartbeat(NOW - 3, 1, {A: 1}, incarnation="old"),
        plays.heartbeat(NOW, 1, {}, incarnation="new", state="starting"),
    )
    assert bins(shown) == {1: []}
    assert shown.bins[0].condition == "starting"


def test_silence_shows_within_ten_seconds_and_then_as_lost() -> None:
    beat = plays.heartbeat(NOW, 1, {A: 1})
    conditions = [seen(beat, now=NOW + s).bins[0].condition for s in (1, 5.9, 6.5, 10, 21)]
    assert conditions == ["ready", "ready", "silent", "silent", "lost"]
    assert "Consumer 1 is silent." in texts(seen(beat, now=NOW + 10))
    assert "Consumer 1 is lost." in texts(seen(beat, now=NOW + 21))
    assert bins(seen(beat, now=NOW + 61)) == {}


def test_who_said_that_it_ends_is_gone_when_it_is_silent() -> None:
    beat = plays.heartbeat(NOW, 1, {}, state="ending")
    assert seen(beat, now=NOW + 1).bins[0].condition == "ending"
    assert seen(beat, now=NOW + 7).bins == ()


def test_who_was_deleted_is_gone_and_may_come_again() -> None:
    said = plays.decision(NOW, "deleted", "consumer 1 has no work", "Sentinel", 4, consumer=1)
    beat = plays.heartbeat(NOW - 0.5, 1, {})
    assert seen(beat, said, now=NOW + 3).bins == ()
    again = plays.heartbeat(NOW + 9, 1, {}, incarnation="next")
    assert [one.consumer for one in seen(beat, said, again, now=NOW + 10).bins] == [1]


def test_who_waits_for_spark_is_shown_waiting() -> None:
    shown = seen(plays.heartbeat(NOW, 1, {A: 1}, waiting_for="spark"))
    assert shown.bins[0].condition == "waiting"
    assert "Consumer 1 is waiting for Spark." in texts(shown)


def test_a_partition_without_a_consumer_is_shown() -> None:
    shown = seen(plays.speeds(NOW, SPEEDS), plays.heartbeat(NOW, 1, {A: 1}))
    assert [block.partition for block in shown.unassigned] == [B, C]
    assert "Nobody reads orders:1 and orders:2." in texts(shown)


def test_a_block_that_is_to_move_says_where() -> None:
    group = plays.Group(KNOBS)
    told = group.reassign(NOW - 60, SPEEDS, "first", {A: 1, B: 1, C: 1})
    held = plays.heartbeat(NOW, 1, {A: 1, B: 1, C: 1})
    told += group.reassign(NOW, SPEEDS, "the interval is up", {A: 1, B: 1, C: 2})
    blocks = {b.partition: b.target for b in seen(*told, held).bins[0].blocks}
    assert blocks == {A: None, B: None, C: 2}


def test_reassignments_have_their_reason_cost_and_times() -> None:
    group = plays.Group(KNOBS)
    told = group.reassign(NOW - 60, SPEEDS, "3 partitions are not read", {A: 1, B: 1, C: 1})
    told += group.reassign(NOW - 30, SPEEDS, "consumer 1 is too full", {A: 1, B: 2, C: 2})
    told.append(plays.speeds(NOW - 30.5, SPEEDS))
    first, second = seen(*told).reassignments
    assert (first.reason, first.migrations, first.rscore) == ("3 partitions are not read", 0, 0)
    assert second.migrations == 2
    assert second.rscore == 900_000 / KNOBS.capacity
    assert second.consumers == 2
    assert (second.dt2, second.dt3, second.dt4) == (0.5, 3.8, 2.3)
    names = {one.name: one.last for one in seen(*told).timings}
    assert names == {"Δt1": None, "Δt2": 0.5, "Δt3": 3.8, "Δt4": 2.3}
    assert seen(*told).phase == "Sentinel"


def test_an_assignment_without_a_reason_came_with_the_interval() -> None:
    said = plays.assignment(NOW, 3, {}, {A: 1}, SPEEDS, KNOBS.capacity)
    assert seen(said).reassignments[0].reason == "the interval is up"


def test_nothing_at_all_is_shown_as_such() -> None:
    shown = seen(link=Link())
    assert shown.empty
    assert shown.speeds_age is None
    assert "is it running?" in texts(shown)


def test_old_speeds_and_a_quiet_controller_are_shown_as_such() -> None:
    echo = Echo(group=plays.GROUP, echo="", at=NOW - 200)
    shown = seen(plays.speeds(NOW - 100, SPEEDS), echo)
    assert shown.speeds_stale
    assert shown.controller_stale
    assert "The monitor is silent" in texts(shown)
    assert "The controller is silent" in texts(shown)
    fresh = seen(plays.speeds(NOW - 5, SPEEDS), Echo(group=plays.GROUP, echo="", at=NOW - 3))
    assert not fresh.speeds_stale
    assert not fresh.controller_stale


def test_notices_do_not_grow_with_the_group() -> None:
    beats = [plays.heartbeat(NOW, n, {}) for n in range(1, 10)]
    assert "Consumers 1, 2, 3, 4, 5 and 4 more are silent." in texts(seen(*beats, now=NOW + 9))
    troubled = [plays.heartbeat(NOW, n, {}, trouble="no Spark") for n in (1, 2, 3)]
    assert texts(seen(*troubled)).count("no Spark") == 1
    assert "Consumers 1, 2 and 3: no Spark" in texts(seen(*troubled))
    full = seen(plays.speeds(NOW, SPEEDS), plays.heartbeat(NOW, 3, {A: 1, B: 1, C: 1}))
    assert "Consumer 3 is above the capacity C." in texts(full)


def test_kafka_out_of_reach_is_shown_as_such() -> None:
    shown = seen(
        plays.heartbeat(NOW - 15, 1, {A: 1}), link=Link(heard=True, trouble="all brokers are down")
    )
    assert len(shown.notices) == 1
    assert shown.notices[0].level == "bad"
    assert "all brokers are down" in shown.notices[0].text


def test_other_groups_are_nobodys_business() -> None:
    other = plays.heartbeat(NOW, 1, {A: 1}).model_copy(update={"group": "other"})
    assert seen(other).bins == ()


def test_a_partition_faster_than_c_is_named() -> None:
    shown = seen(plays.speeds(NOW, {A: 1.8e6}), plays.heartbeat(NOW, 1, {A: 1}))
    assert "orders:0; no assignment helps" in texts(shown)
    assert "above the capacity" not in texts(shown)


@given(st.permutations(range(8)))
def test_the_order_of_arrival_does_not_matter(order: list[int]) -> None:
    group = plays.Group(KNOBS)
    told: list[Message] = [
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
    expected = seen(*told)
    shown = seen(*[told[place] for place in order])
    assert shown.bins == expected.bins
    assert shown.speeds == expected.speeds
    assert shown.reassignments == expected.reassignments
    assert [m.consumers for m in shown.moments] == [m.consumers for m in expected.moments]


def test_heartbeats_have_the_fields_that_the_page_shows() -> None:
    beat = plays.heartbeat(NOW, 1, {A: 1}, lag_seconds=4, lag_bytes=9, lag_records=2, trouble="oh")
    assert isinstance(beat, Heartbeat)
    one = seen(beat).bins[0]
    assert (one.lag_seconds, one.lag_bytes, one.lag_records, one.trouble) == (4, 9, 2, "oh")
