"""Messages as the roles would send them, so that the page can be tested without the roles."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

import lagless
from lagless import messages
from lagless.messages import Echo, Heartbeat, Message, WriteSpeeds
from lagless.model import Assignment, Cause, Consumer, Speeds, TopicPartition
from lagless.packing import scores
from lagless.settings import Settings, parse
from tests import said

GROUP = "orders"
TOPICS = {"clicks": 8, "orders": 10, "payments": 6}
Walk: TypeAlias = Iterator[dict[TopicPartition, float]]
"""Measurements, one after the other."""


def settings(**consumer: Any) -> Settings:
    """Return settings with a max rate of 2 MB/s, as in the paper."""
    return parse(
        {
            "group": GROUP,
            "topics": list(TOPICS),
            "lake": {"path": "lake"},
            "consumer": {"max_rate": "2 MB/s", **consumer},
        }
    )


def speeds(at: float, table: Speeds, stale: tuple[TopicPartition, ...] = ()) -> WriteSpeeds:
    """Return the monitor's message with these speeds."""
    return WriteSpeeds(
        group=GROUP,
        at=at,
        window=30,
        speeds=messages.nest(dict(table)),
        stale=tuple((partition.topic, partition.partition) for partition in stale),
    )


def heartbeat(
    at: float,
    consumer: Consumer,
    held: Mapping[TopicPartition, int],
    incarnation: str = "",
    **more: Any,
) -> Heartbeat:
    """Return a consumer's heartbeat with what it holds."""
    return Heartbeat(
        group=GROUP,
        at=at,
        consumer=consumer,
        incarnation=incarnation or f"one-{consumer}",
        highest=max(held.values(), default=0),
        state=more.pop("state", "ready"),
        held=tuple((p.topic, p.partition, generation) for p, generation in held.items()),
        **more,
    )


def decision(
    at: float, kind: str, reason: str, phase: str, generation: int, **more: Any
) -> Message:
    """Return a decision of the controller."""
    if kind == "phase":
        more.setdefault("cause", reason)
    return said.decision(GROUP, kind, reason, at, phase, generation, **more)


def assignment(
    at: float, generation: int, previous: Assignment, current: Assignment, table: Speeds, c: float
) -> Message:
    """Return the controller's decision on a new assignment."""
    nested: dict[str, dict[int, int]] = {}
    for partition, consumer in current.items():
        nested.setdefault(partition.topic, {})[partition.partition] = consumer
    moved = [p for p in current if p in previous and previous[p] != current[p]]
    return decision(
        at,
        "assignment",
        f"{len(current)} partitions on {len(set(current.values()))} consumers, {len(moved)} move",
        "Reassign",
        generation,
        assignment=nested,
        migrations=[[p.topic, p.partition, previous[p], current[p]] for p in moved],
        rscore=scores.rscore(table, c, previous, current) if previous else 0.0,
        consumers=len(set(current.values())),
    )


def walk(seed: int, c: float) -> Walk:
    """Yield speeds that wander, with a spike on one topic now and then."""
    draw = np.random.default_rng(seed)
    names = [TopicPartition(topic, n) for topic, count in TOPICS.items() for n in range(count)]
    base = draw.pareto(1.6, len(names)) * 0.07 * c + 0.05 * c
    for step in itertools.count():
        base = np.clip(base + draw.normal(0, 0.01 * c, len(names)), 0.02 * c, 0.6 * c)
        swing = 1 + 0.25 * np.sin(step / 22)
        lift = 1.8 if 80 < step % 180 < 112 else 1.0
        yield {
            name: float(speed * swing * (lift if name.topic == "clicks" else 1))
            for name, speed in zip(names, base, strict=True)
        }


