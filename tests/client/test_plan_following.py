"""Which messages of the plan's topic count, and what a member reads by them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.adapters.kafka.plan_following import MAX_AGE, PlanFollower, partitions_of, read
from lagless.errors import WrongInput
from lagless.model import TopicPartition

NOW = 1_000_000.0
ORDERS = {"c-1": {"orders": [0, 1]}, "c-2": {"orders": [2]}}


def plan(generation: int = 1, members: Any = None, **fields: Any) -> bytes:
    message: dict[str, Any] = {"version": 1, "group": "g", "generation": generation, "at": NOW}
    return json.dumps(
        message | {"members": ORDERS if members is None else members} | fields
    ).encode()


def orders(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


def test_a_member_reads_what_the_plan_gives_to_it() -> None:
    follower = PlanFollower("g", "c-1")
    assert "gives 2 partitions" in follower.take("g", plan(message="plan"), NOW)
    assert follower.partitions == orders(0, 1)
    assert follower.take("g", plan(2), NOW) == "", "nothing changed"
    follower.take("g", plan(3, {"c-1": {"orders": [1]}}), NOW)
    assert follower.partitions == orders(1)


def test_without_a_plan_nothing_changes_and_the_status_says_so() -> None:
    follower = PlanFollower("g", "c-1")
    assert follower.status == "there is no plan: c-1 reads nothing until there is one"
    assert follower.take("g", None, NOW) == ""
    follower.take("g", plan(), NOW)
    assert follower.status == "plan 1 gives it 2 partitions"
    assert "keeps its 2 partitions" in follower.take("g", None, NOW)
    assert follower.partitions == orders(0, 1)
    assert "keeps its 2 partitions" in follower.status
    assert follower.lost_topic() == "", "it is known already"


def test_a_member_that_the_plan_does_not_name_reads_nothing_and_hears_who_is_named() -> None:
    follower = PlanFollower("g", "c-9")
    said = follower.take("g", plan(), NOW)
    assert "does not name 'c-9'" in said
    assert "'c-1', 'c-2'" in said
    assert follower.partitions == frozenset()


def test_an_older_generation_counts_only_once_the_newer_plan_is_too_old() -> None:
    follower = PlanFollower("g", "c-1")
    follower.take("g", plan(5), NOW)
    older = plan(4, {"c-1": {"orders": [7]}})
    assert "plan 4 is ignored" in follower.take("g", older, NOW + MAX_AGE)
    assert follower.partitions == orders(0, 1)
    follower.take("g", older, NOW + MAX_AGE + 1)
    assert follower.partitions == orders(7)


@pytest.mark.parametrize(
    ("value", "trouble"),
    [
        (b"\xff", "not a valid plan"),
        (b"[]", "not a JSON object"),
        (
            plan(members={"c-1": {"orders": [0]}, "c-2": {"orders": [0]}}),
            "orders:0 has two members",
        ),
        (plan(members={"c-1": {"orders": [-1]}}), "members.c-1.orders.0: Input should be greater"),
        (plan(members={"c-1": {"orders": ["x"]}}), "members.c-1.orders.0"),
        (b'{"members": {}, "members": {}}', "'members' occurs twice"),
        (plan(version=2), "version"),
        (b"[" * 100_000, "not a valid plan"),
    ],
)
def test_what_is_no_plan_is_ignored_with_the_reason(value: bytes, trouble: str) -> None:
    follower = PlanFollower("g", "c-1")
    follower.take("g", plan(), NOW)
    assert trouble in follower.take("g", value, NOW)
    assert follower.partitions == orders(0, 1)
    with pytest.raises(WrongInput, match=r"^[^\n]+$"):
        read(value, "g")


def test_other_groups_and_other_messages_are_passed_over() -> None:
    follower = PlanFollower("g", "c-1")
    assert follower.take("h", plan(), NOW) == ""
    assert follower.take("g", plan(group="h"), NOW) == ""
    assert follower.take("g", plan(message="seen"), NOW) == ""
    assert follower.plan is None


names = st.text(min_size=1, max_size=5)
owners = st.dictionaries(
    st.tuples(names, st.integers(0, 199_999)), st.sampled_from(["a", "b", "c"]), max_size=20
)


@given(owners=owners)
def test_every_planned_partition_has_exactly_the_member_that_the_plan_says(
    owners: dict[tuple[str, int], str],
) -> None:
    members: dict[str, dict[str, list[int]]] = {}
    for (topic, number), name in owners.items():
        members.setdefault(name, {}).setdefault(topic, []).append(number)
    found = read(plan(members=members), "g")
    assert found is not None
    given_out = {(p.topic, p.partition): name for name in "abc" for p in partitions_of(found, name)}
    assert given_out == owners
