"""Scale to zero: a group without traffic has no consumer, and no record is left behind."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lagless import messages
from lagless.controller import machine, rest
from lagless.controller.events import Deaf, Event, Listed, Measured, Tick
from lagless.lab.world.world import Weather, World
from lagless.messages import WriteSpeeds
from lagless.model import TopicPartition
from tests.controller import histories

NAMES = [TopicPartition("t", n) for n in range(3)]
QUIET = dict.fromkeys(NAMES, 0.0)
WINDOW = 30.0
SECONDS = 400
"""Virtual seconds within which a quiet group goes to none: window, cycle deadline, iteration."""


class Windowed(World):
    """A world whose monitor measures over a window, as the real one does."""

    def _measure(self) -> None:
        super()._measure()
        if self.measured is None or self.measured.at < self.at:
            self.seen: list[tuple[float, dict[TopicPartition, int]]] = []
            return
        known = [one for one in getattr(self, "seen", []) if one[0] >= self.at - WINDOW]
        self.seen = [*known, (self.at, {p: self.end(p) for p in self.speeds})]
        first = self.seen[0]
        seconds = self.at - first[0]
        if seconds == 0:
            speeds: dict[TopicPartition, float] = {}
        else:
            speeds = {p: (self.end(p) - first[1].get(p, 0)) / seconds for p in self.speeds}
        self.measured = self.measured.model_copy(update={"speeds": messages.nest(speeds)})


def world(seed: int = 0) -> Windowed:
    policy = histories.policy(histories.History(seed, 3, Weather(), ()))
    return Windowed(replace(policy, min_consumers=0), dict(QUIET), np.random.default_rng(seed))


def alive(world: World) -> int:
    return sum(process.alive for process in world.processes)


def until(world: World, probe: Callable[[], object], seconds: float) -> float:
    """Run until the probe is true, and return the seconds that it took."""
    began = world.at
    while not probe():
        assert world.at - began < seconds, histories.story(world)
        world.run(world.at + 1)
    return world.at - began


def unread(world: World) -> int:
    read = {p: landings[-1].span.until for p, landings in world.lake.ledger.items() if landings}
    return sum(world.end(p) - read.get(p, 0) for p in world.speeds)


def write(world: World, size: float = 50.0, seconds: float = 2) -> None:
    """Write for a moment, and nothing after it."""
    world.change(QUIET | {NAMES[1]: size})
    world.run(world.at + seconds)
    world.change(QUIET)


def test_a_quiet_group_ends_its_last_consumer_and_comes_back_with_the_first_record() -> None:
    running = world()
    until(running, lambda: alive(running) == 1, 60)
    until(running, lambda: alive(running) == 0, SECONDS)
    running.run(running.at + 300)
    assert alive(running) == 0
    write(running)
    pace = running.pace
    took = until(running, lambda: unread(running) == 0, 120)
    # A start takes up to 1.5 times its mean; then a claim, and a cycle.
    assert took <= 2 * pace.measure + 1.5 * pace.start + 3 * pace.cycle + 10
    until(running, lambda: alive(running) == 0, SECONDS)
    assert unread(running) == 0


def test_a_group_with_traffic_or_a_minimum_keeps_its_consumer() -> None:
    for kept in (world(), World(replace(world().policy, min_consumers=1), dict(QUIET),
                                np.random.default_rng(1))):  # fmt: skip
        if kept.policy.min_consumers == 0:
            kept.change(QUIET | {NAMES[0]: 0.5})
        until(kept, lambda kept=kept: alive(kept) == 1, 60)  # type: ignore[misc]
        kept.run(kept.at + SECONDS)
        assert alive(kept) == 1


def test_without_measurements_the_group_comes_back_and_looks_for_itself() -> None:
    blind = world()
    until(blind, lambda: alive(blind) == 1, 60)
    until(blind, lambda: alive(blind) == 0, SECONDS)
    blind.unmeasured_until = blind.at + 1000
    write(blind)
    until(blind, lambda: unread(blind) == 0, blind.policy.stale_after + 120)


@pytest.mark.parametrize("seed", range(10))
def test_no_record_is_left_behind_whatever_fails(seed: int) -> None:
    dice = np.random.default_rng([seed, 11])
    faulty = world(seed)
    faulty.weather = Weather(loss=0.1, repeat=0.1, delay=2)
    for _ in range(12):
        faulty.run(faulty.at + float(dice.exponential(90)))
        match int(dice.integers(6)):
            case 0:
                _restart_monitor(faulty, float(dice.exponential(20)), dice)
            case 1:
                faulty.kill_controller(float(dice.exponential(10)))
            case 2:
                for process in faulty.processes:
                    process.alive = False
            case 3:
                faulty.paused_until = faulty.at + float(dice.exponential(30))
            case _:
                write(faulty, seconds=float(dice.exponential(3)))
    write(faulty)
    histories.make_peace(faulty)
    until(faulty, lambda: alive(faulty) == 0, 2 * SECONDS)
    assert unread(faulty) == 0
    assert faulty.lake.faults == []


def _restart_monitor(world: World, seconds: float, dice: np.random.Generator) -> None:
    """Let the monitor be away while something may be written; then it knows no speed at first."""
    world.unmeasured_until = world.at + seconds
    if dice.integers(2):
        write(world, seconds=min(1.0, seconds / 2))
    world.run(world.unmeasured_until)


def speeds(at: float, **numbers: float) -> Measured:
    table = {"t": {int(name[1:]): speed for name, speed in numbers.items()}} if numbers else {}
    return Measured(at, WriteSpeeds(group="g", at=at, window=30, speeds=table))


def test_evidence_is_gathered_again_after_whatever_could_hide_a_record() -> None:
    calm = world()
    until(calm, lambda: alive(calm) == 1, 60)
    until(calm, lambda: alive(calm) == 0, SECONDS)
    assert calm.service is not None
    state, policy = calm.service.state, calm.policy
    at = state.at
    names = tuple(("t", n) for n in range(3))
    assert rest.is_at_rest(state, policy)
    assert not rest.is_at_rest(state, replace(policy, min_consumers=1))
    harmless: tuple[Event, ...] = (Tick(at), speeds(at, p0=0, p1=0, p2=0), Listed(at, names))
    for event in harmless:
        after, _ = machine.step(state, event, policy)
        assert rest.is_at_rest(after, policy)
    telling: tuple[Event, ...] = (
        speeds(at, p0=0, p1=0.001, p2=0),
        speeds(at, p0=0, p1=0),
        speeds(at),
        Listed(at, (*names, ("t", 3))),
        Deaf(at),
        Tick(at + policy.max_gap + 1),
    )
    for event in telling:
        after, _ = machine.step(state, event, policy)
        assert not rest.is_at_rest(after, policy)
        assert not after.read_out
    assert not rest.is_at_rest(replace(state, at=at + policy.stale_after + 1), policy)
