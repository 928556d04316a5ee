"""Pause, drain and resume: the machine alone, and a group in memory under faults."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from lagless.controller import machine, modes
from lagless.controller.events import Operated
from lagless.lab.world.simulated_tables import Violation
from lagless.lab.world.world import Weather, World, readers
from lagless.messages import ControllerState, Mode, Operation
from lagless.messages import Operated as Decided
from lagless.model import TopicPartition
from tests import policies
from tests.controller import histories
from tests.controller.histories import Fault, History

POLICY = policies.policy(histories.pack)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def calm(partitions: int = 5) -> World:
    """Return a group that has settled."""
    world = histories.build(History(3, partitions, Weather(), ()))
    world.run(world.at + 60)
    assert world.unsettled() == ""
    return world


def held(world: World) -> list[TopicPartition]:
    """Return what someone reads."""
    return [p for p, consumers in readers(world).items() if consumers]


def mode(world: World) -> str:
    """Return the mode that is persisted."""
    assert world.persisted is not None
    return world.persisted.mode.name


def test_a_paused_group_reads_nothing_deletes_nobody_and_goes_on_where_it_was() -> None:
    world = calm()
    alive = [process for process in world.processes if process.alive]
    world.operate("pause")
    world.run(world.at + 20)
    assert (mode(world), held(world)) == ("paused", [])
    stood = dict(world.lake.positions)
    world.run(world.at + 300)
    assert world.lake.positions == stood
    assert [process for process in world.processes if process.alive] == alive
    world.operate("resume")
    world.run(world.at + 60)
    assert mode(world) == "running"
    histories.make_peace(world)
    decided = [d.details for d in world.decisions if isinstance(d, Decided)]
    assert [(d.operation, d.state, d.who) for d in decided] == [
        ("pause", "paused", "anna"),
        ("resume", "running", "anna"),
    ]


def test_a_new_controller_remembers_the_pause() -> None:
    world = calm()
    world.operate("pause")
    world.run(world.at + 20)
    world.kill_controller(5)
    world.run(world.at + 120)
    assert (mode(world), held(world)) == ("paused", [])
    world.processes[0].alive = False
    world.run(world.at + 120)
    assert held(world) == []
    world.operate("resume")
    histories.make_peace(world)
    assert mode(world) == "running"


def test_a_drain_reads_to_the_ends_of_its_moment_then_stops() -> None:
    world = calm()
    for process in world.processes:
        process.asleep_until = world.at + 15  # so that there is something to read
    world.run(world.at + 14)
    ends = {p: world.end(p) for p in world.speeds}
    world.operate("drain")
    world.run(world.at + 5)
    assert mode(world) == "draining"
    world.run(world.at + 120)
    assert (mode(world), held(world)) == ("drained", [])
    assert all(world.lake.positions[p].offset >= end for p, end in ends.items())
    stood = dict(world.lake.positions)
    world.change(world.speeds | {TopicPartition("t", 5): 20.0})
    world.run(world.at + 100)
    assert world.lake.positions == stood
    assert held(world) == []
    states = [d.details.state for d in world.decisions if isinstance(d, Decided)]
    assert states == ["draining", "drained"]
    world.operate("resume")
    histories.make_peace(world)


def test_a_copy_of_a_command_changes_nothing() -> None:
    state = machine.begin(None, 0)
    pause, resume = (
        Operation(group="g", operation=kind, id=kind, who="anna", at=0)
        for kind in ("pause", "resume")
    )
    for command in (pause, resume, pause, resume, pause):
        state, _ = machine.step(state, Operated(1, command), POLICY)
    assert state.mode.name == "running"
    assert state.generation == machine.begin(None, 0).generation + 2


def test_a_state_of_an_earlier_version_is_not_paused() -> None:
    old = ControllerState(group="g", generation=3, at=0).model_dump(exclude={"mode"})
    assert machine.begin(ControllerState.model_validate(old), 1).mode == Mode()


def test_a_drain_does_not_wait_for_partitions_that_are_gone() -> None:
    state = machine.begin(None, 0)
    until = {"t": {0: 5, 1: 7}}
    drain = Operation(group="g", operation="drain", id="x", who="anna", until=until, at=0)
    state = modes.take(state, drain)
    assert not modes.may_read(state, TopicPartition("t", 2))
    assert modes.may_read(state, TopicPartition("t", 1))
    state = modes.progress(replace(state, partitions={TopicPartition("t", 1): 0.0}))
    assert state.mode.drained == (("t", 0),)
    assert state.mode.name == "draining"


def operated(seed: int) -> History:
    """Draw a history with operators' commands between its faults."""
    history = histories.draw(seed)
    dice = np.random.default_rng([seed, 3])
    faults = list(history.faults)
    for _ in range(int(dice.integers(1, 5))):
        kind = str(dice.choice(["operate pause", "operate drain", "operate resume", "reset"]))
        at = int(dice.integers(len(faults) + 1))
        faults.insert(at, Fault(kind, float(dice.exponential(8)), int(dice.integers(100)), 0.0))
    return replace(history, faults=tuple(faults))


@pytest.mark.parametrize("seed", range(80))
def test_a_group_survives_its_operators(seed: int) -> None:
    try:
        world = histories.run(operated(seed))
    except Violation as wrong:
        raise AssertionError(f"seed {seed}: {wrong}") from wrong
    assert world.unsettled() == ""
    assert mode(world) == "running"
