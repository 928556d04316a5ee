"""A consumer on real parts."""

import contextlib
import logging
import os
import sys
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from lagless import extras, messages
from lagless.consumer.service import Service
from lagless.errors import LaglessError, TryAgain
from lagless.messages import WriteSpeeds
from lagless.model import Consumer, TopicPartition
from lagless.settings import Settings
from lagless.wiring import bonds
from lagless.wiring.clocks import RealClock

with extras.needed("kafka"):
    from lagless.adapters import metrics
    from lagless.adapters.kafka import connection, topics
    from lagless.adapters.kafka.mailbox import ConsumerMailbox
    from lagless.adapters.kafka.partitions import Offsets
    from lagless.adapters.kafka.speeds import LatestSpeeds
with extras.needed("spark"):
    from lagless.adapters.lake.lake import Lake
from lagless.embedded import sessions

log = logging.getLogger("lagless.consumer")
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
) -> Outcome:
    """Run a consumer until `ending` is set or it is retired; with `partitions`, by hand."""
    # A user's transform is looked for where the command was started.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    bonds.end_with(ending)
    clock = RealClock(ending)
    offsets = Offsets(settings)
    lake = make_lake(settings)
    # The session takes longest: open it while the mailbox is.
    Thread(target=_open_early, args=(lake,), name="spark-open", daemon=True).start()
    # It answers from the start: who waits for Kafka is alive, and not ready.
    made: list[Service] = []
    endpoint = None
    if settings.consumer.metrics_port is not None:
        endpoint = metrics.serve(
            settings.consumer.metrics_port,
            metrics.registry(lambda: families(made[0], clock.now()) if made else ()),
            lambda: stuck(made[0], settings, clock.now()) if made else "",
            ready=lambda: unready(made[0]) if made else "it waits for Kafka",
        )
        tell(f"metrics and health on port {endpoint.port}")
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
    made.append(service)
    try:
        if partitions:
            tell(f"reading {', '.join(map(str, sorted(partitions)))}")
            service.run_by_hand(partitions, ending.is_set)
        else:
            tell(f"consumer {consumer} waits for orders")
            service.run(ending.is_set)
    finally:
        if endpoint is not None:
            endpoint.close()
        if mailbox is not None:
            mailbox.close()
        offsets.close()
        lake.close()
    vitals = service.vitals
    return Outcome(
        vitals.cycles,
        vitals.records,
        vitals.rejected,
        vitals.unknown_fields,
        vitals.gone,
        vitals.bytes,
    )


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


def make_lake(settings: Settings) -> Lake:
    """Give the tables of these settings."""
    return Lake(
        settings,
        connection.spark(settings.kafka),
        lambda: sessions.session(settings.spark.url, settings.spark.conf),
    )


def _open_early(lake: Lake) -> None:
    with contextlib.suppress(LaglessError):  # the service asks again, and says what is wrong
        lake.open()


def _speeds(settings: Settings) -> Callable[[], WriteSpeeds | None]:
    latest = LatestSpeeds(settings)

    def read() -> WriteSpeeds | None:
        try:
            return latest.latest()
        except LaglessError:
            return None  # no monitor: the consumer measures by itself

    return read


def unready(service: Service) -> str:
    """Say why the consumer is not ready; "" if it is: warmed up, once and for all."""
    vitals = service.vitals
    return "" if vitals.ready else vitals.trouble or "it is warming up"


def stuck(service: Service, settings: Settings, now: float) -> str:
    """Say why only a new start can help; "" if it need not.

    Trouble that passes, Spark or Kafka away, is no reason: a new start would have it too.
    """
    began = service.vitals.cycle_began
    if began is not None and now - began > 2 * settings.consumer.cycle_deadline:
        return f"the cycle has not ended for {now - began:.0f} s"
    return ""


def families(service: Service, now: float) -> Iterator[metrics.Family]:
    """Give the metrics of the consumer."""
    vitals = service.vitals
    for name, words, value in (
        ("bytes_per_second", "Log bytes read per second.", vitals.rate(now)),
        ("cycle_seconds", "Seconds of the last cycle.", vitals.cycle_seconds),
        ("lag_bytes", "Log bytes not yet read.", vitals.lag_bytes),
        ("lag_records", "Records not yet read.", vitals.lag_records),
        ("lag_seconds", "Age of the oldest record not yet read.", vitals.lag_seconds),
        ("partitions", "Partitions held.", len(service.state.held)),
    ):
        yield metrics.Family(f"lagless_consumer_{name}", words, {(): value})
    for name, words, value in (
        ("cycles", "Cycles ended.", vitals.cycles),
        ("records", "Records read.", vitals.records),
        ("rejected", "Records rejected.", vitals.rejected),
        ("unknown_fields", "Fields that the schema does not name.", vitals.unknown_fields),
        ("gone", "Offsets that Kafka deleted before they were read.", vitals.gone),
        ("bytes", "Log bytes read.", vitals.bytes),
    ):
        yield metrics.Family(f"lagless_consumer_{name}", words, {(): value}, kind="counter")
