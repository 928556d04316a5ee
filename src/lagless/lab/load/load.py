"""A load on Kafka: many partitions, each at its own speed, and an exact account of it.

Rules
1. Each partition's records are numbered 0, 1, 2, … in the order of the log, without gaps: the
   producer is idempotent, never gives a record up, and is never handed more than it has room for.
2. What the broker confirmed is counted, nothing else.
3. A load that starts on topics with records goes on after the last number that Kafka holds.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from lagless import extras
from lagless.errors import GiveUp, LaglessError, WrongInput
from lagless.lab.load import flows, records
from lagless.lab.load.account import Tally
from lagless.lab.load.flows import Flow
from lagless.lab.load.records import OVERHEAD, Press, Sizes, pool
from lagless.messages import nest
from lagless.model import TopicPartition
from lagless.wiring import clock

with extras.needed("kafka"):
    from confluent_kafka import KafkaError, Message, Producer

__all__ = ["Load", "Sizes", "Tally"]

TICK = 0.05
"""Seconds from one helping to the next."""
ROOM = 64 << 20
"""Bytes that may wait for the broker's word."""
DEBT = 5.0
"""Seconds of production that are made up for after a pause; what is older is left out."""


@dataclass(eq=False, slots=True)
class _Lane:
    """One partition: what was handed over and confirmed, and what it is still due."""

    partition: TopicPartition
    press: Press
    handed: int
    confirmed: int
    due: float = 0.0


