"""A rival on the same work: an ordinary consumer group, scaled by KEDA's rule on its lag.

`live_findings.rival` says what is in its favour. The threshold is ten seconds of one consumer's
reading, since KEDA's default of ten records would start all it may at once.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagless import extras, packing
from lagless.lab import report
from lagless.lab.live import live_stream
from lagless.lab.live.fleet import Fleet
from lagless.lab.live.journal import Journal
from lagless.lab.model import keda
from lagless.lab.testbed import Testbed

with extras.needed("kafka"):
    from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient
with extras.needed("spark"):
    from deltalake import DeltaTable, Schema

    from lagless.lab.live.rival_consumer import SCHEMA

TOPIC, GROUP = "rival", "rival"
POLLING, COOLDOWN, THRESHOLD = 30.0, 300.0, 10.0
"""Seconds: between looks at the lag, before the group shrinks, of one consumer's reading."""
START = 90.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace at which the group is scaled: seconds between looks, and how much it may grow."""

    every: float = POLLING
    step_up: keda.StepUp | None = None


ORDINARY = Pace()


def first_size(stream: live_stream.Stream) -> int:
    """Return how many consumers sticky would begin with."""
    speeds = dict(enumerate(stream.speeds[0].tolist()))
    return len(set(packing.pack(speeds, live_stream.CAPACITY, algorithm="sticky").values()))


def run(journal: Journal, minutes: float, seed: int) -> None:
    """Run the rival on the stream of the latency part; an interrupted run starts over."""
    stream = live_stream.stream(minutes, seed)
    with Testbed(spark=False) as bed:
        make_table(bed.lake / TOPIC)
        looks: list[dict[str, Any]] = []
        fleet = Fleet(bed, GROUP, TOPIC, bed.lake / TOPIC)
        group = scaled(bed, fleet, first_size(stream), looks)
        measured = live_stream.run(bed, TOPIC, stream, group, lambda p: journal.progress(p, 100))
        refused = fleet.refused()
    changes = {"looks": looks, "rebalances": len(measured["line"]) - 1, "refused": refused}
    journal.note("runs", {"name": "keda", **measured, **changes})
    journal.finish(machine=report.machine())
    journal.progress(100, 100)


@contextlib.contextmanager
def scaled(
    bed: Testbed, fleet: Fleet, first: int, looks: list[dict[str, Any]], pace: Pace = ORDINARY
) -> Iterator[Callable[[float], int]]:
    """Run the group; looking at the time scales it."""
    asker = Consumer(
        {
            "bootstrap.servers": bed.broker.bootstrap,
            "group.id": fleet.group,
            "enable.auto.commit": False,
        }
    )
    threshold = THRESHOLD * live_stream.MAX_RATE / live_stream.RECORD
    scaler = keda.Scaler(first, threshold, fleet.partitions, COOLDOWN, pace.step_up)

    def look(passed: float) -> int:
        if passed >= pace.every * (len(looks) + 1):
            lag = _lag(asker, fleet)
            size = scaler.look(passed, lag)
            looks.append({"at": round(passed, 1), "lag": lag, "size": size})
            fleet.resize(size)
        return len(fleet.names)

    fleet.resize(first)
    try:
        await_members(bed, fleet, first)
        yield look
    finally:
        fleet.end()
        asker.close()


def _lag(asker: Consumer, fleet: Fleet) -> int:
    """Sum the records between what the group committed and the end of the log."""
    places = [TopicPartition(fleet.topic, p) for p in range(fleet.partitions)]
    total = 0
    for partition in asker.committed(places, timeout=30):
        low, high = asker.get_watermark_offsets(partition, timeout=30)
        total += high - (partition.offset if partition.offset >= 0 else low)
    return total


def await_members(bed: Testbed, fleet: Fleet, count: int) -> None:
    """Wait until all have joined and have partitions, so that the load meets no rebalance."""
    admin = AdminClient({"bootstrap.servers": bed.broker.bootstrap, "log_level": 4})

    def are_there() -> bool:
        try:
            seen = admin.describe_consumer_groups([fleet.group])[fleet.group].result(30)
        except (KafkaException, TimeoutError):
            return False
        held = [
            sum(place.topic == fleet.topic for place in member.assignment.topic_partitions)
            for member in seen.members
        ]
        joined = sum(map(bool, held)) == count and sum(held) == fleet.partitions
        return joined and bool(seen.state == ConsumerGroupState.STABLE)

    bed.until(are_there, f"the {count} members of {fleet.group} did not join", START, 0.5)


def make_table(path: Path) -> None:
    """Make the table that the rival appends to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    DeltaTable.create(str(path), schema=Schema.from_arrow(SCHEMA))
