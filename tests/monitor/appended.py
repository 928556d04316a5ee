"""Load at known rates, and the bytes that the broker really appended.

A log keeps its deleted segments for `file.delete.delay.ms`, so the truth is on the broker's disk:
what all segments hold, deleted ones included.
"""

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from lagless.messages import WriteSpeeds
from lagless.monitor.service import Monitor

KEEP_DELETED = {"file.delete.delay.ms": "3600000"}
RECORD = 500
Rate = Callable[[float], float]
"""Bytes per second wanted, by seconds since the start."""


def steady(rate: float) -> Rate:
    """Write always alike."""
    return lambda _: rate


def step(before: float, after: float, at: float) -> Rate:
    """Write at one rate, then at another."""
    return lambda seconds: before if seconds < at else after


def spike(low: float, high: float, begin: float, end: float) -> Rate:
    """Write more for a while."""
    return lambda seconds: high if begin <= seconds < end else low


@dataclass
class Truth:
    """Samples of the bytes on disk of one partition."""

    folder: Path
    times: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def sample(self) -> bool:
        """Note how much was ever appended; say whether that worked."""
        began = time.time()
        try:
            # By segment: one that is just being renamed may be met under both names.
            with os.scandir(self.folder) as entries:
                segments = {
                    entry.name.partition(".")[0]: entry.stat().st_size
                    for entry in entries
                    if entry.name.endswith((".log", ".log.deleted"))
                }
        except FileNotFoundError:
            return False  # not there yet, or renamed under our eyes: the next sample has it
        now = time.time()
        if now - began > 0.05:
            return False  # nobody knows when it was so
        self.times.append((began + now) / 2)
        # Or under neither.
        self.sizes.append(max(sum(segments.values()), self.sizes[-1] if self.sizes else 0))
        return True

    def speed(self, until: float, seconds: float) -> float:
        """Return the true speed over the seconds before a time."""
        return (self._at(until) - self._at(until - seconds)) / seconds

    def _at(self, moment: float) -> float:
        i = min(max(bisect_left(self.times, moment), 1), len(self.times) - 1)
        (t0, t1), (s0, s1) = self.times[i - 1 : i + 1], self.sizes[i - 1 : i + 1]
        return s0 + (s1 - s0) * (moment - t0) / (t1 - t0)


class Load:
    """Write to partition 0 of topics, each at its own rate, until left."""

    def __init__(self, bootstrap: str, rates: dict[str, Rate], codecs: dict[str, str]) -> None:
        self._rates = rates
        self._producers = {
            codec: Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "compression.type": codec,
                    "linger.ms": 50,
                    "queue.buffering.max.messages": 1_000_000,
                }
            )
            for codec in set(codecs.values())
        }
        self._codecs = codecs
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        # Text like that of records: half random, so that lz4 has something to do.
        self._values = [
            (os.urandom(RECORD // 4).hex() + "x" * RECORD)[:RECORD].encode() for _ in range(500)
        ]

    def _run(self) -> None:
        began = time.time()
        owed = dict.fromkeys(self._rates, 0.0)
        last, number = began, 0
        while not self._ending.wait(0.02):
            now = time.time()
            for topic, rate in self._rates.items():
                owed[topic] += rate(now - began) * (now - last)
                producer = self._producers[self._codecs[topic]]
                while owed[topic] > 0:
                    try:
                        producer.produce(topic, self._values[number % 500], partition=0)
                    except BufferError:
                        break
                    owed[topic] -= RECORD
                    number += 1
            last = now
            for producer in self._producers.values():
                producer.poll(0)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        for producer in self._producers.values():
            producer.flush(10)


class Kept:
    """Keep what is published."""

    def __init__(self) -> None:
        self.messages: list[WriteSpeeds] = []

    def publish(self, speeds: WriteSpeeds) -> None:
        """Keep it."""
        self.messages.append(speeds)


def watch(
    monitor: Monitor, ending: threading.Event, truths: Iterable[Truth], load: Load, seconds: float
) -> float:
    """Let the monitor measure a load while the truth is taken too; return when that began."""

    def sample() -> None:
        while not ending.wait(0.05):
            for truth in truths:
                truth.sample()

    threads = [
        threading.Thread(target=sample),
        threading.Thread(target=monitor.run, args=(ending.is_set,)),
    ]
    with load:
        for thread in threads:
            thread.start()
        began = time.time()
        time.sleep(seconds)
    ending.set()
    for thread in threads:
        thread.join()
    return began
