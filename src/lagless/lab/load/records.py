"""Records of the load, and what Kafka holds of them.

A record is JSON that says where and when it was produced, padded to a size. Its `seq` grows by one
within its partition, so the first and the last record of a log tell what it holds.
"""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from lagless import extras
from lagless.errors import GiveUp, WrongInput
from lagless.lab.load.account import Tally
from lagless.messages import unnest
from lagless.model import TopicPartition

with extras.needed("kafka"):
    import confluent_kafka as kafka
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

SCHEMA = "topic string, partition int, seq bigint, at double, pad string"
"""The records' schema, as Spark takes it; `at` is in seconds since 1970."""

OVERHEAD = 10
"""Bytes that Kafka's log adds to a record of this kind."""

SMALLEST, LARGEST = 100, 900_000
"""Bytes of a value: room for what it says, and what brokers take by default."""

Kind: TypeAlias = Literal["fixed", "uniform", "lognormal"]

_POOL = 1 << 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large values are, in bytes.

    `spread` is, for uniform, how far from the mean as a fraction of it; for lognormal, the σ of
    the logarithm.
    """

    kind: Kind = "fixed"
    mean: int = 500
    spread: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "uniform", "lognormal"):
            raise WrongInput(f"sizes are fixed, uniform or lognormal, not {self.kind!r}")
        if not SMALLEST <= self.mean <= LARGEST:
            raise WrongInput(
                f"records are {SMALLEST} to {LARGEST} bytes large on average, not {self.mean}"
            )
        if not self.spread >= 0 or (self.kind == "uniform" and self.spread > 1):
            raise WrongInput(f"the spread of sizes is 0 or more (uniform: to 1), not {self.spread}")

    def draw(self, rng: np.random.Generator, count: int = 4096) -> list[int]:
        """Draw sizes, kept within what a record needs and a broker takes."""
        match self.kind:
            case "fixed":
                drawn = np.full(count, float(self.mean))
            case "uniform":
                drawn = self.mean * rng.uniform(1 - self.spread, 1 + self.spread, count)
            case "lognormal":
                # exp(μ + σ²/2) is the mean of a lognormal distribution.
                drawn = rng.lognormal(np.log(self.mean) - self.spread**2 / 2, self.spread, count)
        return [int(size) for size in np.clip(np.rint(drawn), SMALLEST, LARGEST)]


class Press:
    """Prints the values of one partition; everything but the numbers is prepared."""

    def __init__(self, partition: TopicPartition, sizes: list[int], pool: bytes) -> None:
        head = f'{{"topic":"{partition.topic}","partition":{partition.partition},"seq":'
        self._form = head.encode() + b'%d,"at":%b,"pad":"%b"}'
        self._fixed = len(self._form) - len("%d%b%b")
        self._sizes = sizes
        self._pool = pool

    def print(
        self, first: int, budget: float, at: float, spoil_every: int = 0
    ) -> tuple[list[bytes], float]:
        """Print values from a sequence number on while the budget lasts; return what is left.

        With `spoil_every` n, each n-th value is cut off in the middle, so that it is not JSON.
        """
        values: list[bytes] = []
        form, sizes, pool, count = self._form, self._sizes, self._pool, len(self._sizes)
        time = b"%.3f" % at
        fixed = self._fixed + len(time)
        seq = first
        while True:
            size = sizes[seq % count]
            if budget < size + OVERHEAD:
                return values, budget
            budget -= size + OVERHEAD
            start = seq * 61 % _POOL
            value = form % (seq, time, pool[start : start + size - fixed - len(str(seq))])
            if spoil_every and seq % spoil_every == spoil_every - 1:
                value = value[: len(value) // 2]
            values.append(value)
            seq += 1


def pool(sizes: list[int], rng: np.random.Generator) -> bytes:
    """Return letters to pad with, enough for the largest record at any start."""
    letters = np.frombuffer(
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", "u1"
    )
    return letters[rng.integers(0, len(letters), _POOL + max(sizes))].tobytes()


SEQ = re.compile(rb'"seq":(\d+)')
"""Found even in a record that was spoiled."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a partition holds: numbers of its first and last record; both -1 if it is empty."""

    records: int
    first: int = -1
    last: int = -1


def make_topics(
    bootstrap: str, topics: Mapping[str, int], client: Mapping[str, Any] = {}, replicas: int = 1
) -> None:
    """Make the topics that are missing; one with too few partitions is an error."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4, **client})
    known = admin.list_topics(timeout=30).topics
    new = [NewTopic(name, count, replicas) for name, count in topics.items() if name not in known]
    for name, made in (admin.create_topics(new) if new else {}).items():
        try:
            made.result(30)
        except kafka.KafkaException as error:
            if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                why = error.args[0].str()
                raise GiveUp(f"topic {name} could not be created ({why})") from error
    for name, count in topics.items():
        if name in known and len(known[name].partitions) < count:
            raise WrongInput(
                f"the topic {name} has {len(known[name].partitions)} partitions, "
                f"and the load writes to {count}: delete it or take another name"
            )


def look(
    bootstrap: str, partitions: Iterable[TopicPartition], client: Mapping[str, Any] = {}
) -> dict[TopicPartition, Held]:
    """Return what each partition holds, from its first and last record."""
    config = {"group.id": "lagless.holdings", "enable.auto.commit": False, "log_level": 4}
    consumer = kafka.Consumer({"bootstrap.servers": bootstrap, **config, **client})
    try:
        held = {}
        for partition in partitions:
            low, high = _ends(consumer, partition)
            ends = (low, high - 1) if high > low else ()
            numbers = [_number(consumer, partition, offset) for offset in ends]
            held[partition] = Held(high - low, *numbers)
        return held
    finally:
        consumer.close()


def compare(bootstrap: str, tally: Tally) -> dict[TopicPartition, str]:
    """Return the partitions that do not hold what the tally says, and how they differ."""
    produced = unnest(tally.produced)
    wrong = {}
    for partition, held in look(bootstrap, produced).items():
        if held.last + 1 != produced[partition]:
            wrong[partition] = f"produced {produced[partition]}, and the last is {held.last}"
        elif held.records and held.records != held.last - held.first + 1:
            wrong[partition] = f"{held.records} records from {held.first} to {held.last}"
    return wrong


def _ends(consumer: Any, partition: TopicPartition) -> tuple[int, int]:
    there = kafka.TopicPartition(partition.topic, partition.partition)
    until = time.monotonic() + 30
    while True:
        try:
            low, high = consumer.get_watermark_offsets(there, timeout=30)
            return low, high
        except kafka.KafkaException as error:
            # A topic that was just made has no leader for a moment.
            if time.monotonic() > until:
                why = error.args[0].str()
                raise GiveUp(f"the ends of {partition} cannot be read ({why})") from error
            time.sleep(0.05)


def _number(consumer: Any, partition: TopicPartition, offset: int) -> int:
    consumer.assign([kafka.TopicPartition(partition.topic, partition.partition, offset)])
    message = consumer.poll(30)
    if message is None or message.error():
        raise GiveUp(f"the record at offset {offset} of {partition} cannot be read")
    found = SEQ.search(message.value() or b"")
    if found is None:
        raise WrongInput(
            f"the record at offset {offset} of {partition} is not a load's: take another topic"
        )
    return int(found[1])
