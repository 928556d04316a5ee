"""Δt2, Δt3 and Δt4, with the monitor replaced by streams of δ = 5 and δ = 25, as in the paper.

`live_findings.response` says what is real. A measurement is published when the group has finished
with the one before, and is packed once: MWF, given its own assignment and the same speeds again,
would find yet another one. Where every partition is written to, an order waits for the end of a
cycle; those scenes have fewer consumers, since twenty cycles at once on a small machine measure
the machine.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lagless.adapters.kafka.mail import ControllerMailbox
from lagless.adapters.kafka.speeds import SpeedsOut
from lagless.controller.service import Service
from lagless.controller.state import Pack
from lagless.errors import GiveUp
from lagless.lab import report
from lagless.lab.live import pods
from lagless.lab.live.journal import Journal
from lagless.lab.live.observer import Observer
from lagless.lab.load import flows
from lagless.lab.model import streams
from lagless.lab.testbed import Testbed
from lagless.messages import WriteSpeeds, nest
from lagless.model import Assignment, Speeds, TopicPartition
from lagless.settings import Settings
from lagless.wiring import controller as wiring
from lagless.wiring.clock import RealClock

SCENES = ((5.0, True), (25.0, True), (5.0, False), (25.0, False))
"""δ, and whether there is something to read; the last one goes on until enough were created."""
PARTS = {True: 1 / 8, False: 3 / 8}
"""Of the reassignments: those of consumers that read take longest."""
FASTEST = 0.85
"""How fast a partition is at most, in C, so that 20 consumers are enough for 32 of them."""
READ = 6.4
"""How fast all that are read can be together at most, in C: about five consumers."""
PATIENCE = 4
"""Measurements for each reassignment that is wanted: some need none."""
FULL = 4
"""How often consumers are requested while the node is full."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is observed: reassignments, a third as many creations."""

    observations: int = 300
    partitions: int = 32
    consumers: int = 20

    @property
    def creations(self) -> int:
        """How many consumers have to be created."""
        return -(-self.observations // 3)


@dataclass(frozen=True, slots=True)
class Counts:
    """What is there and what is still wanted."""

    _journal: Journal
    _size: Size
    _provisioner: str

    @property
    def total(self) -> int:
        """Return how many reassignments and creations are wanted."""
        return self._size.observations + self._size.creations

    @property
    def done(self) -> int:
        """Return how many of them have been observed."""
        creations = min(len(self._all("creations")), self._size.creations)
        return min(len(self._all("reassignments")), self._size.observations) + creations

    def wanted(self, scene: int) -> int:
        """Return how many reassignments a scene should have."""
        return math.ceil(PARTS[SCENES[scene][1]] * self._size.observations)

    def wants(self, scene: int) -> bool:
        """Return whether this scene needs more observations."""
        seen = [(entry["delta"], entry["reading"]) for entry in self._all("reassignments")]
        more = len(self._all("creations")) < self._size.creations
        last = scene == len(SCENES) - 1
        return seen.count(SCENES[scene]) < self.wanted(scene) or (last and more)

    @property
    def full_rounds(self) -> int:
        """Return how often consumers are still to be requested on a full node."""
        known = {entry["generation"] for entry in self._all("creations") if entry.get("full")}
        return max(0, FULL - len(known))

    def take(self, observer: Observer, scene: int, full: bool = False) -> None:
        """Write down what the observer saw."""
        delta, reading = SCENES[scene]
        mark: dict[str, Any] = {"provisioner": self._provisioner}
        mark |= {"delta": None if full else delta, "reading": reading, "full": full}
        done, created = observer.take()
        self._journal.all("creations").extend({**mark, **entry} for entry in created)
        self._journal.note("reassignments", *({**mark, **entry} for entry in done))

    def _all(self, key: str) -> list[dict[str, Any]]:
        found = self._journal.all(key)
        return [entry for entry in found if entry["provisioner"] == self._provisioner]


WRITTEN = 4000
"""Bytes/s to each partition where there is."""
TOPIC = "response"
RATE = 1_000_000.0
"""Bytes/s of a consumer; nothing is written, so any number would do."""
DEADLINE = 150.0
"""Seconds after which a measurement that is not answered ends the part."""
MOST = {"processes": 18 * 60.0, "kubernetes": 12 * 60.0}
"""Seconds after which it ends with what is there; both together take half an hour."""
ROOM = 30.0
"""Seconds until a full node has room."""


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
    """Return the settings of the group."""
    # The next measurement is answered at once; the paper's 30 s would only be waited for.
    times = {"iteration": 0.01, "rebalance": 0, "pause": 0, "catch_up": 0}
    times |= {"dead_band": 0, "shrink_after": 0, "max_move": 1}
    return {
        "group": "response",
        "topics": [TOPIC],
        "controller": {"algorithm": "mwf", "max_consumers": size.consumers, **times},
        # A cycle begins as soon as there is anything, so that consumers are always in one.
        "consumer": {"max_rate": RATE, "wait_seconds": 0.1},
    }


@dataclass(frozen=True, slots=True)
class Group:
    """A group that receives measurements."""

    bed: Testbed
    out: SpeedsOut
    settings: Settings
    observer: Observer
    failed: list[BaseException] = field(default_factory=list)
    """Why the controller has ended."""

    def measure(self, row: list[float]) -> None:
        """Publish a measurement, and return when the group is done with it."""
        partitions = flows.spread({TOPIC: len(row)})
        speeds = nest(dict(zip(partitions, row, strict=True)))
        at = time.time()
        measurement = WriteSpeeds(group=self.settings.group, at=at, window=30, speeds=speeds)
        self.out.publish(measurement)
        self.rest(at)
        # Measurements fall anywhere between two turns of the controller.
        time.sleep(float(np.random.default_rng(int(at * 1e6)).uniform(0, 0.3)))

    def rest(self, at: float) -> None:
        """Wait until the group is done with the measurement of a time."""

        def is_done() -> bool:
            if self.failed:
                raise GiveUp(f"the controller ended: {self.failed[0]}") from self.failed[0]
            return self.observer.is_done_with(at)

        self.bed.until(is_done, "the group did not answer a measurement", DEADLINE, 0.02)


@contextmanager
def leading(bed: Testbed, settings: Settings, config: Path) -> Iterator[Group]:
    """Run a controller in a thread, and yield the group that it leads."""
    ending = threading.Event()
    policy = wiring.policy(settings)
    policy.pack({TopicPartition("warm", 0): 1.0}, policy.capacity, {})  # kernels load once, now
    policy = replace(policy, pack=once(policy.pack))
    mailbox = ControllerMailbox(settings, ending.is_set)
    provisioner, algorithm = wiring.provisioner(settings, config), wiring.algorithm(settings)
    group = Group(bed, SpeedsOut(settings), settings, Observer())
    service = Service(
        mailbox, provisioner, RealClock(ending), policy, group.observer, algorithm=algorithm
    )

    def lead() -> None:
        try:
            service.begin()
            service.run(ending.is_set)
        except BaseException as error:
            group.failed.append(error)

    thread = threading.Thread(target=lead, name="controller", daemon=True)
    thread.start()
    try:
        yield group
    finally:
        ending.set()
        thread.join(20)
        mailbox.close()
        wiring.end_consumers(settings)
        group.out.close()


def run(journal: Journal, size: Size, seed: int, kubeconfig: Path | None = None) -> None:
    """Observe consumers as processes, and as pods where there is a cluster."""
    ended = journal.all("ended")
    if "processes" not in ended:
        with Testbed() as bed:
            _observe(journal, size, seed, bed)
    if kubeconfig is not None and "kubernetes" not in ended:
        with pods.namespace(kubeconfig) as cluster, Testbed(address=cluster.address) as bed:
            _observe(journal, size, seed, bed, cluster)
    journal.finish(machine=report.machine())


def _observe(
    journal: Journal, size: Size, seed: int, bed: Testbed, cluster: pods.Cluster | None = None
) -> None:
    """Publish streams until there are enough observations, or the time is over."""
    name = "processes" if cluster is None else "kubernetes"
    own = {} if cluster is None else {"provisioner": cluster.provisioner(bed.folder)}
    settings, config = bed.settle({**tree(size), **own})
    if cluster is not None:
        cluster.configure(config)
    began = time.monotonic()
    counts = Counts(journal, size, name)
    journal.progress(counts.done, counts.total)
    bed.make_topics({TOPIC: size.partitions})
    load = flows.steady(flows.spread({TOPIC: size.partitions}), WRITTEN)
    loaded = False
    with leading(bed, settings, config) as group:
        group.rest(float("-inf"))
        if cluster is not None:
            _without_room(counts, cluster, group, size.partitions, journal.say)
        for scene, (delta, reading) in enumerate(SCENES):
            if reading != loaded and counts.wants(scene):
                loaded = reading
                if reading:
                    bed.start_load(load)
                else:
                    journal.say("response: now with nothing to read")
                    bed.end_load()
            rng = np.random.default_rng([seed, scene, counts.done])
            fastest = min(FASTEST, READ / size.partitions) if reading else FASTEST
            rows = PATIENCE * (counts.wanted(scene) + size.creations)
            most = fastest * settings.capacity
            speeds = streams.speeds("random", delta, size.partitions, rows, most, rng)
            for row in speeds.tolist():
                if not counts.wants(scene) or time.monotonic() - began > MOST[name]:
                    break
                group.measure(row)
                counts.take(group.observer, scene)
                journal.progress(counts.done, counts.total)
    journal.all("lost").extend(group.observer.lost)
    journal.note("ended", name)


def _without_room(
    counts: Counts, cluster: pods.Cluster, group: Group, partitions: int, say: Callable[[str], None]
) -> None:
    """Ask for consumers while the node is full, and make room after a while, as a new node would.

    The paper's second cluster of Δt3: the cloud had to add a node first.
    """
    slow, fast = (share * group.settings.capacity for share in (0.05, 0.2))
    for _ in range(counts.full_rounds):
        say(f"response: requested while the node is full, with room {ROOM:g} s later")
        group.measure([slow] * partitions)
        counts.take(group.observer, 0)
        cluster.fill()
        timer = threading.Timer(ROOM, cluster.free)
        timer.start()
        try:
            group.measure([fast] * partitions)
        finally:
            timer.join()
        counts.take(group.observer, 0, full=True)
