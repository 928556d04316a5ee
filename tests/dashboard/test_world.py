"""The view on the real controller, in a world of virtual time: it shows what is."""

import logging
from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from lagless import packing
from lagless.controller.facts import Policy
from lagless.dashboard import view
from lagless.dashboard.snapshot import Link, Snapshot
from lagless.dashboard.story import Story
from lagless.messages import Decision, Heartbeat, Message, Receipt, WriteSpeeds, decode
from lagless.model import Assignment, Speeds, TopicPartition
from lagless.simulation.world import Pace, World, readers
from tests.dashboard import plays

KNOBS = plays.settings(heartbeat=2)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Watched:
    """A world, and everything that was said in it, as it crosses a process border."""

    def __init__(self) -> None:
        def pack(speeds: Speeds, capacity: float, previous: Assignment) -> Assignment:
            return packing.pack(speeds, capacity, previous, "mbfp")

        self.world = World(
            Policy(plays.GROUP, KNOBS.capacity, pack, catch_up=0),
            {TopicPartition("orders", n): 4e5 + 5e4 * n for n in range(10)},
            np.random.default_rng(4),
            pace=Pace(heartbeat=2),
        )
        self.story = Story(plays.GROUP, KNOBS.capacity)
        self._measured: WriteSpeeds | None = None

    def run(self, seconds: float) -> Snapshot:
        """Let time go by, and look."""
        world = self.world
        end = world.at + seconds
        while world.at < end:
            mail, decisions = len(world.mail), len(world.decisions)
            world.run(min(end, world.at + 1))
            if world.measured is not None and world.measured is not self._measured:
                self._measured = world.measured
                self._tell(WriteSpeeds, world.measured)
            for message in world.mail[mail:]:
                self._tell(Heartbeat if isinstance(message, Heartbeat) else Receipt, message)
            for decision in world.decisions[decisions:]:
                self._tell(Decision, decision)
        return view.look(self.story, KNOBS, world.at, Link(heard=True))

    def _tell(self, kind: type[Message], message: Message) -> None:
        self.story.tell(decode(kind, message.encode()))

    def truth(self) -> dict[TopicPartition, int]:
        """Say who reads what, by the consumers themselves."""
        found = readers(self.world)
        assert all(len(consumers) == 1 for consumers in found.values()), found
        return {partition: consumers[0] for partition, consumers in found.items()}


def test_it_shows_who_reads_what_and_why() -> None:
    watched = Watched()
    shown = watched.run(120)
    assert shown.held == watched.truth()
    assert shown.unassigned == ()
    assert shown.phase == "Sentinel"
    assert {one.condition for one in shown.bins} == {"ready"}
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
    assert sum(one.migrations for one in new) >= moved
    assert all(one.rscore > 0 for one in new if one.migrations)
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
    states = {one.consumer: one.condition for one in soon.bins}
    assert states.get(victim, "silent") == "silent"
    later = watched.run(180)
    assert later.held == watched.truth()
    assert any(line.what == "lost" and line.level == "bad" for line in later.lines)
    assert {one.condition for one in later.bins} == {"ready"}