class Load:
    """A load that runs in a thread between entering and leaving, or until `run` returns."""

    def __init__(
        self,
        bootstrap: str,
        flow: Flow,
        *,
        sizes: Sizes | None = None,
        compression: str = "none",
        seed: int = 0,
        tally: Path | None = None,
        spoil_every: int = 0,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._flow = flow
        self._sizes = sizes or Sizes()
        self._compression = compression
        self._seed = seed
        self._file = tally
        self._spoil_every = spoil_every
        self._client = dict(client or {})
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._lanes: list[_Lane] = []
        self._largest = 0
        self._waiting = 0
        self._bytes = 0
        self._failed = 0
        self._reason = ""
        self._began = time.monotonic()
        self._ended: float | None = None
        self._ready = threading.Event()

    def tally(self) -> Tally:
        """Return what was produced so far."""
        produced = nest({lane.partition: lane.confirmed for lane in self._lanes})
        handed = nest({lane.partition: lane.handed for lane in self._lanes})
        every = self._spoil_every
        return Tally(
            produced=produced,
            handed=handed,
            bytes=self._bytes,
            seconds=(self._ended or time.monotonic()) - self._began,
            failed=self._failed,
            spoiled=sum(lane.confirmed // every for lane in self._lanes) if every else 0,
            complete=self._ended is not None and produced == handed and not self._failed,
        )

    def run(self, seconds: float | None = None) -> Tally:
        """Produce for so many seconds, or until stopped; return when all is confirmed."""
        self._prepare()
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                # Retry for ever: a broker that is down comes back.
                "message.timeout.ms": 0,
                "linger.ms": 10,
                "batch.size": 1 << 20,
                "compression.type": self._compression,
                # Twice the room that is used: librdkafka never has to refuse.
                "queue.buffering.max.kbytes": 2 * ROOM >> 10,
                "queue.buffering.max.messages": 10_000_000,
                "log_level": 0,
                **self._client,
            }
        )
        self._began = last = saved = time.monotonic()
        self._ready.set()
        until = self._began + seconds if seconds is not None else float("inf")
        try:
            while not self._stop.is_set() and last < until:
                now = min(time.monotonic(), until)
                self._help(producer, self._flow.at(last - self._began), now - last)
                last = now
                producer.poll(0)
                if self._file is not None and now - saved > 1:
                    self.tally().save(self._file)
                    saved = now
                self._stop.wait(max(0.0, min(now + TICK, until) - time.monotonic()))
            while len(producer):
                producer.flush(1.0)
                self._check()
            self._ended = time.monotonic()
        finally:
            if self._file is not None:
                self.tally().save(self._file)
        self._check()
        return self.tally()

    def start(self) -> Self:
        """Produce in a thread; return when the topics are there and production begins."""
        self._thread = threading.Thread(target=self._work, name="load", daemon=True)
        self._thread.start()
        while not self._ready.wait(0.1) and self._thread.is_alive():
            pass
        if self._error is not None:
            raise self._error
        return self

    def ask_to_stop(self) -> None:
        """Have `run` end soon; this may be called from a signal handler."""
        self._stop.set()

    def stop(self) -> Tally:
        """Stop, wait until all is confirmed, and return what was produced."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self.tally()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # The error that ends the block matters more than one of the load.
        with nullcontext() if error is None else suppress(Exception):
            self.stop()

    def _work(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self._error = error

    def _prepare(self) -> None:
        """Make the topics that are missing, and find where each partition's numbers go on."""
        records.make_topics(self._bootstrap, self._flow.topics, self._client)
        rng = np.random.default_rng(self._seed)
        sizes = self._sizes.draw(rng)
        self._largest = max(sizes) + OVERHEAD
        padding = pool(sizes, rng)
        file = self._file
        earlier = Tally.load(file) if file is not None and file.exists() else Tally()
        held = records.look(self._bootstrap, self._flow.partitions, self._client)
        self._lanes = []
        for partition in self._flow.partitions:
            # Kafka may have deleted what the tally still knows.
            known = earlier.produced.get(partition.topic, {}).get(partition.partition, 0)
            first = max(held[partition].last + 1, known)
            press = Press(partition, sizes, padding)
            self._lanes.append(_Lane(partition, press, handed=first, confirmed=first))

    def _help(self, producer: Any, speeds: Any, seconds: float) -> None:
        """Hand over what became due within the seconds."""
        at = time.time()
        for lane, speed in zip(self._lanes, speeds.tolist(), strict=True):
            most = max(speed * DEBT, self._largest, lane.due)
            lane.due = min(lane.due + speed * seconds, most)
            if self._waiting >= ROOM:
                producer.poll(0.01)
                self._check()
                continue
            budget = min(lane.due, float(ROOM - self._waiting))
            values, left = lane.press.print(lane.handed, budget, at, self._spoil_every)
            lane.due -= budget - left
            if not values:
                continue
            size = sum(map(len, values))
            queued = producer.produce_batch(
                lane.partition.topic,
                [{"value": value} for value in values],
                partition=lane.partition.partition,
                on_delivery=partial(self._confirm, lane),
            )
            if queued != len(values):
                raise GiveUp(
                    f"Kafka's client took {queued} of {len(values)} records for {lane.partition}: "
                    "the load's account would not be exact"
                )
            lane.handed += len(values)
            self._waiting += size + OVERHEAD * len(values)

    def _confirm(self, lane: _Lane, error: KafkaError | None, message: Message) -> None:
        size = len(message) + OVERHEAD
        self._waiting -= size
        if error is None:
            lane.confirmed += 1
            self._bytes += size
        else:
            self._failed += 1
            self._reason = str(error)

    def _check(self) -> None:
        if self._failed:
            raise GiveUp(f"Kafka gave up {self._failed} records of the load ({self._reason})")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a load until its time is up or SIGTERM, and print its tally as JSON."""
    try:
        options = _parser().parse_args(arguments)
        load = Load(
            options.bootstrap,
            flows.replay(options.file, options.step),
            sizes=_sizes(options.sizes),
            compression=options.compression,
            seed=options.seed,
            tally=options.tally,
            spoil_every=options.spoil_every,
        )
        clock.on_signals(load.ask_to_stop)
        print(json.dumps(load.run(options.seconds).report()), flush=True)
    except LaglessError as error:
        print(f"lagless: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, WrongInput) else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m lagless.lab.load.load", description=main.__doc__)
    add = parser.add_argument
    add("--bootstrap", required=True, metavar="HOST:PORT")
    add("--file", type=Path, required=True, help="CSV of bytes/s, with TOPIC:NUMBER in the header")
    add("--step", type=float, default=1.0, help="seconds of a row of the file")
    add("--sizes", default="fixed:500", metavar="KIND:MEAN[:SPREAD]", help="of records, in bytes")
    add("--compression", default="none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    add("--seed", type=int, default=0)
    add("--seconds", type=float, help="until SIGTERM if omitted")
    add("--tally", type=Path, help="file that says, every second, what was produced")
    add("--spoil-every", type=int, default=0, metavar="N", help="break each N-th record")
    return parser


def _sizes(text: str) -> Sizes:
    kind, *numbers = text.split(":")
    try:
        mean, *spread = map(float, numbers)
        return Sizes(kind, int(mean), *spread)  # type: ignore[arg-type]  # Sizes checks the kind
    except WrongInput:
        raise
    except (ValueError, TypeError) as error:
        raise WrongInput(f"--sizes takes KIND:MEAN[:SPREAD], not {text!r}") from error


if __name__ == "__main__":
    main()