class Group:
    """A scripted group: it packs partitions and returns the messages that its roles would send."""

    def __init__(self, knobs: Settings, algorithm: str = "sticky") -> None:
        self.knobs = knobs
        self.algorithm = algorithm
        self.generation = 0
        self.held: dict[TopicPartition, tuple[Consumer, int]] = {}
        self.moved_at: dict[Consumer, float] = {}

    @property
    def assignment(self) -> dict[TopicPartition, Consumer]:
        """Return the consumer of each partition."""
        return {partition: consumer for partition, (consumer, _) in self.held.items()}

    def beats(self, at: float, silent: tuple[Consumer, ...] = ()) -> list[Message]:
        """Return the heartbeats of all but the silent; a consumer with new partitions lags."""
        beats: list[Message] = []
        for consumer in sorted(set(self.assignment.values())):
            if consumer in silent:
                continue
            calm = 0.9 + 0.3 * np.sin(at / 37 + 2.3 * consumer)
            lag = float(calm + 3.5 * np.exp(-(at - self.moved_at.get(consumer, 0)) / 14))
            beats.append(
                heartbeat(
                    at,
                    consumer,
                    {p: g for p, (owner, g) in self.held.items() if owner == consumer},
                    bytes_per_second=1.1e6 + 9e4 * (consumer % 4),
                    cycle_seconds=2.4,
                    lag_seconds=lag,
                    lag_bytes=1.1e6 * lag,
                    lag_records=int(7300 * lag),
                )
            )
        return beats

    def reassign(
        self, at: float, table: Speeds, reason: str, to: Assignment | None = None
    ) -> list[Message]:
        """Reassign (to `to` if it is set) and return the decisions that the controller writes."""
        before = self.assignment
        c = self.knobs.capacity
        after = to if to is not None else lagless.pack(table, c, before, self.algorithm)
        if after == before:
            return []
        self.generation += 1
        new = sorted(set(after.values()) - set(before.values()))
        gone = sorted(set(before.values()) - set(after.values()))
        self.held = {
            p: self.held[p] if before.get(p) == consumer else (consumer, self.generation)
            for p, consumer in after.items()
        }
        self.moved_at |= {n: at for p, n in after.items() if before.get(p) != n}
        g = self.generation
        decisions = [
            decision(at, "phase", reason, "Reassign", g - 1, cause=Cause.OVERLOAD),
            assignment(at, g, before, after, table, c),
            decision(at, "phase", "a new assignment", "Group Management", g),
        ]
        if new:
            names = ", ".join(str(n) for n in new)
            decisions.append(
                decision(at, "created", f"consumers {names} are missing", "Group Management", g)
            )
        decisions += [
            decision(at + 4, "timing", f"consumer {n} is ready", "Group Management", g,
                     consumer=n, dt3=3.4 + 0.2 * n)
            for n in new
        ]  # fmt: skip
        decisions.append(
            decision(
                at + 7, "timing", "last receipt", "Group Management", g, dt4=round(2.1 + 0.1 * g, 2)
            )
        )
        decisions += [
            decision(at + 7, "deleted", f"consumer {n} has no work", "Sentinel", g, consumer=n)
            for n in gone
        ]
        decisions.append(decision(at + 7, "phase", "everyone holds what it should", "Sentinel", g))
        return decisions


def past(group: Group, now: float, seconds: float, walking: Walk) -> list[Message]:
    """Return the messages until now: a measurement every 5 s, a reassignment every 30 s."""
    steps = int(seconds / 5)
    messages_: list[Message] = []
    for step, table in enumerate(itertools.islice(walking, steps)):
        messages_ += moment(group, now - 5 * (steps - 1 - step), step, table)
    return [message for message in messages_ if getattr(message, "at", 0) <= now]


def moment(
    group: Group, at: float, step: int, table: Mapping[TopicPartition, float]
) -> list[Message]:
    """Return the messages of one step of 5 s."""
    messages_: list[Message] = [speeds(at - 0.2, table)]
    if step % 6 == 0:
        load: dict[Consumer, float] = {}
        for partition, consumer in group.assignment.items():
            load[consumer] = load.get(consumer, 0) + table[partition]
        full = [n for n, total in load.items() if total > group.knobs.capacity]
        reason = (
            "24 partitions are not read"
            if not load
            else f"consumer {full[0]} has more than its capacity"
            if full
            else "the interval is up"
        )
        messages_ += group.reassign(at, table, reason)
    return [*messages_, *group.beats(at), Echo(group=GROUP, echo="", at=at)]
