"""A consumer as many write it: confluent-kafka as it is, appending with deltalake.

    python -m lagless.lab.live.rival_consumer --bootstrap … --topic … --group … --table …

It gathers a batch, appends it to the table, then commits its offsets. What it holds of partitions
that are taken away is written and committed before they go; of partitions that were lost it is
dropped. It is held to the same rate as the other groups.
"""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lagless import extras
from lagless.wiring import clock

with extras.needed("kafka"):
    from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
with extras.needed("spark"):
    from deltalake import write_deltalake

SCHEMA = pa.schema(
    [
        *(("topic", pa.string()), ("partition", pa.int32()), ("seq", pa.int64())),
        *(("at", pa.float64()), ("pad", pa.string())),
        *(("_partition", pa.int32()), ("_offset", pa.int64())),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(slots=True)
class Held:
    """Records that are read and not written yet."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    bytes: int = 0

    def take(self, message: Message) -> None:
        """Add a record."""
        value = message.value() or b""
        origin = {"_partition": message.partition(), "_offset": message.offset()}
        stamp = {"_timestamp": message.timestamp()[1] * 1000}
        self.rows.append(json.loads(value) | origin | stamp)
        self.bytes += len(value)

    def drop(self, partitions: set[int]) -> None:
        """Forget the records of partitions."""
        self.rows = [row for row in self.rows if row["_partition"] not in partitions]

    def next_offsets(self) -> dict[int, int]:
        """Return the offset after the last record of each partition."""
        return {row["_partition"]: row["_offset"] + 1 for row in self.rows}

    def clear(self) -> None:
        """Forget all."""
        self.rows, self.bytes = [], 0


def protocol(assignor: str) -> dict[str, Any]:
    """Return the settings of the classic protocol, or of the newer one with a broker's assignor."""
    if assignor:
        return {"group.protocol": "consumer", "group.remote.assignor": assignor}
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    return {"group.protocol": "classic", **strategy, "session.timeout.ms": 45_000}


class Rival:
    """One member of the group."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._held = Held()
        self._consumer = Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "group.id": options.group,
                "client.id": options.client_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
            | protocol(options.assignor)
        )
        self.ending = threading.Event()
        """Set to have `run` end."""
        self.refused = 0
        """Commits of offsets that the group refused: those records will come again."""

    def run(self) -> None:
        """Read and write until told to end; then write what is held, and leave the group."""
        self._consumer.subscribe(
            [self._options.topic], on_revoke=lambda *_: self._write(), on_lost=self._lost
        )
        began = time.monotonic()
        while not self.ending.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    self._held.take(message)
            waited = time.monotonic() - began >= self._options.wait_seconds
            if self._held.bytes >= self._options.batch_bytes or (waited and self._held.rows):
                read = self._held.bytes
                self._write()
                # The same quota as the other groups: what was read takes its time.
                self.ending.wait(read / self._options.max_rate - (time.monotonic() - began))
                began = time.monotonic()
        self._write()
        self._consumer.close()

    def _write(self) -> None:
        """Append what is held in one commit, then tell the group how far it is."""
        if not self._held.rows:
            return
        table = pa.Table.from_pylist(self._held.rows, SCHEMA)
        write_deltalake(self._options.table, table, mode="append")
        ends = self._held.next_offsets()
        self._held.clear()
        try:
            places = [TopicPartition(self._options.topic, p, offset) for p, offset in ends.items()]
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            self.refused += 1
            print(f"offsets were not committed: {error}", file=sys.stderr, flush=True)

    def _lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._held.drop({place.partition for place in places})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a member until SIGTERM."""
    parser = argparse.ArgumentParser("rival_consumer", description=__doc__)
    for name in ("--bootstrap", "--topic", "--group", "--table"):
        parser.add_argument(name, required=True)
    parser.add_argument("--max-rate", type=float, required=True, help="bytes/s")
    parser.add_argument("--assignor", default="", help="of the broker; else cooperative-sticky")
    parser.add_argument("--client-id", default="rival")
    parser.add_argument("--wait-seconds", type=float, default=2.0)
    parser.add_argument("--batch-bytes", type=float, default=5e6)
    rival = Rival(parser.parse_args(arguments))
    clock.on_signals(rival.ending.set, (signal.SIGTERM,))
    rival.run()
    print(json.dumps({"refused": rival.refused}), flush=True)


if __name__ == "__main__":
    main()
