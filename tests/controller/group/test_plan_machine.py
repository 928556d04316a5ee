"""The machine of groups that follow plans, in a world in memory."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless.controller.group import placement
from lagless.controller.group.group_events import PlanLost
from lagless.group_ports import GroupMember
from lagless.messages import Plan
from lagless.model import TopicPartition
from tests.controller.group.worlds import TOPIC, World, policy

SKEWED = {0: 80.0, 1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0, 5: 10.0}


def planned(plan: Plan) -> Counter[int]:
    return Counter(k for topics in plan.members.values() for k in topics.get(TOPIC, ()))


def test_a_skewed_group_is_evened_out_by_load_and_not_by_count() -> None:
    world = World(policy(), SKEWED)
    world.join("a", "b")
    world.run(60)
    loads = sorted(sum(SKEWED[k] for k in held) for held in world.held().values())
    assert loads == [50, 80]
    assert world.state.follows is True
    assert world.seen is not None
    assert (world.seen.follows, world.seen.rate, world.seen.wanted) == (True, None, None)


def test_nothing_is_planned_before_anything_was_measured() -> None:
    world = World(policy(), SKEWED)
    world.join("a", "b")
    world.run(20, measured=False)
    assert world.published == []
    world.run(20, measured=False)
    assert len(world.published) == 1
    assert world.nudges == []


def test_members_that_come_together_get_one_plan() -> None:
    world = World(policy(), SKEWED)
    world.join("a")
    world.run(40)
    generation = world.state.generation
    world.join("b")
    world.run(2)
    world.join("c")
    world.run(20)
    assert world.state.generation == generation + 1
    assert all(world.held().values())
    assert world.said("members") == ["b joined: 2 members now", "c joined: 3 members now"]


def test_a_plan_that_is_not_read_is_nudged_with_growing_waits_and_said_once() -> None:
    world = World(policy(), SKEWED)
    world.reads_plans = False
    world.join("a", "b")
    world.run(200)
    waits = [after - before for before, after in zip(world.nudges, world.nudges[1:], strict=False)]
    assert len(waits) >= 5
    assert waits[0] <= 4
    assert max(waits) <= 32
    (said,) = world.said("warning")
    assert "is not followed" in said
    assert "should read t:" in said
    assert world.state.follows is False
    world.reads_plans = True
    world.run(60)
    assert world.state.follows is True
    assert len(world.nudges) <= len(waits) + 3


@pytest.mark.parametrize(
    ("protocol", "assignor", "words"),
    [
        ("classic", "", "group.protocol=consumer"),
        ("consumer", "uniform", "with the assignor uniform; set group.remote.assignor=lagless"),
    ],
)
def test_the_likeliest_reason_is_named(protocol: str, assignor: str, words: str) -> None:
    world = World(policy(), SKEWED)
    world.reads_plans = False
    world.protocol, world.assignor = protocol, assignor
    world.join("a", "b")
    world.run(60)
    assert words in world.said("warning")[0]


def test_a_restarted_controller_keeps_the_plan_and_moves_nothing() -> None:
    world = World(policy(), SKEWED)
    world.join("a", "b", "c")
    world.run(60)
    held, generation = world.held(), world.state.generation
    world.restart()
    world.run(10)
    assert world.held() == held
    assert world.published[-1].generation == generation + 1
    world.run(60)
    assert world.held() == held


def test_the_same_plan_is_confirmed_under_its_generation() -> None:
    world = World(policy(), SKEWED)
    world.join("a", "b")
    world.run(300)
    assert 3 <= len(world.published) <= 8
    first, *_, last = world.published
    assert (first.generation, first.members) == (last.generation, last.members)
    assert last.at > first.at


def test_a_lost_topic_is_written_again_at_once() -> None:
    world = World(policy(), SKEWED)
    world.join("a", "b")
    world.run(60)
    count = len(world.published)
    world.tell(PlanLost(world.at + 1.5))
    assert len(world.published) == count + 1
    assert "was gone" in world.said("warning")[0]


def test_the_plan_waits_for_members_that_all_left() -> None:
    world = World(policy(), SKEWED)
    world.join("a", "b")
    world.run(60)
    held = world.held()
    world.leave("a", "b")
    world.run(60)
    world.join("a", "b")
    world.run(10)
    assert world.held() == held


def test_what_a_member_can_read_is_learned_from_its_backlog() -> None:
    world = World(policy(), {0: 50.0, 1: 50.0})
    world.join("a", rate=40.0)
    world.run(120)
    assert world.state.rate == pytest.approx(40, rel=0.15)
    assert len(world.said("rate")) == 1
    world.restart()
    assert world.state.rate == pytest.approx(40, rel=0.15)


def test_members_are_asked_for_and_go_only_when_they_hold_nothing() -> None:
    world = World(policy(rate=60.0, scales=True), dict.fromkeys(range(8), 30.0))
    world.join("a", "b")
    world.run(10)
    assert world.scaled[-1].size == 8
    world.join(*"cdefgh")
    world.run(60)
    assert all(len(held) == 1 for held in world.held().values())
    world.speeds = dict.fromkeys(world.speeds, 10.0)
    world.run(200)
    last = world.scaled[-1]
    assert 2 <= last.size <= 3
    assert len(last.idle) == 8 - last.size
    assert all(not world.members[member.name] for member in last.idle)
    assert all(
        not scale.idle or len(scale.idle) >= 8 - scale.size
        for scale in world.scaled
        if scale.size < 8
    )


def test_nobody_is_asked_for_only_where_that_is_allowed_and_nothing_is_left_to_read() -> None:
    for allowed in (True, False):
        world = World(policy(rate=120.0, scales=True, to_zero=allowed), {0: 30.0, 1: 20.0})
        world.join("a", "b")
        world.run(60)
        assert world.scaled[-1].size == 1
        world.speeds = dict.fromkeys(world.speeds, 0.0)
        world.run(60)
        last = world.scaled[-1]
        assert (last.size, len(last.idle)) == ((0, 2) if allowed else (1, 1))
        world.leave("a", "b")
        world.run(60)
        world.speeds = dict.fromkeys(world.speeds, 90.0)
        world.run(60)
        assert world.scaled[-1].size == 2


def test_no_number_is_asked_for_while_the_rate_is_unknown() -> None:
    world = World(policy(scales=True), SKEWED)
    world.join("a", "b", "c")
    world.run(100)
    assert world.scaled == []


def test_no_smaller_number_is_asked_for_on_stale_speeds() -> None:
    world = World(policy(rate=120.0, scales=True), dict.fromkeys(range(6), 50.0))
    world.join(*"abcdef")
    world.run(60)
    wanted = world.scaled[-1].size
    world.speeds = dict.fromkeys(world.speeds, 1.0)
    world.run(400, measured=False)
    assert world.scaled[-1].size == wanted


def test_the_highest_ordinals_are_left_without_work() -> None:
    names = [f"app-{k}" for k in range(11)]
    world = World(policy(rate=120.0, scales=True, ordered=True), dict.fromkeys(range(22), 45.0))
    world.join(*names)
    world.run(60)
    world.speeds = dict.fromkeys(world.speeds, 10.0)
    world.run(120)
    last = world.scaled[-1]
    assert last.size < 5
    assert sorted(member.name for member in last.idle) == sorted(names[last.size :])


def test_an_ordinal_is_the_number_at_the_end_of_a_name() -> None:
    assert placement.ordinal(GroupMember("x", "app-12")) == 12
    assert placement.ordinal(GroupMember("x", client="app-3-consumer")) == 3
    assert placement.ordinal(GroupMember("x", client="rdkafka", host="10.0.0.7")) is None
    assert placement.ordinal(GroupMember("x", client="rdkafka", host="app-7")) == 7


HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "restart", "speed", "grow", "shrink", "deaf", "read"]),
        st.integers(0, 9),
        st.integers(1, 8),
    ),
    max_size=15,
)


@settings(max_examples=12, deadline=None)
@given(HISTORIES, st.sampled_from([None, 40.0, 120.0]), st.booleans(), st.booleans())
def test_any_history_ends_with_a_plan_that_is_followed(
    history: list[tuple[str, int, int]], rate: float | None, scales: bool, ordered: bool
) -> None:
    world = World(policy(rate=rate, scales=scales, ordered=ordered), dict(SKEWED))
    world.join("m-0")
    for what, which, steps in history:
        name = f"m-{which}"
        match what:
            case "join" if name not in world.members:
                world.join(name)
            case "leave" if name in world.members:
                world.leave(name)
            case "restart":
                world.restart()
            case "speed":
                p = TopicPartition(TOPIC, which % len(world.speeds))
                world.speeds[p] = float(steps * 5)
            case "grow":
                p = TopicPartition(TOPIC, len(world.speeds))
                world.speeds[p] = float(which)
                world.end[p] = world.committed[p] = 0.0
                world.assign()
            case "shrink" if len(world.speeds) > 1:
                gone = TopicPartition(TOPIC, len(world.speeds) - 1)
                del world.speeds[gone]
                for held in world.members.values():
                    held.discard(gone)
            case "deaf":
                world.reads_plans = False
            case "read":
                world.reads_plans = True
        world.run(2 * steps)
    world.reads_plans = True
    if not world.members:
        world.join("m-0")
    world.run(200)

    assert world.state.follows is True
    plan = world.published[-1]
    assert planned(plan) == Counter(p.partition for p in world.speeds)
    assert plan.members.keys() <= world.members.keys()
    assert {name: set(topics[TOPIC]) for name, topics in plan.members.items()} == {
        name: held for name, held in world.held().items() if held
    }
    calm = len(world.nudges)
    world.run(60)
    assert len(world.nudges) == calm

    for each in world.published:
        assert not planned(each) or max(planned(each).values()) == 1
    generations = [each.generation for each in world.published]
    assert generations == sorted(generations)
    by_generation: dict[int, dict[str, dict[str, tuple[int, ...]]]] = {}
    for each in world.published:
        assert by_generation.setdefault(each.generation, each.members) == each.members
    assert bool(world.scaled) == (scales and rate is not None)
    assert all(scale.size >= 1 for scale in world.scaled)


@given(
    st.dictionaries(st.integers(0, 30), st.floats(0, 1e6), min_size=1, max_size=20),
    st.integers(1, 8),
    st.dictionaries(st.integers(0, 30), st.integers(1, 10)),
    st.none() | st.floats(1, 1e6),
)
def test_spreading_evenly_places_each_once_and_comes_to_rest(
    numbers: dict[int, float], size: int, before: dict[int, int], limit: float | None
) -> None:
    weight = {TopicPartition(TOPIC, k): w for k, w in numbers.items()}
    alive = frozenset(range(1, size + 1))
    held = {TopicPartition(TOPIC, k): n for k, n in before.items() if k in numbers}
    found = placement.evenly(weight, alive, held, limit)
    assert found.keys() == weight.keys()
    assert set(found.values()) <= alive
    load = dict.fromkeys(alive, 0.0)
    for p, n in found.items():
        load[n] += weight[p]
    # As the greedy rule guarantees for everyone: what it keeps, or the least load and one more.
    assert max(load.values()) <= 1.15 * (sum(weight.values()) / size + max(weight.values())) + 1e-6
    again = placement.evenly(weight, alive, found, limit)
    assert placement.evenly(weight, alive, again, limit) == again
