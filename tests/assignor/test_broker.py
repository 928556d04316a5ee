"""The assignor in a broker: members that know nothing of lagless read what a plan says."""

import shutil
from collections.abc import Callable, Iterator

import pytest

from lagless.lab.parts.broker import Broker
from tests.assignor.groups import Group, Planned, broker_with_assignor
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Groups = Callable[[], Group]


@pytest.fixture(scope="module")
def planned() -> Iterator[Broker]:
    """Run a broker with the assignor, which is also its first one."""
    with broker_with_assignor() as running:
        yield running


@pytest.fixture
def groups(planned: Broker) -> Iterator[Groups]:
    """Return a function that makes groups; they end with the test."""
    made: list[Group] = []

    def make() -> Group:
        made.append(Group(planned))
        return made[-1]

    yield make
    for group in made:
        group.close()


def test_members_follow_a_plan_and_its_changes(groups: Groups) -> None:
    group = groups()
    topic = group.topic("orders", 6)
    group.join("c-1", topic)
    group.join("c-2", topic)
    until(lambda: group.counts() == [3, 3], "an even start without a plan")

    group.plan({"c-1": {topic: range(5)}, "c-2": {topic: [5]}})
    group.follows({"c-1": {topic: range(5)}, "c-2": {topic: [5]}})
    group.stays()

    group.plan({"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}})
    group.follows({"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}})


def test_what_a_killed_member_had_is_read_by_the_others_until_it_is_back(groups: Groups) -> None:
    group = groups()
    topic = group.topic("orders", 6)
    plan: Planned = {"c-1": {topic: range(4)}, "c-2": {topic: [4]}, "c-3": {topic: [5]}}
    for name in plan:
        group.join(name, topic)
    group.plan(plan)
    group.follows(plan)

    group.members.pop("c-1").kill()
    until(lambda: group.counts() == [3, 3], "the others to read what it had")

    group.join("c-1", topic)
    group.follows(plan)


def test_what_a_hanging_member_had_is_read_by_the_others_until_it_goes_on(groups: Groups) -> None:
    group = groups()
    topic = group.topic("orders", 6)
    plan: Planned = {"c-1": {topic: range(5)}, "c-2": {topic: [5]}}
    for name in plan:
        group.join(name, topic)
    group.plan(plan)
    group.follows(plan)

    # It believes that it still reads what it had; its broker gives that to the other.
    group.members["c-1"].hang()
    until(lambda: group.held()["c-2"] == {topic: list(range(6))}, "the other to read everything")
    group.members["c-1"].go_on()
    group.follows(plan)


@pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK to compile the consumer")
def test_kafkas_own_java_consumers_follow_a_plan_beside_members_in_another_language(
    groups: Groups,
) -> None:
    group = groups()
    topic = group.topic("orders", 6)
    group.join_java("c-1", topic)
    group.join("c-2", topic)
    until(lambda: group.counts() == [3, 3], "an even start without a plan", seconds=90)

    group.plan({"c-1": {topic: range(5)}, "c-2": {topic: [5]}})
    group.follows({"c-1": {topic: range(5)}, "c-2": {topic: [5]}})
    group.plan({"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}})
    group.follows({"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}})
    group.stays()


def test_two_groups_with_members_of_the_same_names_each_follow_their_own_plan(
    groups: Groups,
) -> None:
    one, two = groups(), groups()
    topic = one.topic("shared", 4)
    for group in (one, two):
        group.join("c-1", topic)
        group.join("c-2", topic)
    one.plan({"c-1": {topic: [0]}, "c-2": {topic: [1, 2, 3]}})
    two.plan({"c-1": {topic: [0, 1, 2]}, "c-2": {topic: [3]}})
    one.follows({"c-1": {topic: [0]}, "c-2": {topic: [1, 2, 3]}})
    two.follows({"c-1": {topic: [0, 1, 2]}, "c-2": {topic: [3]}})
    one.stays()


def test_members_without_names_are_matched_by_what_they_hold(groups: Groups) -> None:
    group = groups()
    topic = group.topic("orders", 6)
    for name in ("one", "two"):
        group.join(name, topic, static=False)
    until(lambda: group.counts() == [3, 3], "an even start without a plan")
    before = group.held()
    first = before["one"][topic]
    moved, rest = before["two"][topic][0], before["two"][topic][1:]

    group.plan({"b": {topic: rest}, "a": {topic: [*first, moved]}})
    group.follows({"one": {topic: [*first, moved]}, "two": {topic: rest}})


def test_regular_expressions_and_members_that_name_no_assignor_follow_a_plan(
    groups: Groups,
) -> None:
    group = groups()
    topics = [group.topic(name, 2) for name in ("read-1", "read-2")]
    for name in ("c-1", "c-2"):
        group.join(name, f"^{group.name}[.]read-.*", assignor=None)
    plan: Planned = {"c-1": {topics[0]: [0, 1], topics[1]: [0]}, "c-2": {topics[1]: [1]}}
    group.plan(plan)
    group.follows(plan)

    added = group.topic("read-3", 2)
    until(lambda: sum(group.counts()) == 6, "the new topic to be read")
    held = group.held()
    assert [len(held[name][added]) for name in ("c-1", "c-2")] == [1, 1]
    assert {name: {it: held[name][it] for it in plan[name]} for name in plan} == plan


def test_garbage_is_ignored_with_one_line_in_the_log(planned: Broker, groups: Groups) -> None:
    group = groups()
    topic = group.topic("orders", 4)
    plan: Planned = {"c-1": {topic: [0]}, "c-2": {topic: [1, 2, 3]}}
    for name in plan:
        group.join(name, topic)
    group.plan(plan)
    group.follows(plan)

    for garbage in (b"\xff\x00", b"", b"[" * 100_000, b'{"version": 1, "members": {}}', b"{}"):
        group.write(garbage)
    group.plan({"c-1": {topic: [0, 1]}, "c-2": {topic: [1, 2, 3]}})
    group.plan({"c-1": {topic: [4_000_000_000]}})
    group.stays()
    said = [line for line in planned.log.read_text().splitlines() if f"{group.name}.plan" in line]
    assert len([line for line in said if "ignoring a message" in line]) == 1

    plan = {"c-1": {topic: [3]}, "c-2": {topic: [0, 1, 2]}}
    group.plan(plan)
    group.follows(plan)


@pytest.mark.parametrize("end", ["topic deleted", "tombstone", "too old"])
def test_without_its_plan_a_group_is_evened_out(groups: Groups, end: str) -> None:
    group = groups()
    topic = group.topic("orders", 6)
    plan: Planned = {"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}}
    for name in plan:
        group.join(name, topic)
    group.plan(plan)
    group.follows(plan)

    match end:
        case "topic deleted":
            group.delete_plan_topic()
        case "tombstone":
            group.write(None)
        case _:
            group.plan(plan, at=1_700_000_000)

    def even() -> bool:
        group.nudge()
        return group.counts() == [3, 3]

    until(even, "three partitions for each member")
    group.plan(plan)
    group.follows(plan)


def test_a_group_can_go_back_to_uniform(groups: Groups) -> None:
    group = groups()
    topic = group.topic("orders", 6)
    plan: Planned = {"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}}
    for name in plan:
        group.join(name, topic)
    group.plan(plan)
    group.follows(plan)

    for name in plan:
        group.members[name].leave()
        group.join(name, topic, assignor="uniform")
    group.members["nudge"].leave()
    group.members["nudge"] = group.join("other", topic, assignor="uniform")
    until(lambda: group.counts() == [2, 2, 2], "uniform's assignment")


def test_a_restarted_broker_moves_nothing_and_reads_the_next_plan(
    planned: Broker, groups: Groups
) -> None:
    group = groups()
    topic = group.topic("orders", 6)
    plan: Planned = {"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}}
    for name in plan:
        group.join(name, topic)
    group.plan(plan)
    group.follows(plan)

    planned.stop()
    planned.start()
    group.stays(5)
    plan = {"c-1": {topic: range(1, 6)}, "c-2": {topic: [0]}}
    group.plan(plan)
    group.follows(plan)
