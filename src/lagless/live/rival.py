"""A rival on the same work: an ordinary consumer group, scaled by KEDA's rule on its lag.

Settings in its favour: it begins with as many consumers as sticky would; a new consumer starts as
a process, without image or pod; the group grows as fast as KEDA asks, without the autoscaler's
limits; it is asked to end and has time to write and commit. The threshold is ten seconds of one
consumer's reading, since KEDA's default of ten records would start all it may at once.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagless import extras, packing
from lagless.embedded import holdings
from lagless.errors import GiveUp
from lagless.live import bench, machine, stand, traffic
from lagless.live.journal import Journal
from lagless.simulation import keda

if TYPE_CHECKING:
    from confluent_kafka import Consumer

TOPIC, GROUP = "rival", "rival"
POLLING, COOLDOWN, THRESHOLD = 30.0, 300.0, 10.0
"""Seconds: between looks at the lag, before the group shrinks, of one consumer's reading."""
START = 90.0


@dataclass(slots=True)
class Scaler:
    """KEDA and the autoscaler behind it: from records of lag to a number of consumers."""

    size: int
    threshold: float = THRESHOLD * traffic.MAX_RATE / traffic.RECORD
    """Records of lag per consumer."""
    partitions: int = traffic.PARTITIONS
    cooldown: float = COOLDOWN
    _asked: list[tuple[float, int]] = field(default_factory=list)

    def look(self, now: float, lag: float) -> int:
        """Give the size that the group should have: up at once, down after the cooldown."""
        wanted = keda.replicas(lag, self.threshold, self.size, self.partitions)
        self._asked = [(at, n) for at, n in self._asked if at > now - self.cooldown]
        # Nobody knows what was asked for before the first look: the size stands for it.
        if not self._asked and now < self.cooldown:
            self._asked.append((0.0, self.size))
        self._asked.append((now, wanted))
        self.size = max(wanted, min(self.size, max(n for _, n in self._asked)))
        return self.size


def first_size(stream: traffic.Stream) -> int:
    """Give how many consumers sticky would begin with."""
    speeds = dict(enumerate(stream.speeds[0].tolist()))
    return len(set(packing.pack(speeds, traffic.CAPACITY, algorithm="sticky").values()))


def run(
    journal: Journal,
    minutes: float,
    seed: int,
    tell: stand.Tell,
    told: Callable[[int, int], None],
) -> None:
    """Run the rival on the stream of the latency part; an interrupted run begins anew."""
    stream = traffic.stream(minutes, seed)
    with stand.raised(tell, spark=False) as here:
        lake = here.folder / "lake"
        _make_table(lake / TOPIC)
        looks: list[dict[str, Any]] = []
        group = scaled(here, lake / TOPIC, first_size(stream), looks)
        found = bench.run(here, lake, TOPIC, stream, group, lambda x: told(int(99 * x), 100))
        refused = sum(
            log.read_text(errors="replace").count("offsets were not committed")
            for log in here.folder.glob("rival-*.log")
        )
    rebalances = len(found["line"]) - 1
    journal.note(
        "runs",
        {"name": "keda", **found, "looks": looks, "rebalances": rebalances, "refused": refused},
    )
    journal.finish(machine=machine.facts())
    told(100, 100)


@contextlib.contextmanager
def scaled(
    here: stand.Stand, table: Path, first: int, looks: list[dict[str, Any]]
) -> Iterator[Callable[[float], int]]:
    """Run the group; looking at the time scales it."""
    with extras.needed("kafka"):
        from confluent_kafka import Consumer
    holdings.make_topics(here.broker.bootstrap, {TOPIC: traffic.PARTITIONS})
    asker = Consumer(
        {
            "bootstrap.servers": here.broker.bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
        }
    )
    scaler = Scaler(first)
    members: list[str] = []
    born = 0
    next_look = POLLING

    def resize(size: int) -> None:
        nonlocal born
        while len(members) < size:
            born += 1
            members.append(f"rival-{born}")
            words = ["--bootstrap", here.broker.bootstrap, "--topic", TOPIC, "--group", GROUP]
            words += ["--table", str(table), "--max-rate", f"{traffic.MAX_RATE:g}"]
            here.start(members[-1], "lagless.live.rival_consumer", *words)
        gone = members[size:]
        del members[size:]
        if gone:
            here.children.end(*gone, patience=30)

    def look(passed: float) -> int:
        nonlocal next_look
        if passed >= next_look:
            next_look += POLLING
            lag = _lag(asker)
            size = scaler.look(passed, lag)
            looks.append({"at": round(passed, 1), "lag": lag, "size": size})
            resize(size)
        return len(members)

    resize(first)
    try:
        _await_members(here.broker.bootstrap, first)
        yield look
    finally:
        here.children.end(*members, patience=30)
        asker.close()


def _lag(asker: "Consumer") -> int:
    """Sum the records between what the group committed and the end of the log."""
    from confluent_kafka import TopicPartition as Place

    places = [Place(TOPIC, p) for p in range(traffic.PARTITIONS)]
    total = 0
    for place in asker.committed(places, timeout=30):
        low, high = asker.get_watermark_offsets(place, timeout=30)
        total += high - (place.offset if place.offset >= 0 else low)
    return total


def _await_members(bootstrap: str, count: int) -> None:
    """Wait until all have joined and have partitions, so that the load meets no rebalance."""
    from confluent_kafka import ConsumerGroupState, KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    until = time.monotonic() + START
    while time.monotonic() < until:
        time.sleep(0.5)
        try:
            group = admin.describe_consumer_groups([GROUP])[GROUP].result(30)
        except KafkaException:
            continue
        given = sum(len(member.assignment.topic_partitions) for member in group.members)
        joined = len(group.members) == count and given == traffic.PARTITIONS
        if joined and group.state == ConsumerGroupState.STABLE:
            return
    raise GiveUp(f"the rival's {count} consumers did not join their group within {START:g} s")


def _make_table(path: Path) -> None:
    with extras.needed("spark"):
        from deltalake import DeltaTable, Schema

        from lagless.live.rival_consumer import SCHEMA
    path.parent.mkdir(parents=True, exist_ok=True)
    DeltaTable.create(str(path), schema=Schema.from_arrow(SCHEMA))
