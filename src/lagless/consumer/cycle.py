"""One cycle: gather, read and transform, append, commit (paper, section "Consumer").

A consumer moves records in batches. While it waits, it gathers: it asks Kafka where the logs end,
until there is enough to read or the wait is over. Then a cycle runs, for all topics side by side:

 1. Look. The table says where each partition stands and whether it is still ours. What is read
    begins exactly there. `positions` remembers where cycles ended, but only to estimate how much
    there is to gather: no offset is carried over from one cycle to the next.
 2. Choose. About `budget` bytes, shared by backlog, as spans of offsets. If the lake has begun
    files ahead, for spans that are still next, the same spans are chosen: otherwise its work is
    lost. What was begun is the lake's to know; the cycle asks each time.
 3. Ingest. Spark reads the spans and writes files, and the table's commit adds the files and moves
    the offsets in one step. If a full batch is left after it, the lake may begin with that one.

A thread that waits for Spark cannot be ended from outside. A topic that is not done at the deadline
is therefore left behind: `_check` refuses its commit from then on, the lake forgets its handles and
everything that was begun (`Tables.interrupt`), and the next cycle starts from the table's word. A
batch that was too large or too slow is halved until it fits, which also finds a single bad record.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal, Protocol, TypeVar

from lagless.consumer import batches
from lagless.consumer.orders import Claims
from lagless.errors import Away, DataLost, GiveUp, TooMuch, TryAgain
from lagless.model import TopicPartition
from lagless.ports import (
    Bounds,
    Clock,
    Held,
    Intake,
    Offsets,
    Position,
    Positions,
    Span,
    Spans,
    Tables,
    Topic,
)

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """How a job ended: with a value, with an error, or not in time (neither)."""

    value: T | None = None
    error: Exception | None = None

    @property
    def late(self) -> bool:
        """Return whether the job still runs."""
        return self.value is None and self.error is None


def side_by_side(
    jobs: Mapping[K, Callable[[], T]], clock: Clock, deadline: float
) -> dict[K, Done[T]]:
    """Run every job in a thread of its own until the moment `deadline`; no job returns None."""
    done: dict[K, Done[T]] = {}

    def work(key: K, job: Callable[[], T]) -> None:
        try:
            done[key] = Done(job())
        except Exception as error:
            done[key] = Done(error=error)

    # Daemons: a call to Spark that never returns must not keep the process from ending.
    threads = [
        threading.Thread(target=work, args=(key, job), name=f"cycle-{key}", daemon=True)
        for key, job in jobs.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - clock.now()))
    ended = dict(done)
    return {key: ended.get(key, Done()) for key in jobs}


class SideBySide(Protocol):
    """The signature of `side_by_side`; the simulated world runs jobs one after the other."""

    def __call__(
        self, jobs: Mapping[K, Callable[[], T]], clock: Clock, deadline: float
    ) -> dict[K, Done[T]]:
        """Run every job until the moment `deadline`."""


log = logging.getLogger("lagless.consumer")


@dataclass(frozen=True, slots=True)
class Gathered:
    """An estimate of what there is to read, before the look."""

    bounds: Mapping[TopicPartition, Bounds]
    spans: Spans
    bytes: Mapping[TopicPartition, float]
    strange: bool = False
    """Whether the size of some records is still unknown: a probe of them is read at once."""

    @property
    def total(self) -> float:
        """Return the bytes of all partitions."""
        return sum(self.bytes.values())


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of a cycle for one topic."""

    intake: Intake
    spans: Spans
    bytes: float = 0.0
    gone: int = 0
    left: int = 0
    """Offsets that were there and not chosen."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a cycle by topic: what it read, or why not, for the service to react to."""

    taken: Mapping[str, Taken] = field(default_factory=dict)
    troubles: Mapping[str, Exception] = field(default_factory=dict)


