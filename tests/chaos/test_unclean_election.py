"""An unclean leader election: Kafka loses records that were read, and puts others in their place.

Three topics lose records in one election. In each, the table is then ten offsets past the end of
the log, until new records are produced: as many as hide the loss, or fewer.
"""

import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagless.errors import GiveUp, TryAgain
from lagless.lab.parts.brokers import Brokers
from lagless.lab.testbed import toml
from tests.lake.bench import Bench
from tests.waiting import until

if TYPE_CHECKING:
    from lagless.lab.parts.connect import ConnectServer

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(900),
]
KEPT = 20
"""Records that every broker has; the next ones only the leader, which is killed."""
LOST = 10
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


class Reader:
    """A consumer's cycles on a topic with one partition, and the records in it."""

    def __init__(self, brokers: Brokers, spark: str, folder: Path) -> None:
        self.topic = f"orders-{uuid.uuid4().hex[:8]}"
        self.folder = folder
        self.made = 0
        self._brokers = brokers
        self._spark = spark
        new = NewTopic(self.topic, 1, replica_assignment=[[1, 2, 3]], config=UNCLEAN)
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
        admin.create_topics([new])[self.topic].result(60)
        self.restart()
        tree = {
            "group": self.bench.settings.group,
            "topics": [self.topic],
            "kafka": {"bootstrap": brokers.bootstrap},
            "spark": {"url": spark},
            "lake": {"path": str(folder)},
            "topic": {self.topic: {"format": "json", "schema": "n BIGINT"}},
        }
        (folder / "lagless.toml").write_text(toml(tree))

    def restart(self) -> None:
        """Begin with a consumer that remembers nothing."""
        settings = {"format": "json", "schema": "n BIGINT"}
        servers = self._brokers.bootstrap
        self.bench = Bench(servers, self._spark, self.folder, "shop", self.topic, settings)

    def produce(self, count: int) -> None:
        """Produce numbers that were not there before; the leader alone confirms them."""
        producer = Producer({"bootstrap.servers": self._brokers.bootstrap, "acks": "1"})
        for n in range(self.made, self.made + count):
            producer.produce(self.topic, json.dumps({"n": n}), partition=0)
        assert producer.flush(120) == 0
        self.made += count

    def read(self, total: int) -> None:
        """Run cycles until the table has so many rows."""

        def there() -> bool:
            try:
                self._cycle()
            except TryAgain as error:
                print(error)
            return len(self.bench.rows()) >= total

        until(there, f"{total} rows", 300)

    def trouble(self) -> GiveUp:
        """Run cycles until one gives up, and return why."""

        def error() -> GiveUp | None:
            try:
                self._cycle()
            except GiveUp as error:
                return error
            except TryAgain as error:
                print(error)
            return None

        return until(error, "a cycle that gives up", 300)

    def _cycle(self) -> None:
        for error in self.bench.run().troubles.values():
            raise error

    def numbers(self) -> Counter[int]:
        """Return how often each number is in the table."""
        return Counter(row["n"] for row in self.bench.rows())

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run lagless with this group's settings."""
        command = [sys.executable, "-m", "lagless", *words]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )


@pytest.fixture(scope="module")
def readers(
    tmp_path_factory: pytest.TempPathFactory, connect: "ConnectServer"
) -> Iterator[Sequence[Reader]]:
    """Let three topics lose records that are in the lake."""
    with Brokers() as brokers:
        folders = [tmp_path_factory.mktemp(name) for name in ("short", "overtaken", "restarted")]
        made = [Reader(brokers, connect.url, folder) for folder in folders]
        for reader in made:
            reader.produce(KEPT)
            reader.read(KEPT)
            brokers.settle(reader.topic, 0)

        def read_what_will_be_lost() -> None:
            for reader in made:
                reader.produce(LOST)
                reader.read(KEPT + LOST)

        assert brokers.leader(made[0].topic, 0) == 1
        brokers.lose(made[0].topic, 0, read_what_will_be_lost)
        for reader in made:
            brokers.settle(reader.topic, 0)
        yield made


def named(reader: Reader) -> str:
    """Find the loss named, and the rows as they were; return the command that is to be run."""
    sentence = str(reader.trouble())
    assert f"{reader.topic}:0: the table is at offset {KEPT + LOST}, " in sentence
    assert f"from offset {KEPT} on" in sentence
    assert sentence.endswith(f"--topic {reader.topic} --partitions 0 --to {KEPT}")
    assert reader.numbers() == Counter(range(KEPT + LOST))
    return sentence.partition("run lagless ")[2]


def recovered(reader: Reader, command: str) -> None:
    """Do what the page says, and find each record once: those that Kafka lost, and its new ones."""
    done = reader.command(*command.split(), "--rows", "keep")
    assert done.returncode == 0, done.stderr
    reader.produce(LOST)
    reader.restart()
    reader.read(reader.made)
    assert reader.numbers() == Counter(range(reader.made))


def test_a_log_that_ends_before_the_table_is_named(readers: Sequence[Reader]) -> None:
    reader = readers[0]
    named(reader)
    reader.produce(LOST // 2)
    command = named(reader)
    done = reader.command("consumer", "1", "--assign", f"{reader.topic}:0")
    assert done.returncode == 1
    assert f"offset {KEPT + LOST}" in done.stderr
    recovered(reader, command)


def test_a_loss_that_new_records_hide_is_named(readers: Sequence[Reader]) -> None:
    reader = readers[1]
    reader.produce(LOST + 5)
    recovered(reader, named(reader))


def test_a_loss_is_named_by_a_consumer_that_starts_later(readers: Sequence[Reader]) -> None:
    reader = readers[2]
    reader.produce(LOST + 5)
    reader.restart()
    recovered(reader, named(reader))
