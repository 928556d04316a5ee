"""When the controller reassigns, and what it decides then: sentinel and reassign, one by one."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lagless.controller import machine, management, reassign, sentinel, weights
from lagless.controller.state import Asked, Member, State
from lagless.messages import Heartbeat, Mode
from lagless.model import Cause, Phase, TopicPartition
from lagless.packing import scores
from lagless.ports import Instance
from tests import policies
from tests.controller.histories import pack

A, B, C, D = (TopicPartition("t", i) for i in range(4))
NOW = 1000.0
POLICY = policies.policy(pack)


def beat(consumer: int, backlog: Mapping[int, float]) -> Heartbeat:
    return Heartbeat(
        group="g",
        consumer=consumer,
        incarnation="b.1",
        highest=1,
        state="ready",
        backlog={"t": dict(backlog)},
        at=NOW,
    )


def state(held: Mapping[TopicPartition, int], speeds: Mapping[TopicPartition, float]) -> State:
    """Return a group at rest that was just reassigned."""
    members = {
        n: Member(
            n, f"b{n}.1", NOW, ready=True, highest=1, held={p: 1 for p in held if held[p] == n}
        )
        for n in sorted(set(held.values()))
    }
    return replace(
        machine.begin(None, NOW),
        phase=Phase.SENTINEL,
        members=members,
        team=frozenset(members),
        target=dict(held),
        partitions=dict.fromkeys(speeds, 0.0),
        speeds=dict(speeds),
        measured_at=NOW,
        reassigned_at=NOW - 5,
        instances={n: Instance(n, "running", 0, birth=f"b{n}") for n in members},
    )


def causes(group: State) -> list[Cause]:
    return [exit.cause for exit in sentinel.exits(group, POLICY)]


def test_at_rest_there_is_no_reason_to_leave() -> None:
    assert causes(state({A: 1, B: 1}, {A: 40, B: 50})) == []


def test_leave_when_the_interval_is_up() -> None:
    group = replace(state({A: 1}, {A: 40}), reassigned_at=NOW - 30)
    assert causes(group) == [Cause.INTERVAL]


def test_leave_when_a_consumer_has_more_than_its_capacity_but_not_before_the_pause() -> None:
    group = state({A: 1, B: 1}, {A: 60, B: 50})
    assert causes(group) == []
    assert causes(replace(group, reassigned_at=NOW - 10)) == [Cause.OVERLOAD]


def test_a_consumer_that_cannot_keep_up_does_not_wait_for_the_pause() -> None:
    known = replace(POLICY, max_rate=120.0)

    def causes(group: State) -> list[Cause]:
        return [exit.cause for exit in sentinel.exits(group, known)]

    over = state({A: 1, B: 1, C: 2}, {A: 60, B: 50, C: 115})
    assert causes(over) == [], "it has more than C, and can still read it"
    assert causes(replace(over, speeds={**over.speeds, A: 75})) == [Cause.OVERLOAD]
    assert causes(replace(over, speeds={**over.speeds, C: 130})) == [], "it has one partition"
    late = over.with_member(replace(over.members[1], last=beat(1, {0: 90})))
    assert causes(late) == [], "110 B/s and 90 B in 10 s are 119 B/s"
    later = over.with_member(replace(over.members[1], last=beat(1, {0: 110})))
    assert causes(later) == [Cause.OVERLOAD]
    assert causes(replace(later, reassigned_at=NOW - 0.5)) == [], "the last moves take their time"
    ignoring = replace(known, max_rate=0.0)
    assert sentinel.exits(later, ignoring) == []


def test_the_first_consumers_are_started_before_anything_is_measured() -> None:
    never = float("-inf")
    group = replace(state({}, {A: 0}), speeds={}, measured_at=never, reassigned_at=never)
    group = replace(group, partitions={A: NOW})
    assert causes(group) == []
    early = replace(POLICY, early_consumers=1)
    assert [exit.cause for exit in sentinel.exits(group, early)] == [Cause.INTERVAL]
    assert reassign.plan(group, early).team == {1}
    assert reassign.plan(group, early).assignment == {}
    started = replace(group, team=frozenset({1}))
    assert sentinel.exits(started, early) == []


def test_a_single_partition_over_capacity_is_no_reason() -> None:
    group = replace(state({A: 1}, {A: 160}), reassigned_at=NOW - 10)
    assert causes(group) == []


def test_leave_at_once_when_a_partition_has_no_consumer() -> None:
    group = state({A: 1}, {A: 40, B: 40})
    assert causes(replace(group, target={A: 1, B: 1})) == [Cause.UNREAD]


def test_leave_at_once_when_partitions_appeared() -> None:
    assert causes(state({A: 1}, {A: 40, B: 40})) == [Cause.APPEARED]


def test_a_partition_that_was_never_measured_is_waited_for() -> None:
    group = state({A: 1}, {A: 40})
    young = replace(group, partitions={A: 0.0, B: NOW - POLICY.patience + 1})
    old = replace(group, partitions={A: 0.0, B: NOW - POLICY.patience})
    assert causes(young) == []
    assert causes(old) == [Cause.APPEARED]
    assert reassign.plan(old, POLICY).assignment == {A: 1, B: 1}


def test_leave_at_once_when_partitions_went() -> None:
    group = replace(state({A: 1, B: 1}, {A: 40, B: 40}), partitions={A: 0.0})
    assert causes(group) == [Cause.GONE]
    assert reassign.plan(group, POLICY).assignment == {A: 1}


def test_leave_at_once_when_a_consumer_is_lost() -> None:
    group = replace(state({A: 1}, {A: 40}), lost=("consumer 2 is lost",))
    assert causes(group) == [Cause.LOST]


def test_leave_at_once_when_a_partition_has_two_consumers() -> None:
    group = state({A: 1, B: 2}, {A: 40, B: 80})
    both = replace(group.members[2], held={A: 2, B: 1})
    assert causes(group.with_member(both)) == [Cause.READ_TWICE]


def test_what_a_consumer_refused_is_tried_again_after_an_interval() -> None:
    group = state({A: 1}, {A: 40, B: 40})
    refused = Asked("start", 1, NOW, NOW, refused="no such topic")
    group = replace(
        group.with_member(replace(group.members[1], asked={B: refused})), target={A: 1, B: 1}
    )
    assert causes(group) == []
    later = replace(group, reassigned_at=NOW - 30)
    assert causes(later) == [Cause.UNREAD]
    # The same assignment under the next generation, so that it is ordered again.
    again = reassign.turn(later, POLICY)
    assert again.cause == Cause.ASSIGNED
    assert again.state.target == later.target
    assert again.state.generation == later.generation + 1
    _, orders = management.orders(again.state, POLICY)
    assert [(order.kind, order.consumer) for order in orders] == [("start", 1)]


def test_a_weight_is_speed_plus_backlog_over_catch_up() -> None:
    group = state({A: 1, B: 1}, {A: 10, B: 20})
    group = group.with_member(replace(group.members[1], last=beat(1, {0: 600})))
    assert weights.weights(group, POLICY) == {A: 20, B: 20}
    assert weights.weights(group, replace(POLICY, catch_up=0)) == {A: 10, B: 20}


def test_what_waits_for_a_cycle_is_no_backlog() -> None:
    group = state({A: 1, B: 1}, {A: 10, B: 20})
    cycling = beat(1, {0: 30, 1: 660}).model_copy(update={"cycle_seconds": 2.0})
    group = group.with_member(replace(group.members[1], last=cycling))
    assert weights.weights(group, replace(POLICY, gather=1)) == {A: 10, B: 30}
    # A cycle that takes long is late itself.
    slow = cycling.model_copy(update={"cycle_seconds": 50.0})
    group = group.with_member(replace(group.members[1], last=slow))
    assert weights.weights(group, replace(POLICY, gather=1)) == {A: 10, B: 29}


def test_a_backlog_makes_a_group_grow() -> None:
    group = state({A: 1, B: 1}, {A: 45, B: 45})
    group = group.with_member(replace(group.members[1], last=beat(1, {0: 1200, 1: 1200})))
    assert len(reassign.plan(group, POLICY).team) == 2


@pytest.mark.parametrize("how", ["old", "never", "stale", "missing"])
def test_nobody_is_taken_away_on_stale_or_missing_measurements(how: str) -> None:
    group = state({A: 1, B: 2}, {A: 10, B: 10})
    assert len(reassign.plan(group, POLICY).team) == 1
    if how == "old":
        group = replace(group, measured_at=NOW - 61)
    elif how == "never":
        group = replace(group, measured_at=float("-inf"), speeds={})
    elif how == "stale":
        group = replace(group, stale=frozenset({B}))
    else:
        group = replace(group, speeds={A: 10})
    plan = reassign.plan(group, POLICY)
    assert plan.assignment == {A: 1, B: 2}
    assert plan.warnings[0].startswith("not scaling down: ")


def test_the_group_still_grows_on_stale_measurements() -> None:
    group = replace(state({A: 1, B: 1}, {A: 80, B: 80}), stale=frozenset({A}))
    assert len(reassign.plan(group, POLICY).team) == 2


def test_at_the_maximum_the_rest_is_spread_evenly_and_said_loudly() -> None:
    speeds = dict.fromkeys((A, B, C, D), 80.0)
    plan = reassign.plan(state({A: 1}, speeds), replace(POLICY, max_consumers=2))
    assert sorted(scores.loads(speeds, plan.assignment).values()) == [160, 160]
    assert plan.assignment[A] == 1, "what can stay stays"
    assert "4 consumers are needed and max_consumers is 2" in plan.warnings[-1]
    assert plan.capacity == 160


def test_at_the_maximum_the_same_load_is_no_reason_to_reassign_again() -> None:
    group = state({A: 1, B: 1, C: 2, D: 2}, dict.fromkeys((A, B, C, D), 80.0))
    group = replace(group, reassigned_at=NOW - 20)
    assert causes(group) == [Cause.OVERLOAD]
    assert causes(replace(group, packed_capacity=160)) == []


def test_the_minimum_is_kept_idle() -> None:
    plan = reassign.plan(state({A: 1}, {A: 10}), replace(POLICY, min_consumers=3))
    assert plan.team == {1, 2, 3}
    assert set(plan.assignment.values()) == {1}


def test_a_spare_is_kept_beyond_the_consumers_that_are_needed() -> None:
    one = replace(POLICY, spare_consumers=1)
    assert reassign.plan(state({A: 1}, {A: 10}), one).team == {1, 2}
    assert reassign.plan(state({A: 1}, {A: 10}), replace(one, min_consumers=3)).team == {1, 2, 3, 4}
    full = reassign.plan(state({A: 1}, {A: 10}), replace(one, max_consumers=1))
    assert full.team == {1, 2}, "it is not within the limit"
    assert not full.warnings


def test_a_spare_takes_partitions_before_a_consumer_that_still_starts() -> None:
    one = replace(POLICY, spare_consumers=1)
    group = state({A: 1}, {A: 80, B: 80})
    starting = Member(2, "b2.1", heard_at=NOW)
    spare = Member(3, "b3.1", heard_at=NOW, ready=True)
    group = replace(group.with_member(starting).with_member(spare), team=frozenset({1, 2, 3}))
    plan = reassign.plan(group, one)
    assert plan.assignment == {A: 1, B: 3}
    assert plan.team == {1, 2, 3}, "the one that still starts becomes the spare"
    after = replace(group, target=plan.assignment, team=plan.team)
    assert after.spares(one) == {2}
    assert after.spares(POLICY) == frozenset()


def test_in_place_of_a_spare_that_takes_work_another_one_is_asked_for() -> None:
    one = replace(POLICY, spare_consumers=1)
    group = state({A: 1}, {A: 80, B: 80})
    group = group.with_member(Member(2, "b2.1", heard_at=NOW, ready=True))
    plan = reassign.plan(replace(group, team=frozenset({1, 2})), one)
    assert plan.assignment == {A: 1, B: 2}
    assert plan.team == {1, 2, 3}


def test_no_spare_is_asked_for_while_none_can_be_started_or_the_group_is_paused() -> None:
    one = replace(POLICY, spare_consumers=1)
    group = replace(state({A: 1}, {A: 10}), failures=2, no_creation_until=NOW + 10)
    assert reassign.plan(group, one).team == {1}
    paused = replace(state({A: 1}, {A: 10}), mode=Mode(operation="pause", who="me", at=NOW))
    assert reassign.plan(paused, one).team <= {1}


def test_a_number_whose_last_start_is_not_gone_is_passed_over() -> None:
    group = state({A: 1}, {A: 80, B: 80})
    assert reassign.plan(group, POLICY).assignment == {A: 1, B: 2}
    ending = Instance(2, "deleting", 0, birth="old")
    group = replace(group, instances={**(group.instances or {}), 2: ending})
    assert reassign.plan(group, POLICY).assignment == {A: 1, B: 3}


def test_after_two_failed_starts_the_others_take_over() -> None:
    group = state({A: 1}, {A: 80, B: 80})
    group = replace(group, failures=2, no_creation_until=NOW + 10)
    plan = reassign.plan(group, POLICY)
    assert plan.assignment == {A: 1, B: 1}
    assert "no more can be started now" in plan.warnings[-1]


def test_a_partition_faster_than_a_consumer_is_named() -> None:
    plan = reassign.plan(state({A: 1}, {A: 150}), POLICY)
    assert plan.assignment == {A: 1}
    assert plan.warnings == (
        "1 partitions are faster than a consumer can be given, t:0 with 150 B/s of 100",
    )


def test_rscore_sums_speeds_and_the_weight_moved_counts_backlogs_too() -> None:
    group = state({A: 1, B: 1, C: 2}, {A: 60, B: 60, C: 30})
    late = replace(group.members[1], last=beat(1, {0: 600.0, 1: 600.0}))
    plan = reassign.plan(group.with_member(late), POLICY)
    moved = [A, B, C][[p in plan.migrations for p in (A, B, C)].index(True)]
    assert len(plan.migrations) == 1
    assert plan.rscore == pytest.approx(group.speeds[moved] / 100)
    assert plan.weight_moved == pytest.approx(plan.weights[moved] / 100)
    assert plan.weight_moved is not None
    assert plan.rscore is not None
    assert plan.weight_moved > plan.rscore
