"""Random histories of a group: faults at random moments, then peace, and everything must be well.

As a command: python -m tests.controller.histories --count 20000 --seed 1
"""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lagless.controller.state import Policy
from lagless.lab.world.simulated_consumer import SimulatedConsumer
from lagless.lab.world.simulated_tables import Violation
from lagless.lab.world.world import Pace, Weather, World
from lagless.messages import OperationKind, PhaseChanged
from lagless.model import Assignment, Cause, Consumer, Speeds, TopicPartition
from tests import policies

KINDS = (
    "kill",
    "sleep",
    "zombie",
    "stick",
    "wait",
    "kill controller",
    "kill controller inside",
    "second controller",
    "pause controller",
    "outage",
    "provisioner down",
    "never start",
    "crash at start",
    "no measurements",
    "speeds",
    "spike",
    "partition appears",
    "partition goes",
    "outsider claims",
    "late hand",
    "state lost",
)
DEATHS = ("kill", "kill inside", "restart")
"""How a consumer dies: between two steps, inside one, or to be started again at once."""
CAPACITY = 100.0
FLAKY = 10**7
"""From this seed on the lake often cannot take claims."""
SPARE = 7
"""Seeds that leave this over when divided by 8 are of groups with one spare or two."""
PEACE = 900.0
"""Virtual seconds within which everything must be well after the last fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong."""

    kind: str
    after: float
    """Seconds after the fault before."""
    who: int
    """Which consumer or partition, modulo how many there are."""
    seconds: float


@dataclass(frozen=True, slots=True)
class History:
    """All that makes a history: the same one runs the same way."""

    seed: int
    partitions: int
    weather: Weather
    faults: tuple[Fault, ...]
    min_consumers: int = 1
    max_consumers: int = 50
    storm: bool = False
    """Everything changes all the time, and messages take longer than minds."""
    catch_up: float = 60
    """In which a backlog should be read; 0 leaves it out of the weights."""
    spares: int = 0
    calm: bool = False
    """The algorithm's answers are followed only where there is a reason."""


def pack(weights: Speeds, capacity: float, previous: Assignment) -> Assignment:
    """Pack first fit, keeping what fits where it is: simple, quick and sticky."""
    load: dict[Consumer, float] = {}
    placed: dict[TopicPartition, Consumer] = {}

    def fits(n: Consumer, weight: float) -> bool:
        return n not in load or load[n] + weight <= capacity

    kept = sorted(previous, key=lambda p: (previous[p], -weights[p]))
    total = sum(weights.values())
    few = int(total / capacity * 1.3) + 1
    for p in kept:
        n = previous[p]
        if (n in load or len(load) < few) and fits(n, weights[p]):
            load[n] = load.get(n, 0.0) + weights[p]
            placed[p] = n
    for p in sorted(weights, key=lambda p: -weights[p]):
        if p not in placed:
            n = next((n for n in sorted(load) if load[n] + weights[p] <= capacity), 0)
            if n == 0:
                n = next(k for k in range(1, 10**6) if k not in load)
            load[n] = load.get(n, 0.0) + weights[p]
            placed[p] = n
    return placed


def policy(history: History) -> Policy:
    """Return the policy that histories run under."""
    ordinary = policies.policy(
        pack,
        capacity=CAPACITY,
        min_consumers=history.min_consumers,
        max_consumers=history.max_consumers,
        spare_consumers=history.spares,
        catch_up=history.catch_up,
        start_deadline=60,
        backoff=30,
        **(policies.CALM if history.calm else {}),
    )
    if not history.storm:
        return ordinary
    return replace(ordinary, iteration=6, pause=1, repeat=3, order_deadline=70, lost_after=30)


