"""When the controller reassigns, and what it decides then: sentinel and reassign, one by one."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lagless.controller import facts, reassign, sentinel
from lagless.controller.facts import Asked, Member, Policy, State
from lagless.messages import Heartbeat
from lagless.model import TopicPartition
from lagless.ports import Instance
from tests.controller.histories import pack

A, B, C, D = (TopicPartition("t", i) for i in range(4))
NOW = 1000.0
POLICY = Policy(group="g", capacity=100, pack=pack, iteration=30, pause=10, catch_up=60)


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
    """Give a group at rest that was just reassigned."""
    members = {
        n: Member(
            n, f"b{n}.1", NOW, ready=True, highest=1, held={p: 1 for p in held if held[p] == n}
        )
        for n in sorted(set(held.values()))
    }
    return replace(
        facts.begin(None, NOW),
        phase=facts.Phase.SENTINEL,
        members=members,
        team=frozenset(members),
        target=dict(held),
        partitions=dict.fromkeys(speeds, 0.0),
        speeds=dict(speeds),
        measured_at=NOW,
        reassigned_at=NOW - 5,
        instances={n: Instance(n, "running", 0, birth=f"b{n}") for n in members},
    )


def conditions(group: State) -> list[str]:
    return [exit.condition for exit in sentinel.exits(group, POLICY)]


def test_at_rest_there_is_no_reason_to_leave() -> None:
    assert conditions(state({A: 1, B: 1}, {A: 40, B: 50})) == []


def test_leave_when_the_interval_is_up() -> None:
    group = replace(state({A: 1}, {A: 40}), reassigned_at=NOW - 30)
    assert conditions(group) == ["the interval is up"]


def test_leave_when_a_consumer_has_more_than_its_capacity_but_not_before_the_pause() -> None:
    group = state({A: 1, B: 1}, {A: 60, B: 50})
    assert conditions(group) == []
    assert conditions(replace(group, reassigned_at=NOW - 10)) == [
        "a consumer has more than its capacity"
    ]


def test_a_single_partition_over_capacity_is_no_reason() -> None:
    group = replace(state({A: 1}, {A: 160}), reassigned_at=NOW - 10)
    assert conditions(group) == []


def test_leave_at_once_when_a_partition_has_no_consumer() -> None:
    group = state({A: 1}, {A: 40, B: 40})
    assert conditions(replace(group, target={A: 1, B: 1})) == ["a partition has no consumer"]


def test_leave_at_once_when_partitions_appeared() -> None:
    assert conditions(state({A: 1}, {A: 40, B: 40})) == ["partitions appeared"]


def test_a_partition_that_was_never_measured_is_waited_for() -> None:
    group = state({A: 1}, {A: 40})
    young = replace(group, partitions={A: 0.0, B: NOW - POLICY.patience + 1})
    old = replace(group, partitions={A: 0.0, B: NOW - POLICY.patience})
    assert conditions(young) == []
    assert conditions(old) == ["partitions appeared"]
    assert reassign.plan(old, POLICY).assignment == {A: 1, B: 1}


def test_leave_at_once_when_partitions_went() -> None:
    group = replace(state({A: 1, B: 1}, {A: 40, B: 40}), partitions={A: 0.0})
    assert conditions(group) == ["partitions went"]
    assert reassign.plan(group, POLICY).assignment == {A: 1}


def test_leave_at_once_when_a_consumer_is_lost() -> None:
    group = replace(state({A: 1}, {A: 40}), lost=("consumer 2 is lost",))
    assert conditions(group) == ["a consumer is lost"]


def test_leave_at_once_when_a_partition_has_two_consumers() -> None:
    group = state({A: 1, B: 2}, {A: 40, B: 80})
    both = replace(group.members[2], held={A: 2, B: 1})
    assert conditions(group.with_member(both)) == ["a partition has two consumers"]


def test_what_a_consumer_refused_is_tried_again_after_an_interval() -> None:
    group = state({A: 1}, {A: 40, B: 40})
    refused = Asked("start", 1, NOW, NOW, refused="no such topic")
    group = replace(
        group.with_member(replace(group.members[1], asked={B: refused})), target={A: 1, B: 1}
    )
    assert conditions(group) == []
    later = replace(group, reassigned_at=NOW - 30)
    assert conditions(later) == ["a partition has no consumer"]


def test_a_weight_is_speed_plus_backlog_over_catch_up() -> None:
    group = state({A: 1, B: 1}, {A: 10, B: 20})
    group = group.with_member(replace(group.members[1], last=beat(1, {0: 600})))
    assert sentinel.weights(group, POLICY) == {A: 20, B: 20}
    assert sentinel.weights(group, replace(POLICY, catch_up=0)) == {A: 10, B: 20}


def test_what_waits_for_a_cycle_is_no_backlog() -> None:
    group = state({A: 1, B: 1}, {A: 10, B: 20})
    cycling = beat(1, {0: 30, 1: 660}).model_copy(update={"cycle_seconds": 2.0})
    group = group.with_member(replace(group.members[1], last=cycling))
    assert sentinel.weights(group, replace(POLICY, gather=1)) == {A: 10, B: 30}
    # A cycle that takes long is late itself.
    slow = cycling.model_copy(update={"cycle_seconds": 50.0})
    group = group.with_member(replace(group.members[1], last=slow))
    assert sentinel.weights(group, replace(POLICY, gather=1)) == {A: 10, B: 29}


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
    assert plan.warnings[0].startswith("no consumer is taken away: ")


def test_the_group_still_grows_on_stale_measurements() -> None:
    group = replace(state({A: 1, B: 1}, {A: 80, B: 80}), stale=frozenset({A}))
    assert len(reassign.plan(group, POLICY).team) == 2


def test_at_the_maximum_the_rest_is_spread_evenly_and_said_loudly() -> None:
    speeds = dict.fromkeys((A, B, C, D), 80.0)
    plan = reassign.plan(state({A: 1}, speeds), replace(POLICY, max_consumers=2))
    assert sorted(sentinel.loads(speeds, plan.assignment).values()) == [160, 160]
    assert plan.assignment[A] == 1, "what can stay stays"
    assert "4 consumers are needed and max_consumers is 2" in plan.warnings[-1]
    assert plan.capacity == 160


def test_at_the_maximum_the_same_load_is_no_reason_to_reassign_again() -> None:
    group = state({A: 1, B: 1, C: 2, D: 2}, dict.fromkeys((A, B, C, D), 80.0))
    group = replace(group, reassigned_at=NOW - 20)
    assert conditions(group) == ["a consumer has more than its capacity"]
    assert conditions(replace(group, packed_capacity=160)) == []


def test_the_minimum_is_kept_idle() -> None:
    plan = reassign.plan(state({A: 1}, {A: 10}), replace(POLICY, min_consumers=3))
    assert plan.team == {1, 2, 3}
    assert set(plan.assignment.values()) == {1}


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