@dataclass(slots=True)
class Cycle:
    """The cycle of a consumer, on ports."""

    offsets: Offsets
    tables: Tables
    clock: Clock
    claims: Claims
    batch: batches.Batch
    on_data_loss: Literal["fail", "continue"]
    deadline: float
    """Seconds until a cycle must have ended."""
    weights: batches.Weights = field(default_factory=batches.Weights)
    limits: batches.Limits = field(default_factory=batches.Limits)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """Where each partition stood at the last look or commit: for estimates only."""
    ahead: bool = True
    """Whether a cycle that leaves a full batch behind lets Spark begin with it."""
    side_by_side: SideBySide = side_by_side
    _intact: dict[tuple[Topic, TopicPartition], tuple[int, int]] = field(default_factory=dict)
    """Offsets before which the log was found as it was read, and by which leader's epoch."""

    def gather(self, held: Held) -> Gathered:
        """Ask Kafka once how much there is to read; repeated while the consumer waits."""
        bounds = self.offsets.bounds(held)
        at = {p: Position(self.positions.get(p, bounds[p].earliest), 0) for p in bounds}
        spans = dict(batches.backlog(at, bounds))
        # A log that ends before its position was recreated, or lost records: look at it.
        spans |= {p: Span(bounds[p].end, bounds[p].end) for p in batches.beyond(at, bounds)}
        weights = self.weights.of(spans)
        mean = sum(weights.values()) / len(weights) if weights else 0.0
        size = {p: len(span) * weights.get(p, mean) for p, span in spans.items()}
        return Gathered(bounds, spans, size, len(weights) < len(spans))

    def run(self, held: Held, gathered: Gathered, budget: float) -> Report:
        """Read, append and commit what was gathered, topics side by side."""
        until = self.clock.now() + self.deadline
        absent, lost = self.claims.renew(held)
        ready = {p.topic for p in gathered.spans} - absent - set(lost)
        jobs: dict[str, Callable[[], Taken]] = {}
        for name in sorted(ready):
            mine = {p: g for p, g in held.items() if p.topic == name}
            size = sum(gathered.bytes[p] for p in gathered.spans if p.topic == name)
            share = budget * size / gathered.total if gathered.total else budget
            topic = self.claims.topics[name]
            jobs[name] = partial(self._take, topic, mine, max(share, 1.0), until)
        done = self.side_by_side(jobs, self.clock, until)
        taken: dict[str, Taken] = {}
        troubles: dict[str, Exception] = dict(lost)
        for name, job in done.items():
            if job.value is not None:
                taken[name] = job.value
                self._learn(name, job.value)
            else:
                troubles[name] = job.error or self._late(name, gathered)
        if any(job.late for job in done.values()):
            self.tables.interrupt()
        return Report(taken, troubles)

    def _take(self, topic: Topic, held: Held, budget: float, until: float) -> Taken:
        """Look, choose and ingest one topic."""
        positions = self.tables.look(topic, held)
        self.positions |= {p: at.offset for p, at in positions.items()}
        bounds = self.offsets.bounds(positions)
        for p, span in sorted(self._taken_back(topic, positions, bounds).items()):
            raise GiveUp(
                f"{p}: the table is at offset {span.until}, but Kafka has lost what was read from "
                f"offset {span.first} on, as by an unclean leader election; to read what it has "
                f"there now, see docs/guides/recover.md and run lagless reset --topic {p.topic} "
                f"--partitions {p.partition} --to {span.first}"
            )
        lost = self._give_up(topic, batches.deleted(positions, bounds), held)
        # After a jump the table has to be looked at again: the next cycle does.
        here = {p: at for p, at in positions.items() if p not in lost}
        available = batches.backlog(here, bounds)
        limit = self.limits.offsets.get(topic.name)
        weights = self.weights.of(available)
        spans = batches.follow(self.tables.begun(topic), available)
        spans = spans or batches.choose(available, weights, budget, limit)
        gone = sum(map(len, lost.values()))
        if not spans:
            return Taken(Intake(landed=False), {}, gone=gone)
        tried = sum(map(len, spans.values()))
        then: Spans = {}
        if self.ahead and limit is None:
            then = batches.next_batch(available, spans, weights, budget)
        try:
            check = partial(self._check, topic, until)
            intake = self.tables.ingest(topic, spans, held, check, then)
        except TooMuch as error:
            self._halve(topic.name, tried, error)
            raise
        known = self.weights.of(spans)
        size = sum(len(span) * known[p] for p, span in spans.items() if p in known)
        left = sum(map(len, available.values())) - tried
        return Taken(intake, spans, size or intake.bytes, gone, left)

    def _taken_back(self, topic: Topic, positions: Positions, bounds: batches.Ends) -> Spans:
        """Return the spans that were read and that Kafka has lost, or has replaced.

        A log that ends before the position shows the loss only until new records have passed it.
        Leader epochs show it for good: a leader's epoch ends where its successor began to write. If
        that is before the position, Kafka has lost the records in between.
        """
        gone = dict(batches.beyond(positions, bounds))
        asked = {
            p: epoch
            for p, epoch in batches.succeeded(positions, bounds).items()
            if self._intact.get((topic, p)) != (positions[p].offset, bounds[p].epoch)
        }
        ends = self.offsets.ends(asked, bounds) if asked else {}
        for p in asked:
            offset = positions[p].offset
            if p in ends and ends[p] < offset:
                gone[p] = Span(ends[p], offset)
            else:
                self._intact[(topic, p)] = (offset, bounds[p].epoch)
        return gone

    def _learn(self, name: str, taken: Taken) -> None:
        tried = sum(map(len, taken.spans.values()))
        if taken.intake.landed:
            self.positions |= {p: span.until for p, span in taken.spans.items()}
            self.weights.measure(name, tried, taken.intake.bytes)
            self.limits.relax(name, tried + taken.left)

    def _late(self, name: str, gathered: Gathered) -> TryAgain:
        tried = sum(len(span) for p, span in gathered.spans.items() if p.topic == name)
        error = Away(f"topic {name}: the cycle did not end within {self.deadline:g} s", "spark")
        self._halve(name, min(tried, self.limits.offsets.get(name, tried)), error)
        return error

    def _halve(self, name: str, tried: int, error: Exception) -> None:
        limit = self.limits.halve(name, tried)
        log.warning("%s; reading at most %s offsets next", error, limit)

    def _check(self, topic: Topic, until: float) -> None:
        """Refuse a commit that comes too late, or for a topic that was recreated."""
        if self.clock.now() >= until:
            raise TryAgain(f"topic {topic.name}: the cycle is past its deadline and not committed")
        now = self.offsets.topics([topic.name]).get(topic.name)
        if now is None or now[0] != topic:
            raise TryAgain(f"topic {topic.name} was deleted or recreated while it was read")

    def _give_up(
        self, topic: Topic, deleted: Mapping[TopicPartition, Span], held: Held
    ) -> Mapping[TopicPartition, Span]:
        if not deleted:
            return {}
        named = ", ".join(f"{p} offsets {s.first} to {s.until - 1}" for p, s in deleted.items())
        sentence = f"Kafka deleted records before they were read: {named}"
        if self.on_data_loss == "fail":
            raise DataLost(f'{sentence}; set consumer.on_data_loss = "continue" to go on without')
        log.error("%s; going on without them", sentence)
        self.tables.give_up(topic, deleted, held)
        return deleted
