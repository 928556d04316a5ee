"""Several members that want one partition, in virtual time: slow, paused, late and skewed."""

import heapq
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lagless.adapters.kafka.leases import DRIFT, Leases, Mark, Terms
from lagless.model import TopicPartition

P = TopicPartition("orders", 0)
TERMS = Terms(lease=10.0, settle=1.0)
Steps = Generator[float, None, None]
"""A member's life: it yields the seconds that go by until its next step."""


@dataclass
class Weather:
    """How bad things get; all of it is a chance per request, or seconds."""

    lost: float = 0.0
    """Chance that an answer never comes, though the request may be carried out much later."""
    latency: float = 0.2
    pause: float = 0.0
    """Chance of a pause of up to three leases after a step."""
    skew: float = 0.0
    """Up to how much faster than real time a member's clock may run, as a fraction."""


@dataclass
class World:
    """The committed offset of one partition, and the members that change it."""

    random: np.random.Generator
    weather: Weather
    now: float = 0.0
    mark: Mark | None = None
    members: list["Member"] = field(default_factory=list)
    takes: list[tuple[float, str, int]] = field(default_factory=list)
    """When who took the partition at which offset."""
    _queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Let something happen at a time."""
        self._count += 1
        heapq.heappush(self._queue, (time, self._count, act))

    def chance(self, chance: float) -> bool:
        """Draw."""
        return bool(self.random.random() < chance)

    def run(self, seconds: float, each: Callable[["World"], None]) -> None:
        """Run until then, and call `each` after everything that happens."""
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            self.now, _, act = heapq.heappop(self._queue)
            act()
            each(self)
        self.now = end

    def readers(self) -> list[str]:
        """Name the members that may read the partition now."""
        return [m.name for m in self.members if m.leases.holds(P, m.clock())]

    def write(self, mark: Mark) -> None:
        """Commit."""
        self.mark = mark


class Member:
    """What `planned_consumer` does with its leases, one request after the other."""

    def __init__(self, world: World, name: str, wants: bool = True) -> None:
        self.world = world
        self.name = name
        self.leases = Leases(name, f"s{len(world.members)}", TERMS)
        self.wants = wants
        self.position = 0
        self.dead = False
        self._rate = 1 + world.random.random() * world.weather.skew
        self._shift = float(world.random.random() * 1000)
        world.members.append(self)
        self._live(self._life())

    def clock(self) -> float:
        """Return the member's own time."""
        return self._shift + self.world.now * self._rate

    def _live(self, life: Steps) -> None:
        if self.dead:
            return
        wait = next(life)
        if self.world.chance(self.world.weather.pause):
            wait += float(self.world.random.random() * 3 * TERMS.lease)
        self.world.at(self.world.now + wait, lambda: self._live(life))

    def _life(self) -> Steps:
        renewed_at = -float("inf")
        while True:
            self.leases.want({P} if self.wants else set())
            self.leases.expire(self.clock())
            if P in self.leases.held and not self.wants:
                yield from self._give_up()
            yield from self._look()
            if P in self.leases.held and self.clock() - renewed_at >= TERMS.renewal:
                renewed_at = self.clock()
                sent, done = self.clock(), list[Any]()
                yield from self._commit(self.position, self.leases.note(), done)
                if done:
                    self.leases.renewed([P], sent, self.clock())
            yield float(self.world.random.random()) * 0.4
            if self.leases.holds(P, self.clock()):
                self.position += 1

    def _give_up(self) -> Steps:
        ends = self.leases.give_up([P], self.clock())
        yield float(self.world.random.random())
        if P in ends and self.clock() < ends[P]:
            # The one assumption: it is carried out within `settle`, or never.
            within = self.world.random.random() * TERMS.settle / DRIFT
            mark = Mark(self.position, self.leases.free_note)
            if not self.world.chance(self.world.weather.lost):
                self.world.at(self.world.now + within, lambda: self.world.write(mark))
            yield float(self.world.random.random() * 2)

    def _look(self) -> Steps:
        asked = self.clock()
        yield self._latency()
        mark = self.world.mark
        yield self._latency()
        looked = self.leases.look(asked, self.clock(), {P: mark})
        if P in looked.taken:
            self.position = looked.taken[P]
            self.world.takes.append((self.world.now, self.name, self.position))
        if P in looked.claim:
            note, sent, done = self.leases.note(), self.clock(), list[Any]()
            yield from self._commit(0 if mark is None else mark.offset, note, done)
            if done:
                self.leases.claimed([P], note, asked, sent, self.clock())

    def _commit(self, offset: int, note: str, done: list[Any]) -> Steps:
        mark = Mark(offset, note)
        if self.world.chance(self.world.weather.lost):
            late = self.world.random.random() * 3 * TERMS.lease
            self.world.at(self.world.now + late, lambda: self.world.write(mark))
            yield TERMS.settle
        else:
            yield self._latency()
            self.world.write(mark)
            yield self._latency()
            done.append(True)

    def _latency(self) -> float:
        return float(self.world.random.exponential(self.world.weather.latency / 2))
