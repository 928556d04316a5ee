"""A consumer as many write it: confluent-kafka with cooperative-sticky, appending with deltalake.

    python -m lagless.live.rival_consumer --bootstrap … --topic … --group … --table …

It gathers a batch, appends it to the table, then commits its offsets. What it holds of partitions
that are taken away is written and committed before they go; of partitions that were lost it is
dropped. It is held to the same rate as the other groups.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lagless import extras

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka import TopicPartition as Place

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("seq", pa.int64()),
        ("at", pa.float64()),
        ("pad", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(slots=True)
class Held:
    """Records that are read and not written yet."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    bytes: int = 0

    def take(self, message: "Message") -> None:
        """Add a record."""
        value = message.value() or b""
        row = json.loads(value)
        row |= {
            "_partition": message.partition(),
            "_offset": message.offset(),
            "_timestamp": message.timestamp()[1] * 1000,
        }
        self.rows.append(row)
        self.bytes += len(value)

    def drop(self, partitions: set[int]) -> None:
        """Forget the records of partitions."""
        self.rows = [row for row in self.rows if row["_partition"] not in partitions]

    def next_offsets(self) -> dict[int, int]:
        """Give the offset after the last record of each partition."""
        ends: dict[int, int] = {}
        for row in self.rows:
            ends[row["_partition"]] = max(ends.get(row["_partition"], 0), row["_offset"] + 1)
        return ends

    def clear(self) -> None:
        """Forget all."""
        self.rows, self.bytes = [], 0


class Rival:
    """One member of the group."""

    def __init__(self, given: argparse.Namespace) -> None:
        with extras.needed("kafka"):
            from confluent_kafka import Consumer
        self._given = given
        self._held = Held()
        self._consumer: Consumer = Consumer(
            {
                "bootstrap.servers": given.bootstrap,
                "group.id": given.group,
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 45_000,
                "isolation.level": "read_committed",
            }
        )
        self.ending = False
        self.refused = 0
        """Commits of offsets that the group refused: those records will come again."""

    def run(self) -> None:
        """Read and write until told to end; then write what is held, and leave the group."""
        self._consumer.subscribe([self._given.topic], on_revoke=self._revoked, on_lost=self._lost)
        began = time.monotonic()
        while not self.ending:
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    self._held.take(message)
            waited = time.monotonic() - began >= self._given.wait_seconds
            if self._held.bytes >= self._given.batch_bytes or (waited and self._held.rows):
                read = self._held.bytes
                self._write()
                # The same quota as the other groups: what was read takes its time.
                self._rest(read / self._given.max_rate - (time.monotonic() - began))
                began = time.monotonic()
        self._write()
        self._consumer.close()

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.ending and time.monotonic() < until:
            time.sleep(min(0.1, max(0.0, until - time.monotonic())))

    def _write(self) -> None:
        """Append what is held in one commit, then tell the group how far it is."""
        if not self._held.rows:
            return
        with extras.needed("spark"):
            from deltalake import write_deltalake
        with extras.needed("kafka"):
            from confluent_kafka import KafkaException
            from confluent_kafka import TopicPartition as Place
        table = pa.Table.from_pylist(self._held.rows, SCHEMA)
        write_deltalake(self._given.table, table, mode="append")
        ends = self._held.next_offsets()
        self._held.clear()
        try:
            places = [Place(self._given.topic, p, offset) for p, offset in ends.items()]
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            self.refused += 1
            print(f"offsets were not committed: {error}", file=sys.stderr, flush=True)

    def _revoked(self, consumer: "Consumer", places: "list[Place]") -> None:
        self._write()

    def _lost(self, consumer: "Consumer", places: "list[Place]") -> None:
        self._held.drop({place.partition for place in places})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a member until SIGTERM."""
    parser = argparse.ArgumentParser("rival_consumer", description=__doc__)
    for name in ("--bootstrap", "--topic", "--group", "--table"):
        parser.add_argument(name, required=True)
    parser.add_argument("--max-rate", type=float, required=True, help="bytes/s")
    parser.add_argument("--wait-seconds", type=float, default=2.0)
    parser.add_argument("--batch-bytes", type=float, default=5e6)
    rival = Rival(parser.parse_args(arguments))

    def end(*_: object) -> None:
        rival.ending = True

    signal.signal(signal.SIGTERM, end)
    rival.run()
    print(json.dumps({"refused": rival.refused}), flush=True)


if __name__ == "__main__":
    main()
