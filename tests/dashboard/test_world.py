"""The view on the real controller in virtual time: it shows what the consumers really hold."""

import logging
from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from lagless import messages, packing
from lagless.dashboard import view
from lagless.dashboard.observations import Observations
from lagless.dashboard.snapshot import Link, Snapshot
from lagless.lab.world.world import Pace, World, readers
from lagless.messages import Message, WriteSpeeds
from lagless.model import Assignment, Speeds, TopicPartition
from tests import policies
from tests.dashboard import plays

KNOBS = plays.settings(heartbeat=2)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Watched:
    """A world and its messages, encoded and decoded as between processes."""

    def __init__(self) -> None:
        def pack(speeds: Speeds, capacity: float, previous: Assignment) -> Assignment:
            return packing.pack(speeds, capacity, previous, "mbfp")

        self.world = World(
            policies.policy(pack, group=plays.GROUP, capacity=KNOBS.capacity, catch_up=0),
            {TopicPartition("orders", n): 4e5 + 5e4 * n for n in range(10)},
            np.random.default_rng(4),
            pace=Pace(heartbeat=2),
        )
        self.observations = Observations(plays.GROUP, KNOBS.capacity)
        self._measured: WriteSpeeds | None = None

    def run(self, seconds: float) -> Snapshot:
        """Run the world and return what the page would show."""
        world = self.world
        end = world.at + seconds
        while world.at < end:
            mail, decisions = len(world.mail), len(world.decisions)
            world.run(min(end, world.at + 1))
            if world.measured is not None and world.measured is not self._measured:
                self._measured = world.measured
                self._tell(world.measured)
            for message in (*world.mail[mail:], *world.decisions[decisions:]):
                self._tell(message)
        return view.look(self.observations, KNOBS, world.at, Link(heard=True))

    def _tell(self, message: Message) -> None:
        heard = messages.read(message.encode())
        assert heard == message
        self.observations.take(heard)

    def truth(self) -> dict[TopicPartition, int]:
        """Return the consumer of each partition, by the consumers themselves."""
        owners = readers(self.world)
        assert all(len(consumers) == 1 for consumers in owners.values()), owners
        return {partition: consumers[0] for partition, consumers in owners.items()}


def test_it_shows_the_assignment_and_its_reason() -> None:
    watched = Watched()
    shown = watched.run(120)
    assert shown.held == watched.truth()
    assert shown.unassigned == ()
    assert shown.phase == "Sentinel"
    assert {bin_.condition for bin_ in shown.bins} == {"ready"}
    first = shown.reassignments[0]
    assert first.migrations == 0
    assert first.consumers == len(shown.bins)
    assert "partitions are not read" in first.reason
    assert cast(float, first.dt3) > 0
    assert cast(float, first.dt4) > 0
    assert cast(float, first.dt2) >= 0


def test_moves_are_shown_when_speeds_change() -> None:
    watched = Watched()
    before = watched.run(120)
    world = watched.world
    world.speeds = {p: s * (2.2 if p.partition % 2 else 0.3) for p, s in world.speeds.items()}
    after = watched.run(150)
    assert after.held == watched.truth()
    moved = sum(before.held[p] != after.held[p] for p in before.held)
    assert moved > 0
    new = after.reassignments[len(before.reassignments) :]
    assert sum(move.migrations for move in new) >= moved
    assert all(move.rscore and move.rscore > 0 for move in new if move.migrations)
    assert max(moment.consumers for moment in after.moments) >= len(after.bins)


def test_a_killed_consumer_is_shown_and_its_work_taken_over() -> None:
    watched = Watched()
    shown = watched.run(120)
    victim = shown.bins[0].consumer
    for process in watched.world.processes:
        if process.consumer == victim:
            process.alive = False
            process.well = False
    soon = watched.run(10)
    states = {bin_.consumer: bin_.condition for bin_ in soon.bins}
    assert states.get(victim, "silent") == "silent"
    later = watched.run(180)
    assert later.held == watched.truth()
    assert any(line.what == "lost" and line.level == "bad" for line in later.lines)
    assert {bin_.condition for bin_ in later.bins} == {"ready"}
