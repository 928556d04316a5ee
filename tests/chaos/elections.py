"""Leaders of partitions that change, in a cluster of several brokers.

The broker that leads a partition hands it over, ends in order, is killed, or hangs for longer than
the cluster waits for it and then goes on as if it still led. Each time every client has to find the
new leader, in the middle of whatever it is reading or writing.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from lagless.lab.parts.brokers import Brokers
from lagless.lab.testbed import Testbed

KINDS = ("election",)
WAYS = ("move", "stop", "kill", "hang")
LONGEST_HANG = 10.0
"""Seconds that a broker hangs at most; Kafka takes it for gone after four."""


class Elections:
    """The elections of a fault run."""

    def __init__(self, brokers: Brokers, topics: Mapping[str, int], seed: int) -> None:
        self._brokers = brokers
        self._places = [(topic, n) for topic, count in topics.items() for n in range(count)]
        self._random = random.Random(seed)
        self._ways: list[str] = []
        self.done: Counter[str] = Counter()

    def hold(self, wait: Callable[[float], object]) -> str:
        """Take a partition from its leader, and return what was done.

        All brokers run again afterwards.
        """
        if not self._ways:
            self._ways = self._random.sample(WAYS, len(WAYS))
        way = self._ways.pop()
        topic, partition = self._random.choice(self._places)
        leader = self._brokers.leader(topic, partition)
        if way == "move" or leader not in self._brokers.members:
            way = "move"
            others = sorted(self._brokers.members.keys() - {leader})
            self._brokers.move(topic, partition, self._random.choice(others))
        else:
            self._fail(way, leader, wait)
        self.done[way] += 1
        return f"election by {way} of broker {leader}"

    def _fail(self, way: str, number: int, wait: Callable[[float], object]) -> None:
        broker = self._brokers.members[number]
        if way == "hang":
            broker.pause()
            wait(self._random.uniform(1.0, LONGEST_HANG))
            broker.resume()
            return
        if way == "kill":
            broker.kill()
        else:
            broker.stop()
        wait(self._random.uniform(0.0, 5.0))
        broker.start()

    def report(self) -> dict[str, Any]:
        """Return the fields of a fault run's report."""
        return {"elections": dict(self.done)}


def of(bed: Testbed, topics: Mapping[str, int], seed: int) -> Elections | None:
    """Return the elections of a testbed; None if it has one broker."""
    return Elections(bed.broker, topics, seed) if isinstance(bed.broker, Brokers) else None
