"""How fast the controller answers, and what it costs at 10,000 partitions and 500 consumers.

    python -m benchmarks.controller            everything in memory
    python -m benchmarks.controller --kafka    Δt2 also through an embedded broker

Δt2 is the time from reading a measurement to the request for new consumers, median of the runs.
CPU is that of the controller alone, per second of the world's time.
"""

import argparse
import json
import logging
import resource
import statistics
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lagless import messages
from lagless.controller.service import Service
from lagless.controller.state import Policy
from lagless.lab.world.world import Pace, World
from lagless.messages import ControllerState, Message, Order, WriteSpeeds
from lagless.model import Consumer, TopicPartition
from lagless.ports import ControllerMailbox, Instance, Post
from lagless.settings import parse
from lagless.wiring import controller as wiring
from lagless.wiring.clock import RealClock

CAPACITY = 1e6


class Requests:
    """A provisioner that only notes when it was asked."""

    def __init__(self) -> None:
        self.at: float | None = None
        self.count = 0

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        """Note the request."""
        self.at, self.count = time.perf_counter(), len(consumers)
        return {}

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        """Do nothing."""

    def instances(self) -> Sequence[Instance]:
        """Know nobody."""
        return []


class Mail:
    """A mailbox in memory that holds one measurement back until told."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.found = partitions
        self.speeds: WriteSpeeds | None = None

    def lead(self) -> ControllerState | None:
        """Lead at once."""
        return None

    def receive(self, timeout: float) -> Post:
        """Return the measurement, once."""
        speeds, self.speeds = self.speeds, None
        return Post((), speeds)

    def send(
        self, orders: Sequence[Order], state: ControllerState | None, log: Sequence[Message] = ()
    ) -> None:
        """Encode everything, as Kafka's clients would be given it."""
        for message in (*orders, *([state] if state else []), *log):
            message.encode()

    def partitions(self) -> Collection[TopicPartition]:
        """Return the partitions."""
        return self.found

    def close(self) -> None:
        """Do nothing."""


def policy() -> Policy:
    """Return the policy of the default settings."""
    knobs = parse({"group": "g", "topics": ["t"], "lake": {"path": "lake"}})
    return replace(wiring.policy(knobs), capacity=CAPACITY)


def measurement(partitions: int, consumers: int, group: str = "g", topic: str = "t") -> WriteSpeeds:
    """Return speeds that need about so many consumers."""
    dice = np.random.default_rng(partitions)
    speeds = dice.uniform(0.2, 1.0, partitions)
    speeds *= 0.93 * consumers * CAPACITY / speeds.sum()
    speeds = np.minimum(speeds, CAPACITY)
    found = {TopicPartition(topic, i): float(s) for i, s in enumerate(speeds)}
    return WriteSpeeds(group=group, at=time.time(), window=30, speeds=messages.nest(found))


def dt2_in_memory(partitions: int, consumers: int, runs: int) -> dict[str, float]:
    """Measure Δt2 of fresh controllers."""
    given = measurement(partitions, consumers)
    names = sorted(messages.flatten(given.speeds))
    seconds, spent, count = [], [], 0
    for _ in range(runs):
        mail, requests = Mail(names), Requests()
        service = Service(mail, requests, RealClock(), policy())
        service.begin()
        service.turn(0)
        mail.speeds = given
        began, cpu = time.perf_counter(), time.process_time()
        service.turn(0)
        assert requests.at is not None
        seconds.append(requests.at - began)
        spent.append(time.process_time() - cpu)
        count = requests.count
    return {
        "median": statistics.median(seconds),
        "max": max(seconds),
        "cpu_median": statistics.median(spent),
        "consumers": count,
    }


def dt2_on_kafka(partitions: int, consumers: int, runs: int) -> dict[str, float]:
    """Measure Δt2 through a broker: from the message's publication to the request."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from lagless.adapters.kafka.mail import ControllerMailbox as Real
    from lagless.adapters.kafka.speeds import SpeedsOut
    from lagless.lab.parts.broker import Broker

    seconds, count = [], 0
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # kept until it has answered
        made = admin.create_topics([NewTopic("t", partitions, 1)])
        made["t"].result(60)
        for run in range(runs):
            document: dict[str, Any] = {
                "group": f"g{run}",
                "topics": ["t"],
                "kafka": {"bootstrap": broker.bootstrap},
                "lake": {"path": str(Path(folder))},
                "consumer": {"max_rate": CAPACITY * 6 / 5},
            }
            settings = parse(document, environ={})
            mailbox: ControllerMailbox = Real(settings)
            requests = Requests()
            service = Service(mailbox, requests, RealClock(), wiring.policy(settings))
            service.begin()
            out = SpeedsOut(settings)
            for _ in range(5):
                service.turn(0.1)
            began = time.perf_counter()
            out.publish(measurement(partitions, consumers, settings.group))
            while requests.at is None:
                service.turn(0.1)
            seconds.append(requests.at - began)
            count = requests.count
            out.close()
            mailbox.close()
    return {"median": statistics.median(seconds), "max": max(seconds), "consumers": count}


def world(partitions: int, consumers: int, seconds: float) -> dict[str, float]:
    """Let a large group live in memory; give CPU and memory."""
    given = messages.flatten(measurement(partitions, consumers).speeds)
    pace = Pace(tick=0.5, heartbeat=2, cycle=2.5, start=3)
    large = World(policy(), dict(given), np.random.default_rng(1), pace=pace)
    spent = 0.0
    large.run(large.at + 0.01)
    service = large.service
    assert service is not None
    turn = service.turn

    def timed(timeout: float) -> None:
        nonlocal spent
        began = time.process_time()
        turn(timeout)
        spent += time.process_time() - began

    Service.turn = lambda self, timeout: timed(timeout)  # type: ignore[method-assign]
    began = large.at
    large.run(began + 60)
    first = spent
    assert large.unsettled() == "", large.unsettled()
    spent = 0.0
    large.run(large.at + seconds)
    at_rest = spent / seconds
    spent = 0.0
    before = {"consumers_before": _alive(large), "megabytes_before": _megabytes()}
    moved = {p: s * (1.0 if i % 2 else 1.6) for i, (p, s) in enumerate(large.speeds.items())}
    large.change({p: min(s, CAPACITY) for p, s in moved.items()})
    large.run(large.at + 60)
    return {
        **before,
        "consumers": _alive(large),
        "cpu_first_minute": first / 60,
        "cpu_at_rest": at_rest,
        "cpu_minute_of_reassignment": spent / 60,
        "megabytes": _megabytes(),
    }


def _alive(world: World) -> int:
    return len([process for process in world.processes if process.alive])


def _megabytes() -> float:
    """Return the peak memory of this process: the world's and the controller's together."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    logging.disable()
    dt2_in_memory(32, 20, 2)  # kernels load once
    found: dict[str, Any] = {
        "dt2_32_partitions": dt2_in_memory(32, 20, asked.runs),
        "dt2_10000_partitions": dt2_in_memory(10_000, 500, max(3, asked.runs // 4)),
    }
    if asked.kafka:
        found["dt2_32_partitions_kafka"] = dt2_on_kafka(32, 20, asked.runs)
        found["dt2_10000_partitions_kafka"] = dt2_on_kafka(10_000, 500, 3)
    found["world"] = world(10_000, 500, 30)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
