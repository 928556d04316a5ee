"""No two members read a partition at the same time, whatever happens to them and their requests."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless.adapters.kafka.leases import DRIFT, Leases, Mark, Terms
from tests.client.rivals import TERMS, Member, P, Weather, World

TAKEOVER = DRIFT * (TERMS.lease + TERMS.settle) + 4
"""Seconds within which a partition whose reader died is read again, if nothing else goes wrong."""


def alone(world: World) -> None:
    assert len(world.readers()) <= 1, f"at {world.now:.3f} s {world.readers()} read one partition"


weathers = st.builds(
    Weather,
    lost=st.sampled_from([0.0, 0.1, 0.4]),
    latency=st.sampled_from([0.02, 0.3, 1.0]),
    pause=st.sampled_from([0.0, 0.02, 0.1]),
    skew=st.sampled_from([0.0, 0.05, DRIFT - 1]),
)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), weather=weathers, count=st.integers(2, 4))
def test_a_partition_has_one_reader_at_most(seed: int, weather: Weather, count: int) -> None:
    world = World(np.random.default_rng(seed), weather)
    for number in range(count):
        Member(world, f"m-{number}")
    for _ in range(12):
        for member in world.members:
            member.wants = world.chance(0.5)
        world.run(float(world.random.random() * 2 * TERMS.lease), alone)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), skew=st.sampled_from([0.0, DRIFT - 1]))
def test_the_partition_of_a_member_that_dies_is_taken_over_where_it_stopped(
    seed: int, skew: float
) -> None:
    world = World(np.random.default_rng(seed), Weather(latency=0.05, skew=skew))
    first, second = Member(world, "m-1"), Member(world, "m-2", wants=False)
    world.run(5 * TERMS.settle + 4, alone)
    assert world.readers() == ["m-1"]
    world.run(2 * TERMS.renewal, alone)
    first.dead, second.wants = True, True
    world.run(TAKEOVER, alone)
    assert world.readers() == ["m-2"]
    assert 0 < world.takes[-1][2] <= first.position


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_partition_that_is_given_up_is_taken_in_seconds_and_nothing_is_read_again(
    seed: int,
) -> None:
    world = World(np.random.default_rng(seed), Weather(latency=0.05))
    first, second = Member(world, "m-1"), Member(world, "m-2", wants=False)
    world.run(5 * TERMS.settle, alone)
    assert world.readers() == ["m-1"]
    first.wants, second.wants = False, True
    world.run(6 * TERMS.settle, alone)
    assert world.readers() == ["m-2"]
    assert world.takes[-1][2] == first.position


def test_a_renewal_after_the_end_of_a_lease_does_not_bring_it_back() -> None:
    leases = held(Leases("m-1", "s", TERMS))
    leases.renewed([P], 9.0, 10.5)
    assert not leases.holds(P, 10.5)
    assert leases.expire(10.5) == {P}
    leases.renewed([P], 10.6, 10.7)
    assert leases.held == frozenset()


def test_a_lease_counts_from_when_its_commit_was_sent() -> None:
    leases = held(Leases("m-1", "s", TERMS))
    assert leases.holds(P, 9.9)
    assert not leases.holds(P, 10.0)
    leases.renewed([P], 4.0, 6.0)
    assert leases.holds(P, 13.9)
    assert not leases.holds(P, 14.0)


def test_a_claim_that_took_too_long_does_not_count() -> None:
    leases = Leases("m-1", "s", TERMS)
    leases.want({P})
    assert leases.look(0.0, 0.1, {P: None}).claim == {P: None}
    note = leases.note()
    leases.claimed([P], note, 0.0, 0.1, 1.1)
    assert leases.look(5.0, 5.1, {P: Mark(0, note)}).taken == {}


def test_a_claim_holds_only_once_it_has_stood_for_long_enough() -> None:
    leases = Leases("m-1", "s", TERMS)
    leases.want({P})
    leases.look(0.0, 0.1, {P: None})
    note = leases.note()
    leases.claimed([P], note, 0.0, 0.1, 0.2)
    early = 0.2 + TERMS.settle * DRIFT
    assert leases.look(early - 0.01, early + 1, {P: Mark(0, note)}).taken == {}
    assert leases.look(early + 0.01, early + 1, {P: Mark(0, note)}).taken == {P: 0}


def test_a_claim_that_was_replaced_is_forgotten() -> None:
    leases = Leases("m-1", "s", TERMS)
    leases.want({P})
    leases.look(0.0, 0.1, {P: None})
    note = leases.note()
    leases.claimed([P], note, 0.0, 0.1, 0.2)
    assert leases.look(0.5, 0.6, {P: Mark(0, "of another")}).taken == {}
    assert leases.look(5.0, 5.1, {P: Mark(0, note)}).taken == {}


def test_a_partition_may_be_said_to_be_free_only_while_nobody_else_can_have_taken_it() -> None:
    leases = held(Leases("m-1", "s", TERMS))
    assert leases.give_up([P], 3.0) == {P: TERMS.lease - TERMS.settle}
    assert not leases.holds(P, 3.0)
    late = held(Leases("m-1", "s", TERMS))
    assert late.give_up([P], TERMS.lease - TERMS.settle) == {}
    assert late.held == frozenset()


def test_what_another_member_reads_is_dropped() -> None:
    leases = held(Leases("m-1", "s", TERMS))
    other = Leases("m-2", "s", TERMS).note()
    assert leases.look(3.0, 3.1, {P: Mark(7, other)}).lost == {P}
    assert leases.held == frozenset()
    assert leases.awaited == {P}


def test_a_partition_that_could_not_be_looked_at_changes_nothing() -> None:
    leases = held(Leases("m-1", "s", TERMS))
    looked = leases.look(3.0, 3.1, {})
    assert (looked.claim, looked.taken, looked.lost) == ({}, {}, frozenset())
    assert leases.held == {P}


@pytest.mark.parametrize("name", ["~free", "orders-0"])
def test_a_note_names_its_reader_and_only_a_given_up_one_is_free(name: str) -> None:
    leases = Leases("orders-0", "s", TERMS)
    assert Mark(0, leases.note()).reader == "orders-0"
    assert not Mark(0, leases.note()).free
    assert Mark(0, leases.free_note).free
    assert Mark(0, leases.free_note).reader == ""
    assert Mark(0, "").reader == Mark(0, "written by another tool").reader == ""


def held(leases: Leases) -> Leases:
    """Return leases that hold the partition since second 0."""
    leases.want({P})
    leases.look(-0.1, 0.0, {P: None})
    note = leases.note()
    leases.claimed([P], note, -0.1, 0.0, 0.1)
    assert leases.look(2.0, 2.1, {P: Mark(5, note)}).taken == {P: 5}
    return leases


def test_the_terms_leave_time_to_renew() -> None:
    terms = Terms()
    assert 3 * terms.renewal + terms.settle < terms.lease
