"""One cycle: gather, read and transform, append, commit (paper, section "Consumer").

The first phase only estimates, from where earlier cycles ended. What is read begins where the
table says at the look; no offset is carried over.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from lagless.consumer import ledger, workers
from lagless.consumer.claims import Claims
from lagless.errors import Away, ClaimLost, DataLost, GiveUp, TooMuch, TryAgain
from lagless.model import TopicPartition
from lagless.ports import Bounds, Clock, Intake, Offsets, Position, Span, Tables, Topic

log = logging.getLogger("lagless.consumer")
Held = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What is there to be read, as far as anyone can tell before the look."""

    bounds: Mapping[TopicPartition, Bounds]
    spans: Mapping[TopicPartition, Span]
    bytes: Mapping[TopicPartition, float]
    strange: bool = False
    """Whether nobody knows yet how large some records are: a probe of them is read at once."""

    @property
    def total(self) -> float:
        """Give the bytes of all partitions."""
        return sum(self.bytes.values())


@dataclass(frozen=True, slots=True)
class Taken:
    """What a cycle did with one topic."""

    intake: Intake
    spans: Mapping[TopicPartition, Span]
    bytes: float = 0.0
    gone: int = 0
    left: int = 0
    """Offsets that were there and not chosen."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a cycle did with each topic: what it took, or why not."""

    taken: Mapping[str, Taken] = field(default_factory=dict)
    troubles: Mapping[str, Exception] = field(default_factory=dict)


@dataclass(slots=True)
class Cycle:
    """The cycle of a consumer, on ports."""

    offsets: Offsets
    tables: Tables
    clock: Clock
    claims: Claims
    batch: ledger.Batch
    on_data_loss: Literal["fail", "continue"]
    deadline: float
    """Seconds until a cycle must have ended."""
    weights: ledger.Weights = field(default_factory=ledger.Weights)
    limits: ledger.Limits = field(default_factory=ledger.Limits)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """Where each partition stood at the last look or commit: for estimates only."""
    ahead: bool = True
    """Whether a cycle that leaves a full batch behind lets Spark begin with it."""
    _begun: dict[Topic, Mapping[TopicPartition, Span]] = field(default_factory=dict)

    def gather(self, held: Held) -> Gathered:
        """Ask Kafka once what is there; phase 1 is this, repeated."""
        bounds = self.offsets.bounds(held)
        at = {p: Position(self.positions.get(p, bounds[p].earliest), 0) for p in bounds}
        spans = ledger.backlog(at, bounds)
        # A log that ends before its position is another topic by now, or an error: look at it.
        spans |= {p: Span(bounds[p].end, bounds[p].end) for p in ledger.beyond(at, bounds)}
        weights = self.weights.of(spans)
        mean = sum(weights.values()) / len(weights) if weights else 0.0
        size = {p: len(span) * weights.get(p, mean) for p, span in spans.items()}
        return Gathered(bounds, spans, size, len(weights) < len(spans))

    def run(self, held: Held, gathered: Gathered, budget: float) -> Report:
        """Read, append and commit what was gathered, topics side by side."""
        until = self.clock.now() + self.deadline
        absent, lost = self.claims.anew(held)
        ready = {p.topic for p in gathered.spans} - absent - set(lost)
        jobs: dict[str, Callable[[], Taken]] = {}
        for name in sorted(ready):
            mine = {p: g for p, g in held.items() if p.topic == name}
            size = sum(gathered.bytes[p] for p in gathered.spans if p.topic == name)
            share = budget * size / gathered.total if gathered.total else budget
            topic = self.claims.topics[name]
            jobs[name] = partial(self._take, topic, mine, max(share, 1.0), until)
        done = workers.side_by_side(jobs, self.clock, until)
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
        """Do phases 2 and 3 and the table's commit for one topic."""
        generations = {p.partition: g for p, g in held.items()}
        looked = self.tables.look(topic, generations)
        self._check_owners(topic, looked, generations)
        positions = {TopicPartition(topic.name, p): at for p, at in looked.items()}
        self.positions |= {p: at.offset for p, at in positions.items()}
        bounds = self.offsets.bounds(positions)
        self._check_ends(ledger.beyond(positions, bounds))
        lost = self._give_up(topic, ledger.deleted(positions, bounds), generations)
        # After a jump the table has to be looked at again: the next cycle does.
        here = {p: at for p, at in positions.items() if p not in lost}
        available = ledger.backlog(here, bounds)
        limit = self.limits.offsets.get(topic.name)
        weights = self.weights.of(available)
        spans = ledger.follow(self._begun.pop(topic, {}), available)
        spans = spans or ledger.choose(available, weights, budget, limit)
        gone = sum(map(len, lost.values()))
        if not spans:
            return Taken(Intake(landed=False), {}, gone=gone)
        tried = sum(map(len, spans.values()))
        then: Mapping[TopicPartition, Span] = {}
        if self.ahead and limit is None:
            then = ledger.next_batch(available, spans, weights, budget)
            self._begun[topic] = then
        try:
            intake = self.tables.ingest(
                topic,
                {p.partition: span for p, span in spans.items()},
                generations,
                partial(self._check, topic, until),
                {p.partition: span for p, span in then.items()},
            )
        except TooMuch as error:
            self._halve(topic.name, tried, error)
            raise
        known = self.weights.of(spans)
        size = sum(len(span) * known[p] for p, span in spans.items() if p in known)
        left = sum(map(len, available.values())) - tried
        return Taken(intake, spans, size or intake.bytes, gone, left)

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
        """Refuse a commit that comes too late, or for a topic that is another one by now."""
        if self.clock.now() >= until:
            raise TryAgain(f"topic {topic.name}: the cycle is past its deadline and not committed")
        now = self.offsets.topics([topic.name]).get(topic.name)
        if now is None or now[0] != topic:
            raise TryAgain(f"topic {topic.name} was deleted or made anew while it was read")

    def _check_owners(
        self, topic: Topic, found: Mapping[int, Position], mine: Mapping[int, int]
    ) -> None:
        taken = {p: at.owner for p, at in found.items() if at.owner != mine[p]}
        if taken:
            names = ", ".join(f"{topic.name}:{p}" for p in sorted(taken))
            owner = max(taken.values())
            raise ClaimLost(
                f"{names}: claimed by another consumer under generation {owner}", taken, owner
            )

    def _check_ends(self, beyond: Mapping[TopicPartition, Span]) -> None:
        for p, span in beyond.items():
            raise GiveUp(
                f"{p}: the table is at offset {span.until} and Kafka's log ends at {span.first}: "
                "Kafka has lost records that were read; restore the log or name another table"
            )

    def _give_up(
        self, topic: Topic, deleted: Mapping[TopicPartition, Span], generations: Mapping[int, int]
    ) -> Mapping[TopicPartition, Span]:
        if not deleted:
            return {}
        named = ", ".join(f"{p} offsets {s.first} to {s.until - 1}" for p, s in deleted.items())
        sentence = f"Kafka deleted records before they were read: {named}"
        if self.on_data_loss == "fail":
            raise DataLost(f'{sentence}; set consumer.on_data_loss = "continue" to go on without')
        log.error("%s; going on without them", sentence)
        self.tables.give_up(topic, {p.partition: s for p, s in deleted.items()}, generations)
        return deleted
