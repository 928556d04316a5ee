"""The world and the group in it: random histories, and the peace that must follow."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lagless.lab.world.world import Pace, Weather, World, readers
from lagless.model import TopicPartition
from lagless.ports import Provisioner
from tests.adapters.provisioner_exam import ProvisionerExam
from tests.controller import histories
from tests.controller.histories import DEATHS, KINDS, Fault, History


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


faults = st.builds(
    Fault,
    st.sampled_from((*KINDS, *DEATHS)),
    st.floats(0, 30),
    st.integers(0, 100),
    st.floats(0, 90),
)
weathers = st.builds(
    Weather,
    st.sampled_from([0.0, 0.1, 0.3]),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from([0.05, 3.0]),
    refusals=st.sampled_from([0.0, 0.2]),
    answers=st.sampled_from([0.0, 0.2]),
)
many = st.builds(
    History,
    st.integers(0, 2**32),
    st.integers(1, 7),
    weathers,
    st.lists(faults, max_size=8).map(tuple),
    st.integers(1, 2),
    st.sampled_from([3, 50]),
)


REFUSED_TWICE = History(
    11444386,
    2,
    Weather(0.0, 0.2, 3.0, refusals=0.2, answers=0.2),
    (
        Fault("crash at start", 27.965402486549188, 73, 0.0),
        Fault("kill", 0.0, 13, 0.0),
        Fault("crash at start", 27.965402486549188, 73, 0.0),
        Fault("outsider claims", 26.0, 0, 0.0),
        Fault("outsider claims", 26.0, 0, 0.0),
    ),
    2,
    3,
)
"""A claim is refused, and nothing else gives a reason for another assignment."""


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@example(REFUSED_TWICE)
@given(many)
def test_a_group_survives_everything(history: History) -> None:
    world = histories.run(history)
    assert world.unsettled() == ""


@pytest.mark.parametrize("seed", range(100))
def test_a_group_survives_storms(seed: int) -> None:
    world = histories.run(histories.draw(10**6 + seed))
    assert world.unsettled() == ""


@pytest.mark.parametrize("seed", range(60))
def test_a_calm_group_survives_too(seed: int) -> None:
    history = replace(histories.draw(3 * 10**6 + seed), calm=True)
    assert histories.run(history).unsettled() == ""


@pytest.mark.parametrize("delay", [0.05, 3.0])
def test_no_order_is_left_alone_while_the_new_consumer_is_not_ready(delay: float) -> None:
    """A lost stop and a void start were not followed up, and their deadline took a consumer."""
    faults = (
        Fault("never start", 10.0, 0, 0.0),
        Fault("speeds", 13.0, 0, 0.0),
        Fault("spike", 0.0, 0, 0.0),
        Fault("partition goes", 2.0, 0, 0.0),
    )
    history = History(479, 4, Weather(0.1, 0.0, delay), faults, 1, 3)
    assert histories.run(history).unsettled() == ""


@pytest.mark.parametrize("seed", [9002872, 88003614])
def test_a_group_survives_what_once_went_wrong(seed: int) -> None:
    world = histories.run(histories.draw(seed))
    assert world.unsettled() == ""


def test_a_history_runs_the_same_way_twice() -> None:
    history = histories.draw(4)
    first, second = histories.run(history), histories.run(history)
    assert first.decisions == second.decisions
    assert first.orders == second.orders


def calm(partitions: int = 6, catch_up: float = 60) -> World:
    world = histories.build(History(7, partitions, Weather(), (), catch_up=catch_up))
    world.run(world.at + 60)
    assert world.unsettled() == ""
    return world


def test_at_rest_nothing_is_ordered() -> None:
    world = calm()
    before = len(world.orders)
    world.run(world.at + 600)
    assert len(world.orders) == before
    assert histories.contradictions(world) == 0


def test_a_controller_that_restarts_again_and_again_disturbs_nobody() -> None:
    world = calm()
    before = dict(readers(world))
    world.orders.clear()
    for _ in range(20):
        world.kill_controller(3)
        world.run(world.at + 17.3)
    world.run(world.at + 30)
    assert dict(readers(world)) == before
    assert {order.kind for order in world.orders} == {"report"}


def test_an_outage_of_the_broker_makes_nobody_look_lost() -> None:
    world = calm(catch_up=0)  # else the backlog moves partitions afterwards, as it should
    before = dict(readers(world))
    histories.strike(world, Fault("outage", 0, 0, 300))
    world.run(world.at + 400)
    assert not [d for d in world.decisions if d.decision == "lost"]
    assert dict(readers(world)) == before


def test_a_dead_connect_server_makes_nobody_look_lost() -> None:
    world = calm(catch_up=0)  # else the backlog moves partitions afterwards, as it should
    before = dict(readers(world))
    for process in world.processes:
        process.waits_until = world.at + 300
    world.run(world.at + 400)
    assert not [d for d in world.decisions if d.decision == "lost"]
    assert dict(readers(world)) == before


def test_a_paused_controller_takes_nobody_for_lost() -> None:
    world = calm()
    world.paused_until = world.at + 300
    world.run(world.at + 400)
    assert not [d for d in world.decisions if d.decision == "lost"]


def test_nobody_is_taken_away_while_nothing_is_measured() -> None:
    world = calm()
    consumers = len({n for found in readers(world).values() for n in found})
    world.unmeasured_until = world.at + 600
    world.run(world.at + 120)
    world.change(dict.fromkeys(world.speeds, 0.1))
    world.run(world.at + 400)
    assert len({n for found in readers(world).values() for n in found}) == consumers
    world.run(world.at + 200)
    assert len({n for found in readers(world).values() for n in found}) == 1


def test_the_group_grows_with_a_spike_and_shrinks_after_it() -> None:
    world = calm()
    before = len([p for p in world.processes if p.alive])
    world.change(dict.fromkeys(world.speeds, 80.0))
    world.run(world.at + 60)
    assert world.unsettled() == ""
    assert len([p for p in world.processes if p.alive]) == len(world.speeds) > before
    world.change(dict.fromkeys(world.speeds, 10.0))
    world.run(world.at + 120)
    assert world.unsettled() == ""
    assert len([p for p in world.processes if p.alive]) == 1


def test_a_zombie_commits_nothing_twice_and_is_told_to_end() -> None:
    world = calm(3)
    victim = next(p for p in world.processes if p.state.held)
    histories.strike(world, Fault("zombie", 0, world.processes.index(victim), 100))
    world.run(world.at + 95)
    assert victim.alive
    world.run(world.at + 60)
    assert world.lake.refusals > 0, "it tried"
    assert world.lake.faults == []
    assert not victim.alive
    assert world.unsettled() == ""


class TestExam(ProvisionerExam):
    """The provisioner in memory takes the same exam as the real ones."""

    @pytest.fixture
    def provisioner(self) -> Provisioner:
        self.world = World(
            histories.policy(History(1, 1, Weather(), ())),
            {TopicPartition("t", 0): 0.0},
            np.random.default_rng(1),
            pace=Pace(),
        )
        self.world.kill_controller(10**9)
        self.world._queue.clear()
        return self.world.provisioner

    def running(self, provisioner: Provisioner) -> set[int]:
        return {process.consumer for process in self.world.processes if process.alive}

    def wait(self, condition: object) -> bool:
        assert callable(condition)
        for _ in range(20):
            if condition():
                return True
            self.world.run(self.world.at + 1)
        return False
