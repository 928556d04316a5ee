"""Δt2, Δt3 and Δt4: the monitor replaced by streams with δ = 5 and δ = 25, as the paper did.

The controller, its mailbox on Kafka, the provisioner and the consumers are the real ones; 32 real
partitions, at most 20 consumers. A measurement is published when the group is done with the one
before, and packed once: MWF, given its own assignment and the same speeds again, would find yet
another one. A quarter of it is seen while every partition is written to, and an order waits for
the end of a cycle; those are fewer consumers, since a cycle of twenty at once on a small machine
says more of the machine. The rest is seen while consumers have nothing to read, and answer at once.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lagless.adapters.kafka.controller_mailbox import ControllerMailbox
from lagless.adapters.kafka.speeds import SpeedsOut
from lagless.controller.facts import Pack
from lagless.controller.service import Service
from lagless.embedded import flows, holdings
from lagless.errors import GiveUp
from lagless.live import machine, pods, scenes, stand
from lagless.live.journal import Journal
from lagless.live.witness import Witness
from lagless.messages import WriteSpeeds, nest
from lagless.model import Assignment, Speeds, TopicPartition
from lagless.settings import Settings
from lagless.simulation import streams
from lagless.wiring import controller as wiring
from lagless.wiring.clocks import RealClock

WRITTEN = 4000
"""Bytes/s to each partition where there is."""
TOPIC = "response"
RATE = 1_000_000.0
"""Bytes/s of a consumer; nothing is written, so any number would do."""
DEADLINE = 150.0
"""Seconds after which a measurement that is not answered ends the part."""
PODS = 12 * 60.0
"""Seconds for pods at most, so that both provisioners together take half an hour."""
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


def tree(size: scenes.Size) -> dict[str, object]:
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
    size: scenes.Size,
    seed: int,
    tell: stand.Tell,
    told: Callable[[int, int], None],
    kubeconfig: Path | None = None,
) -> None:
    """Observe consumers as processes, and as pods where there is a cluster."""
    ended = journal.all("ended")
    if "processes" not in ended:
        with stand.raised(tell, spark=True) as here:
            site = Site("processes", here, *here.settle("response", tree(size)))
            _observe(journal, site, size, seed, tell, told)
    if kubeconfig is not None and "kubernetes" not in ended:
        shorter = replace(size, most=min(size.most, PODS))
        with (
            pods.namespace(kubeconfig) as cluster,
            stand.raised(tell, spark=True, address=cluster.address) as here,
        ):
            provisioner = cluster.provisioner(here.folder / "response")
            settled = here.settle("response", {**tree(size), "provisioner": provisioner})
            site = Site("kubernetes", here, *settled, cluster)
            cluster.configure(site.config)
            _observe(journal, site, shorter, seed, tell, told)
    journal.finish(machine=machine.facts())


@dataclass(frozen=True, slots=True)
class Site:
    """Where a group is observed."""

    provisioner: str
    here: stand.Stand
    settings: Settings
    config: Path
    cluster: pods.Cluster | None = None


def _observe(
    journal: Journal,
    site: Site,
    size: scenes.Size,
    seed: int,
    tell: stand.Tell,
    told: Callable[[int, int], None],
) -> None:
    """Publish streams until there are enough observations, or the time is over."""
    began = time.monotonic()
    settings = site.settings
    counts = scenes.Counts(journal, size, site.provisioner)
    told(counts.done, counts.total)
    holdings.make_topics(site.here.broker.bootstrap, {TOPIC: size.partitions})
    out = SpeedsOut(settings)
    witness = Witness()
    loaded = False
    try:
        with leading(settings, site.config, witness) as check:
            group = Group(out, settings, witness, check)
            group.rest(float("-inf"))
            if site.cluster is not None:
                _without_room(counts, site.cluster, group, size.partitions, tell)
            for place, (delta, reading) in enumerate(scenes.SCENES):
                if reading != loaded and counts.wants(place):
                    loaded = reading
                    if reading:
                        _load(site.here, size.partitions)
                    else:
                        tell("response: now with nothing to read")
                        site.here.children.end("load")
                rng = np.random.default_rng([seed, place, counts.done])
                fastest = scenes.most(reading, size.partitions) * settings.capacity
                rows = scenes.PATIENCE * (counts.wanted(place) + size.creations)
                for row in streams.speeds(
                    "random", delta, size.partitions, rows, fastest, rng
                ).tolist():
                    if not counts.wants(place) or time.monotonic() - began > size.most:
                        break
                    group.measure(row)
                    counts.take(witness, place)
                    told(counts.done, counts.total)
    finally:
        out.close()
    journal.all("lost").extend(witness.lost)
    journal.note("ended", site.provisioner)


def _without_room(
    counts: scenes.Counts, cluster: pods.Cluster, group: "Group", partitions: int, tell: stand.Tell
) -> None:
    """Ask for consumers while the node is full, and make room after a while, as a new node would.

    The paper's second cluster of Δt3: the cloud had to add a node first.
    """
    slow, fast = (share * group.settings.capacity for share in (0.05, 0.2))
    for _ in range(counts.full_rounds):
        tell(f"response: requested while the node is full, with room {ROOM:g} s later")
        group.measure([slow] * partitions)
        counts.take(group.witness, 0)
        cluster.fill()
        timer = threading.Timer(ROOM, cluster.free)
        timer.start()
        try:
            group.measure([fast] * partitions)
        finally:
            timer.join()
        counts.take(group.witness, 0, full=True)


def _load(here: stand.Stand, partitions: int) -> None:
    """Write a little to every partition, from a process of its own."""
    words = ["--bootstrap", here.broker.bootstrap, "--topic", f"{TOPIC}:{partitions}"]
    here.start("load", "lagless.embedded.load", *words, "--speed", str(WRITTEN))


@dataclass(frozen=True, slots=True)
class Group:
    """A group that is told measurements."""

    out: SpeedsOut
    settings: Settings
    witness: Witness
    check: Callable[[], None]

    def measure(self, row: list[float]) -> None:
        """Publish a measurement, and return when the group is done with it."""
        partitions = flows.spread({TOPIC: len(row)})
        speeds = nest(dict(zip(partitions, row, strict=True)))
        at = time.time()
        said = WriteSpeeds(group=self.settings.group, at=at, window=30, speeds=speeds)
        self.out.publish(said)
        self.rest(at)
        # Measurements fall anywhere between two turns of the controller.
        time.sleep(float(np.random.default_rng(int(at * 1e6)).uniform(0, 0.3)))

    def rest(self, at: float) -> None:
        """Wait until the group is done with the measurement of a time."""
        until = time.monotonic() + DEADLINE
        while not self.witness.is_done_with(at):
            self.check()
            if time.monotonic() > until:
                raise GiveUp(f"the group did not answer a measurement within {DEADLINE:g} s")
            time.sleep(0.02)
