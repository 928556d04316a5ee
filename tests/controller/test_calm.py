"""What holds an algorithm back: nothing moves without a reason, and nothing is left undone."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless.controller import calm, machine, sentinel
from lagless.controller.state import Member, State
from lagless.lab.world.world import World
from lagless.messages import Assigned
from lagless.model import Assignment, Cause, Phase, Speeds, TopicPartition
from lagless.packing import scores
from tests import policies
from tests.controller.histories import pack

C = 100.0
POLICY = policies.policy(pack, **policies.CALM)
FULL = calm.limit(POLICY)


def p(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def state(at: float = 1000.0, *needs: tuple[float, int]) -> State:
    return replace(machine.begin(None, at), needs=needs)


@st.composite
def groups(draw: st.DrawFn) -> tuple[Speeds, Assignment]:
    n = draw(st.integers(1, 14))
    weight = {p(j): draw(st.floats(0, 130)) for j in range(n)}
    before = {q: draw(st.integers(1, 5)) for q in weight if draw(st.integers(0, 9))}
    return weight, before


@given(groups())
def test_only_what_is_above_capacity_is_moved(group: tuple[Speeds, Assignment]) -> None:
    weight, before = group
    after = calm.relieve(weight, C, before)
    assert after.keys() == weight.keys()
    load, count = scores.loads(weight, after), Counter(after.values())
    assert all(x <= C + 1e-6 or count[n] == 1 for n, x in load.items())
    full = {n for n, x in scores.loads(weight, before).items() if x > C}
    assert {before[q] for q in scores.migrations(before, after)} <= full


@given(groups(), st.integers(1, 4))
def test_consumers_are_emptied_whole_and_into_what_has_room(
    group: tuple[Speeds, Assignment], most: int
) -> None:
    weight, before = group
    before = {q: before.get(q, 1) for q in weight}
    after = calm.emptied(weight, before, POLICY, most)
    gone = set(before.values()) - set(after.values())
    assert len(gone) <= most
    assert set(after.values()) <= set(before.values())
    assert {before[q] for q in scores.migrations(before, after)} == gone
    load = scores.loads(weight, after)
    took = {after[q] for q in scores.migrations(before, after) if weight[q] > 0}
    assert all(load[n] <= C + 1e-6 for n in took)
    moved = sum(weight[q] for q in scores.migrations(before, after))
    assert len(gone) <= 1 or moved <= POLICY.max_move * sum(weight.values()) + max(
        scores.loads(weight, before)[n] for n in gone
    )


@given(groups())
def test_an_answer_is_complete_and_off_is_off(group: tuple[Speeds, Assignment]) -> None:
    weight, before = group
    packed = pack(weight, C, before)
    assert calm.calmed(packed, weight, before, state(), POLICY).keys() == weight.keys()
    off = replace(POLICY, dead_band=0, shrink_after=0, max_move=1)
    assert calm.calmed(packed, weight, before, state(), off) == packed


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_what_fluctuates_within_the_dead_band_moves_nothing(seed: int) -> None:
    dice = np.random.default_rng(seed)
    weight = {p(j): float(dice.uniform(1, 60)) for j in range(30)}
    before = pack(weight, C, {})
    count = len(set(before.values()))
    noisy = {q: w * float(dice.uniform(0.9, 1.1)) for q, w in weight.items()}
    known = state(1000, (990, count))
    answer = calm.calmed(pack(noisy, C, before), noisy, before, known, POLICY)
    assert answer == before


def test_a_consumer_is_saved_when_it_was_not_needed_for_long_enough() -> None:
    before = {p(0): 1, p(1): 2, p(2): 3}
    weight = dict.fromkeys(before, 20.0)
    packed = pack(weight, C, {})
    assert len(set(packed.values())) == 1
    held = calm.calmed(packed, weight, before, state(1000, (945, 3)), POLICY)
    assert held == before
    later = calm.calmed(packed, weight, before, state(1010, (945, 3)), POLICY)
    assert len(set(later.values())) == 2


def test_what_was_needed_is_remembered_for_so_long() -> None:
    needs = calm.needs(state(1000, (930, 9), (941, 4), (999, 3)), POLICY, 2)
    assert needs == ((941, 4), (999, 3), (1000, 2))
    assert calm.needs(state(1000, (999, 3)), replace(POLICY, shrink_after=0), 2) == ()


def test_the_overfull_is_relieved_and_nobody_else_moves() -> None:
    before = {p(0): 1, p(1): 1, p(2): 2, p(3): 3}
    weight = {p(0): 80.0, p(1): 35.0, p(2): 60.0, p(3): 90.0}
    packed = {p(0): 1, p(1): 2, p(2): 3, p(3): 4}
    answer = calm.calmed(packed, weight, before, state(), POLICY)
    assert answer == {**before, p(1): 2}


@pytest.mark.parametrize(("noise", "assignments"), [(0.08, 1), (0.8, 2)])
def test_a_group_at_rest_stays_as_it_is(noise: float, assignments: int) -> None:
    dice = np.random.default_rng(3)
    speeds = {p(j): float(dice.uniform(10, 40)) for j in range(12)}
    world = World(POLICY, speeds, np.random.default_rng(1))
    world.run(world.at + 120)
    for _ in range(60):
        world.change({q: s * (1 + noise * float(dice.uniform(-1, 1))) for q, s in speeds.items()})
        world.run(world.at + 20)
    made = sum(isinstance(d, Assigned) and bool(d.details.migrations) for d in world.decisions)
    assert made <= assignments - 1 if noise < 0.1 else made >= assignments


def known_unrest(changes: list[float], count: int = 40) -> float:
    """Return what is learned of eight partitions that go up and down by so much in turn."""
    aimed = replace(POLICY, max_rate=1.2 * C, pause=5.0)
    known = replace(state(), measured_at=0.0, speeds={p(j): 12.5 for j in range(8)})
    for k in range(count):
        speeds = {p(j): 12.5 + changes[(k + j) % len(changes)] for j in range(8)}
        learned = calm.unrest(known, speeds, 5.0 * (k + 1), aimed)
        known = replace(known, speeds=speeds, unrest=learned, measured_at=5.0 * (k + 1))
    return known.unrest


def test_noise_leaves_the_dead_band_as_it_is_and_wandering_speeds_narrow_it() -> None:
    aimed = replace(POLICY, max_rate=1.2 * C)
    calmly, wildly = known_unrest([-0.5, 0.5]), known_unrest([-3.0, 3.0])
    assert known_unrest([0.0]) == 0
    assert calm.limit(aimed, calmly) == calm.limit(aimed) == FULL
    assert C < calm.limit(aimed, wildly) < FULL
    assert calm.room(aimed, wildly) < calm.room(aimed) < FULL
    unknown = replace(aimed, max_rate=0.0)
    assert calm.limit(unknown, wildly) == FULL


def test_one_step_hardly_narrows_the_dead_band() -> None:
    aimed = replace(POLICY, max_rate=1.2 * C)
    usual = known_unrest([-0.5, 0.5])
    known = replace(state(), measured_at=0.0, unrest=usual, speeds={p(j): 12.5 for j in range(8)})
    stepped = calm.unrest(known, {p(j): 40.0 for j in range(8)}, 5.0, aimed)
    assert usual < stepped <= calm.MOST * usual
    assert calm.limit(aimed, stepped) == FULL


@pytest.mark.parametrize(
    ("speed", "backlog", "rested", "part"),
    [
        (70.0, 0.0, 60.0, "its speed alone needs room"),
        (40.0, 3000.0, 60.0, "its backlog has to be read within 60 s"),
        (40.0, 3000.0, 3.0, "its backlog would outlast the pause of 10 s"),
    ],
)
def test_a_decision_says_which_part_of_the_target_forced_it(
    speed: float, backlog: float, rested: float, part: str
) -> None:
    held = {p(0): 1, p(1): 1}
    member = Member(1, ".1", heard_at=1000, ready=True, held=held)
    known = replace(
        state(),
        phase=Phase.SENTINEL,
        partitions=dict.fromkeys(held, 0.0),
        speeds=dict.fromkeys(held, speed),
        measured_at=1000,
        members={1: member},
        team=frozenset({1}),
        backlog={p(0): backlog},
        reassigned_at=1000 - rested,
    )
    aimed = replace(POLICY, delay=10.0, max_rate=120.0, pause=10.0, catch_up=60.0, iteration=300.0)
    known = replace(known, members={1: replace(member, last=None)})
    (exit_,) = sentinel.exits(known, aimed)
    assert exit_.cause is Cause.OVERLOAD
    assert exit_.reason.endswith(f"(for a delay of 10 s, {part})")
    (silent,) = sentinel.exits(known, replace(aimed, delay=0.0))
    assert "delay" not in silent.reason