def build(history: History) -> World:
    """Make the world of a history."""
    dice = np.random.default_rng(history.seed)
    names = [TopicPartition("t", i) for i in range(history.partitions)]
    speeds = {p: float(CAPACITY * 0.6 * dice.random()) for p in names}
    pace = Pace(heartbeat=2, cycle=1.5, start=2) if history.storm else Pace()
    return World(policy(history), speeds, dice, history.weather, pace)


def strike(world: World, fault: Fault) -> None:
    """Let a fault happen."""
    running = [p for p in world.processes if p.alive and p.asleep_until < world.at]
    victim = running[fault.who % len(running)] if running else None
    names = sorted(world.speeds)
    name = names[fault.who % len(names)]
    until = world.at + fault.seconds
    match fault.kind:
        case "kill controller":
            world.kill_controller(fault.seconds / 4)
        case "kill controller inside":
            world.kill_after_calls = fault.who % 9
        case "second controller":
            world.start_controller()
        case "pause controller":
            world.paused_until = until
        case "outage":
            _outage(world, until)
        case "provisioner down":
            world.provisioner.down_until = until
        case "never start":
            world.provisioner.never_start = 1 + fault.who % 2
        case "crash at start":
            world.provisioner.crash = 1 + fault.who % 3
        case "no measurements":
            world.unmeasured_until = until
        case "speeds":
            speed = CAPACITY * 0.9 * float(world.generator.random())
            world.change(world.speeds | {name: speed})
        case "spike":
            world.change({p: min(2 * s, 1.2 * CAPACITY) for p, s in world.speeds.items()})
        case "partition appears":
            new = TopicPartition("t", names[-1].partition + 1)
            world.change(world.speeds | {new: 20.0})
        case "partition goes":
            if len(names) > 1:
                world.change({p: s for p, s in world.speeds.items() if p != name})
        case "outsider claims":
            world.lake.claim([name], world.lake.at([name])[name].owner + 1)
        case "operate pause" | "operate drain" | "operate resume":
            kinds: dict[str, OperationKind] = {"pause": "pause", "drain": "drain"}
            world.operate(kinds.get(fault.kind.partition(" ")[2], "resume"))
        case "reset":
            at = world.lake.at([name])[name].offset
            world.lake.reset(name, at * (fault.who % 10) // 10)
        case "late hand":
            world.later(fault.seconds, lambda: world.provisioner.again(1 + fault.who % 3))
        case "state lost":
            world.persisted = None
            world.lake.generations_reused = True
            world.kill_controller(fault.seconds / 4)
        case _:
            if victim is not None:
                _hurt(world, victim, fault.kind, until)


def _hurt(world: World, victim: SimulatedConsumer, kind: str, until: float) -> None:
    match kind:
        case "kill":
            victim.alive = False
        case "kill inside":
            victim.dies_after = int(world.generator.integers(12))
            victim.well = False
        case "restart":
            world.provisioner.restart(victim.consumer)
        case "sleep":
            victim.asleep_until = max(victim.asleep_until, until)
        case "zombie" if victim.reads(world.at):
            victim.asleep_until = max(victim.asleep_until, until)
            victim.pauses_late = True
            world.provisioner.unkillable.add(victim.incarnation.partition(".")[0])
        case "stick":
            victim.stuck_until = max(victim.stuck_until, until)
            victim.well = False
        case "wait":
            victim.waits_until = max(victim.waits_until, until)


def _outage(world: World, until: float) -> None:
    world.out_until = max(world.out_until, until)

    def over() -> None:
        for process in world.processes:
            if process.alive and process.asleep_until < world.at:
                process.heard_at = max(process.heard_at, world.at)

    world.later(world.out_until - world.at + 0.001, over)


def run(history: History) -> World:
    """Live through a history; raise Violation if anything is ever wrong."""
    world = build(history)
    world.run(world.at + 20)
    for fault in history.faults:
        world.run(world.at + fault.after)
        strike(world, fault)
    if any(fault.kind.startswith("operate") for fault in history.faults):
        world.operate("resume")
    make_peace(world)
    outside = {"outsider claims", "state lost", "reset"}
    reasons = {fault.kind for fault in history.faults} & outside
    if contradictions(world) and not reasons:
        raise Violation(
            "reality was not what was believed, and nobody from outside had a hand in it"
        )
    return world


def make_peace(world: World) -> None:
    """Stop all faults, and see that everything gets well and stays so."""
    world.provisioner.never_start = 0
    world.provisioner.crash = 0
    world.kill_after_calls = None
    world.weather = replace(
        world.weather, loss=0.0, repeat=0.0, claims=0.0, refusals=0.0, answers=0.0
    )
    pending = [world.out_until, world.unmeasured_until, world.paused_until]
    pending.append(world.provisioner.down_until)
    for process in world.processes:
        if process.alive:
            pending += [process.asleep_until, process.stuck_until, process.waits_until]
    world.run(max(world.at, *pending) + 1)
    ends = world.at + PEACE
    well = 0
    while well < 3:
        world.run(world.at + 10)
        well = 0 if world.unsettled() else well + 1
        if world.at > ends:
            raise Violation(f"not well after {PEACE:.0f} s of peace: {world.unsettled()}")


def draw(seed: int) -> History:
    """Draw a history: every second one a storm."""
    dice = np.random.default_rng([seed, 1])
    storm = bool(dice.integers(2))
    count = int(dice.integers(4, 20)) if storm else int(dice.integers(1, 9))
    often = ("speeds", "speeds", "spike", "kill", "partition appears", "partition goes")
    kinds = (*KINDS, *often, *often) if storm else KINDS
    faults = tuple(
        Fault(
            kinds[int(dice.integers(len(kinds)))],
            float(dice.exponential(3 if storm else 8)),
            int(dice.integers(100)),
            float(dice.exponential(25)),
        )
        for _ in range(count)
    )
    # Dice of their own, so that a seed goes on to mean the same faults.
    more = np.random.default_rng([seed, 2])
    faults = tuple(
        replace(fault, kind=str(more.choice(DEATHS))) if fault.kind == "kill" else fault
        for fault in faults
    )
    weather = Weather(
        loss=float(dice.choice([0, 0.1, 0.3])),
        repeat=float(dice.choice([0, 0.2])),
        delay=float(dice.choice([1, 4, 8] if storm else [0.05, 1, 3])),
        claims=0.5 if seed >= FLAKY else 0,
        refusals=float(more.choice([0, 0.1, 0.4])),
        answers=float(more.choice([0, 0.1, 0.3])),
    )
    lowest = int(dice.choice([1, 1, 2]))
    highest = int(dice.choice([50, 50, 3]))
    partitions = int(dice.integers(1, 8))
    spares = int(more.integers(1, 3)) if seed % 8 == SPARE else 0
    return History(seed, partitions, weather, faults, lowest, highest, storm=storm, spares=spares)


def story(world: World, last: int = 40) -> str:
    """Tell what was decided last, for a failing test."""
    return "\n".join(
        f"{d.at:8.1f} g{d.generation} {d.phase:17} {d.decision}: {d.reason}"
        for d in world.decisions[-last:]
    )


def contradictions(world: World) -> int:
    """Count how often reality was not what was believed."""
    return sum(
        isinstance(d, PhaseChanged) and d.details.cause is Cause.CONTRADICTION
        for d in world.decisions
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many histories and say how many went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    logging.disable()
    began = time.monotonic()
    wrong = []
    for seed in range(asked.seed, asked.seed + asked.count):
        try:
            run(draw(seed))
        except Violation as violation:
            wrong.append(seed)
            print(f"seed {seed}: {violation}", flush=True)
        done = seed - asked.seed + 1
        if done % 500 == 0:
            print(f"{done} histories, {len(wrong)} went wrong", flush=True)
    seconds = time.monotonic() - began
    print(f"{asked.count} histories in {seconds:.0f} s, {len(wrong)} went wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
