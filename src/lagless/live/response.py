"""Δt2, Δt3 and Δt4: the monitor replaced by streams with δ = 5 and δ = 25, as the paper did.

The controller, its mailbox on Kafka, the provisioner and the consumers are the real ones; 32 real
partitions, at most 20 consumers. A measurement is published when the group is done with the one
before, and packed once: MWF, given its own assignment and the same speeds again, would find yet
another one. Half of it is seen while consumers have nothing to read, and answer at once; the other
half while every partition is written to, and an order waits for the end of a cycle. Those are fewer
consumers, since a cycle of twenty at once on a small machine says more of the machine.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lagless.adapters.kafka.controller_mailbox import ControllerMailbox
from lagless.adapters.kafka.speeds import SpeedsOut
from lagless.controller.facts import Pack
from lagless.controller.service import Service
from lagless.embedded import flows, holdings
from lagless.errors import GiveUp
from lagless.live import machine, stand
from lagless.live.journal import Journal
from lagless.live.witness import Witness
from lagless.messages import WriteSpeeds, nest
from lagless.model import Assignment, Speeds, TopicPartition
from lagless.settings import Settings
from lagless.simulation import streams
from lagless.wiring import controller as wiring
from lagless.wiring.clocks import RealClock

SCENES = ((5.0, False), (25.0, False), (5.0, True), (25.0, True))
"""δ, and whether there is something to read."""
SHARES = {False: 0.85, True: 0.2}
"""How fast a partition is at most, in C: up to 20 consumers, or about five that read."""
WRITTEN = 4000
"""Bytes/s to each partition where there is."""
TOPIC = "response"
RATE = 1_000_000.0
"""Bytes/s of a consumer; nothing is written, so any number would do."""
ROWS = 5000
"""Measurements that are drawn: more than the time allows."""
DEADLINE = 150.0
"""Seconds after which a measurement that is not answered ends the part."""
MOST = 28 * 60.0
"""Seconds after which the part ends with what it has."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is observed: reassignments, a third as many creations."""

    observations: int = 300
    partitions: int = 32
    consumers: int = 20
    algorithm: str = "mwf"

    @property
    def creations(self) -> int:
        """How many consumers have to be created."""
        return -(-self.observations // 3)


def once(pack: Pack) -> Pack:
    """Pack each measurement once; asked again with the same speeds, leave all as it is."""
    last: dict[str, Speeds] = {}

    def packed(weights: Speeds, capacity: float, previous: Assignment) -> Assignment:
        if last.get("weights") == weights and previous.keys() >= weights.keys():
            return {partition: previous[partition] for partition in weights}
        last["weights"] = dict(weights)
        return pack(weights, capacity, previous)

    return packed


def tree(size: Size) -> dict[str, object]:
    """Give the settings of the group."""
    return {
        "group": "response",
        "topics": [TOPIC],
        "controller": {
            "algorithm": size.algorithm,
            "max_consumers": size.consumers,
            # Seconds in which the next measurement is answered at once; the paper's 30 s would
            # only be waited for.
            "iteration": 0.01,
            "rebalance": 0,
            "pause": 0,
            "catch_up": 0,
        },
        # A cycle begins as soon as there is anything, so that consumers are always in one.
        "consumer": {"max_rate": RATE, "wait_seconds": 0.1},
    }


@contextmanager
def leading(settings: Settings, config: Path, witness: Witness) -> Iterator[Callable[[], None]]:
    """Run a controller in a thread; what is given raises if it has ended."""
    ending = threading.Event()
    failed: list[BaseException] = []
    policy = wiring.policy(settings)
    policy.pack({TopicPartition("warm", 0): 1.0}, policy.capacity, {})  # kernels load once, now
    policy = replace(policy, pack=once(policy.pack))
    mailbox = ControllerMailbox(settings, ending.is_set)
    service = Service(
        mailbox,
        wiring.provisioner(settings, config),
        RealClock(ending),
        policy,
        witness,
        algorithm=wiring.algorithm(settings),
    )

    def lead() -> None:
        try:
            service.begin()
            service.run(ending.is_set)
        except BaseException as error:
            failed.append(error)

    def check() -> None:
        if failed:
            raise GiveUp(f"the controller ended: {failed[0]}") from failed[0]

    thread = threading.Thread(target=lead, name="controller", daemon=True)
    thread.start()
    try:
        yield check
    finally:
        ending.set()
        thread.join(20)
        mailbox.close()
        wiring.end_consumers(settings)


def run(
    journal: Journal,
    size: Size,
    seed: int,
    tell: stand.Tell,
    told: Callable[[int, int], None],
    provisioner: str = "processes",
) -> None:
    """Publish streams until there are enough observations, or the time is over."""
    began = time.monotonic()
    counts = Counts(journal, size, provisioner)
    told(counts.done, counts.total)
    with stand.raised(tell, spark=True) as here:
        settings, config = here.settle("response", tree(size))
        holdings.make_topics(here.broker.bootstrap, {TOPIC: size.partitions})
        out = SpeedsOut(settings)
        witness = Witness()
        loaded = False
        try:
            with leading(settings, config, witness) as check:
                _await(witness, float("-inf"), check)
                for place, (delta, reading) in enumerate(SCENES):
                    if reading and not loaded:
                        tell("response: now with something to read")
                        _load(here, size.partitions)
                        loaded = True
                    rng = np.random.default_rng([seed, place, counts.done])
                    most = SHARES[reading] * settings.capacity
                    drawn = streams.speeds("random", delta, size.partitions, ROWS, most, rng)
                    rows = iter(drawn.tolist())
                    while counts.wants(place) and time.monotonic() - began < MOST:
                        _publish(out, next(rows), settings, witness, check)
                        counts.take(witness, place)
                        told(counts.done, counts.total)
        finally:
            out.close()
    journal.finish(machine=machine.facts(), lost=witness.lost)


def _load(here: stand.Stand, partitions: int) -> None:
    """Write a little to every partition, from a process of its own."""
    words = ["--bootstrap", here.broker.bootstrap, "--topic", f"{TOPIC}:{partitions}"]
    here.start("load", "lagless.embedded.load", *words, "--speed", str(WRITTEN))


class Counts:
    """What is there and what is still wanted."""

    def __init__(self, journal: Journal, size: Size, provisioner: str) -> None:
        self._journal = journal
        self._size = size
        self._provisioner = provisioner

    @property
    def total(self) -> int:
        """Give how many reassignments and creations are wanted."""
        return self._size.observations + self._size.creations

    @property
    def done(self) -> int:
        """Give how many of them are there."""
        made = min(len(self._all("creations")), self._size.creations)
        return min(len(self._all("reassignments")), self._size.observations) + made

    def wants(self, place: int) -> bool:
        """Say whether this scene has to go on: reassignments are shared out evenly among all."""
        delta, reading = SCENES[place]
        known = self._all("reassignments")
        mine = [one for one in known if (one["delta"], one["reading"]) == (delta, reading)]
        if len(mine) < -(-self._size.observations // len(SCENES)):
            return True
        last = place == len(SCENES) - 1
        return last and len(self._all("creations")) < self._size.creations

    def take(self, witness: Witness, place: int) -> None:
        """Write down what the witness saw."""
        delta, reading = SCENES[place]
        mark = {"provisioner": self._provisioner, "delta": delta, "reading": reading}
        done, made = witness.take()
        self._journal.all("creations").extend({**mark, **one} for one in made)
        self._journal.note("reassignments", *({**mark, **one} for one in done))

    def _all(self, key: str) -> list[dict[str, Any]]:
        found = self._journal.all(key)
        return [one for one in found if one["provisioner"] == self._provisioner]


def _publish(
    out: SpeedsOut,
    row: list[float],
    settings: Settings,
    witness: Witness,
    check: Callable[[], None],
) -> None:
    """Publish a measurement, and return when the group is done with it."""
    partitions = flows.spread({TOPIC: len(row)})
    speeds = nest(dict(zip(partitions, row, strict=True)))
    at = time.time()
    out.publish(WriteSpeeds(group=settings.group, at=at, window=30, speeds=speeds))
    _await(witness, at, check)
    # Measurements fall anywhere between two turns of the controller.
    time.sleep(float(np.random.default_rng(int(at * 1e6)).uniform(0, 0.3)))


def _await(witness: Witness, at: float, check: Callable[[], None]) -> None:
    until = time.monotonic() + DEADLINE
    while not witness.is_done_with(at):
        check()
        if time.monotonic() > until:
            raise GiveUp(f"the group did not answer a measurement within {DEADLINE:g} s")
        time.sleep(0.02)
