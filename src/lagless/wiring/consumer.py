"""A consumer on real parts."""

import contextlib
import logging
import os
import sys
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Event, Thread

from lagless import extras, messages
from lagless.consumer import metrics
from lagless.consumer.service import Service
from lagless.errors import LaglessError, TryAgain
from lagless.messages import WriteSpeeds
from lagless.model import Consumer, TopicPartition
from lagless.ports import Span, Topic
from lagless.settings import Settings
from lagless.wiring import clock as endings
from lagless.wiring import own_spark
from lagless.wiring.clock import RealClock
from lagless.wiring.reloading import Reloading

with extras.needed("kafka"):
    from lagless.adapters import endpoints
    from lagless.adapters.kafka import connection, topics
    from lagless.adapters.kafka.mail import ConsumerMailbox
    from lagless.adapters.kafka.offsets import Offsets
    from lagless.adapters.kafka.speeds import LatestSpeeds
with extras.needed("spark"):
    from lagless.adapters.lake.tables import Lake
from lagless.adapters.schema_registry import SchemaRegistry
from lagless.adapters.spark import sessions

log = logging.getLogger("lagless.consumer")
TOPICS, PARTITIONS = 3, 8
"""At most so many topics, and partitions of each, are read before there is an assignment."""
WITHOUT_MONITOR = 60.0
"""Seconds until a topic of speeds that cannot be read is tried again, since a try takes seconds."""
BIRTH = "LAGLESS_BIRTH"
"""The variable in which the provisioner names the start that this process is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a consumer did in its life."""

    cycles: int
    records: int
    rejected: int
    unknown_fields: int
    gone: int
    bytes: float


def run(
    settings: Settings,
    consumer: Consumer,
    partitions: Collection[TopicPartition],
    ending: Event,
    tell: Callable[[str], None],
    reloading: Reloading | None = None,
) -> Outcome:
    """Run a consumer until `ending` is set or it is retired; with `partitions`, by hand."""
    # A user's transform is looked for where the command was started.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    endings.end_with_named_process(ending)
    clock, deadline = RealClock(ending), settings.consumer.cycle_deadline
    offsets = Offsets(settings)
    lake = make_lake(settings, offsets)
    # The session takes longest: open it while the mailbox is.
    Thread(target=_open_early, args=(lake,), name="spark-open", daemon=True).start()
    # It answers from the start: who waits for Kafka is alive, and not ready.
    service: Service | None = None
    endpoint = endpoints.serve(
        settings.consumer.metrics_port,
        endpoints.registry(metrics.METRICS, lambda: service, clock.now),
        lambda: metrics.stuck(service, deadline, clock.now()) if service else "",
        ready=lambda: metrics.unready(service) if service else "waiting for Kafka",
        tell=tell,
    )
    mailbox = None if partitions else _mailbox(settings, consumer, clock, ending)
    service = Service(
        settings.group,
        consumer,
        messages.incarnation(os.environ.get(BIRTH, ""), uuid.uuid4().hex[:12]),
        settings.consumer,
        offsets,
        lake,
        clock,
        mailbox,
        _speeds(settings),
    )
    if reloading is not None:
        reloading.start(lambda new: service.adopt(new.consumer))
    own_spark.keep_archive(settings, lambda: service.vitals.ready, clock)
    try:
        if partitions:
            tell(f"reading {', '.join(map(str, sorted(partitions)))}")
            service.run_by_hand(partitions, ending.is_set)
        else:
            tell(f"consumer {consumer} is waiting for orders")
            service.run(ending.is_set)
    finally:
        for part in (endpoint, mailbox, offsets, lake):
            if part is not None:
                part.close()
    return Outcome(*(getattr(service.vitals, field.name) for field in fields(Outcome)))


def _mailbox(
    settings: Settings, consumer: Consumer, clock: RealClock, ending: Event
) -> ConsumerMailbox:
    """Open the mailbox, and wait for Kafka where it is away."""
    while True:
        try:
            topics.ensure(settings)
            topics.grow(settings, consumer)
            return ConsumerMailbox(settings, consumer)
        except TryAgain as error:
            if ending.is_set():
                raise
            log.warning("%s", error)
            clock.sleep(1.0)


def make_lake(settings: Settings, offsets: Offsets | None = None) -> Lake:
    """Return the tables of these settings; with offsets, Spark rehearses on records of Kafka."""
    return Lake(
        settings,
        connection.spark(settings.kafka),
        lambda: sessions.session(settings.spark.master, settings.spark.configuration),
        SchemaRegistry(settings.registry) if settings.registry.url else None,
        dict if offsets is None else lambda: _records(settings, offsets),
    )


def _records(settings: Settings, offsets: Offsets) -> dict[Topic, dict[TopicPartition, Span]]:
    """Return what there is to read of the topics with the most records."""
    spans: dict[str, dict[TopicPartition, Span]] = {}
    with contextlib.suppress(LaglessError):
        for p, bounds in offsets.bounds(offsets.partitions(settings.of_interest)).items():
            if bounds.end > bounds.earliest:
                spans.setdefault(p.topic, {})[p] = Span(bounds.earliest, bounds.end)
        largest = sorted(spans, key=lambda name: -sum(map(len, spans[name].values())))[:TOPICS]
        known = offsets.topics(largest)
        return {
            known[name][0]: dict(list(spans[name].items())[:PARTITIONS])
            for name in largest
            if name in known
        }
    return {}


def _open_early(lake: Lake) -> None:
    with contextlib.suppress(LaglessError):  # the service asks again, and says what is wrong
        lake.open()


def _speeds(settings: Settings) -> Callable[[], WriteSpeeds | None]:
    latest = LatestSpeeds(settings)
    asked_again = float("-inf")

    def read() -> WriteSpeeds | None:
        nonlocal asked_again
        if time.monotonic() < asked_again:
            return None
        with contextlib.suppress(LaglessError):
            return latest.latest()
        # No monitor: the consumer measures by itself. A missing topic is waited for.
        asked_again = time.monotonic() + WITHOUT_MONITOR
        return None

    return read
