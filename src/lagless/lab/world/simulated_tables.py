"""The lake in memory: the Delta table's compare-and-set rule, and a ledger of what landed.

The rule is the one of adapters/lake/table.py: a commit is accepted only if the partition still
stands where its reader's look found it (`lands`). A commit may also fail for no reason, or land
while its answer is lost; the consumer looks again either way.

The ledger does not trust the rule. It records every span that landed, by whom and under which
generation, and names each gap, each repetition and each commit by a former owner as a fault.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lagless.errors import Away, ClaimLost, TryAgain
from lagless.model import TopicPartition
from lagless.ports import Held, Intake, Position, Positions, Span, Spans, Topic

if TYPE_CHECKING:
    from lagless.lab.world.simulated_consumer import SimulatedConsumer


class Violation(AssertionError):
    """The world saw what must never happen."""


def lands(looked: Positions, now: Positions, before: Positions) -> bool:
    """Return whether a commit is accepted: the look and the table both say where it began."""
    return looked == before and now == before


def check_owners(now: Positions, generations: Held) -> None:
    """Raise ClaimLost if another consumer owns one of these partitions."""
    taken = {p: at.owner for p, at in now.items() if at.owner != generations[p]}
    if taken:
        names = ", ".join(map(str, sorted(taken)))
        raise ClaimLost(f"{names}: claimed by another consumer", taken, max(taken.values()))


def claimed(now: Positions, generation: int) -> dict[TopicPartition, Position]:
    """Return the positions after a claim of all partitions; raise ClaimLost if one is newer."""
    newer = {p: at.owner for p, at in now.items() if at.owner > generation}
    if newer:
        names = ", ".join(map(str, sorted(newer)))
        raise ClaimLost(f"{names}: claimed under a newer order", newer, max(newer.values()))
    return {p: Position(at.offset, generation) for p, at in now.items()}


@dataclass(frozen=True, slots=True)
class Landing:
    """A span that one commit added to the table."""

    span: Span
    generation: int
    incarnation: str


@dataclass(slots=True)
class SimulatedLake:
    """What every table says, shared by all consumers."""

    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    ledger: dict[TopicPartition, list[Landing]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """What the ledger found wrong: nothing, if consumers and the rule are right."""
    refusals: int = 0
    """Commits that the rule refused."""
    topics: set[str] = field(default_factory=set)
    """The topics that the group has met."""
    generations_reused: bool = False
    """The controller lost its state, and may give the same generation to two consumers."""

    def at(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return the positions as they are now."""
        return {p: self.positions.get(p, Position(0, 0)) for p in partitions}

    def claim(self, partitions: Collection[TopicPartition], generation: int) -> None:
        """Take partitions over, all or none."""
        self.positions |= claimed(self.at(partitions), generation)

    def reset(self, partition: TopicPartition, offset: int) -> None:
        """Begin at another offset, as adapters.lake.resets does, and remove the rows from there."""
        at = self.at([partition])[partition]
        self.positions[partition] = Position(offset, at.owner + 1)
        landings = []
        for landing in self.ledger.get(partition, []):
            if landing.span.first < offset:
                span = Span(landing.span.first, min(landing.span.until, offset))
                landings.append(replace(landing, span=span))
        self.ledger[partition] = landings

    def commit(self, spans: Spans, generations: Held, looked: Positions, incarnation: str) -> bool:
        """Add spans and move the offsets if the rule allows it; return whether they landed."""
        before = {p: Position(span.first, generations[p]) for p, span in spans.items()}
        if not lands({p: looked[p] for p in spans if p in looked}, self.at(spans), before):
            self.refusals += 1
            check_owners(self.at(generations), generations)
            return False
        for p, span in spans.items():
            self.positions[p] = Position(span.until, generations[p])
            self._record(p, Landing(span, generations[p], incarnation))
        return True

    def _record(self, partition: TopicPartition, landing: Landing) -> None:
        landings = self.ledger.setdefault(partition, [])
        reached = landings[-1].span.until if landings else 0
        if landing.span.first != reached:
            self.faults.append(
                f"{partition}: landed from {landing.span.first} where {reached} was next"
            )
        last = landings[-1] if landings else landing
        newer = landing.generation > last.generation or (
            landing.generation == last.generation
            and (landing.incarnation == last.incarnation or self.generations_reused)
        )
        if not newer:
            self.faults.append(
                f"{partition}: {landing.incarnation} committed under {landing.generation} "
                f"after {last.incarnation} under {last.generation}"
            )
        landings.append(landing)


class SimulatedTables:
    """ports.Tables of one consumer.

    A cycle is run at its end, when the world knows what happened meanwhile. Between the two, the
    consumer sees the lake as it was when the cycle began (`view`); reading the spans takes until
    now, and only the commit meets the lake as it is.
    """

    def __init__(self, process: "SimulatedConsumer") -> None:
        self._process = process
        self._lake = process.world.lake
        self.view: dict[TopicPartition, Position] = {}
        self._looked: dict[TopicPartition, Position] = {}
        self._begun: dict[Topic, Spans] = {}

    def claim(
        self,
        topic: Topic,
        partitions: Collection[TopicPartition],
        generation: int | None,
        first: Callable[[], Mapping[TopicPartition, int]],
        earliest: Mapping[TopicPartition, int],
    ) -> Held:
        """Take partitions over; see ports.Tables."""
        world = self._process.world
        self._process.call()
        if world.happens(world.weather.claims):
            raise TryAgain("the claim was not accepted")
        begin = dict(earliest)
        if topic.name not in self._lake.topics:
            begin |= first()
            self._lake.topics.add(topic.name)
        for p in partitions:
            self._lake.positions.setdefault(p, Position(begin.get(p, 0), 0))
        now = self._lake.at(partitions)
        generation = max(at.owner for at in now.values()) + 1 if generation is None else generation
        self._lake.claim(partitions, generation)
        self._process.answer("lake")
        return dict.fromkeys(partitions, generation)

    def look(self, topic: Topic, generations: Held) -> Positions:
        """Return the positions as they were when the cycle began, or are between cycles."""
        self._process.call()
        positions = self._lake.at(generations)
        positions |= {p: at for p, at in self.view.items() if p in positions}
        check_owners(positions, generations)
        self._looked = positions
        return positions

    def begun(self, topic: Topic) -> Spans:
        """Return what was begun ahead."""
        return self._begun.get(topic, {})

    def ingest(
        self, topic: Topic, spans: Spans, generations: Held, check: Callable[[], None], then: Spans
    ) -> Intake:
        """Read until now, and commit."""
        process, world = self._process, self._process.world
        self.ready()
        self._begun[topic] = then
        if process.pauses_late:
            check()
        process.clock.at = world.at
        self.view = {}
        if not process.pauses_late:
            check()
        if world.happens(world.weather.refusals):
            raise TryAgain("the commit was not accepted")
        landed = self._lake.commit(spans, generations, self._looked, process.incarnation)
        process.answer("lake")
        records = sum(map(len, spans.values())) if landed else 0
        return Intake(rows=records, records=records, bytes=records, landed=landed)

    def give_up(self, topic: Topic, spans: Spans, generations: Held) -> None:
        """Fail: the world's Kafka deletes no records."""
        raise AssertionError("the world's Kafka deletes no records")

    def rehearse(self) -> bool:
        return False

    def ready(self) -> None:
        """Raise Away while Spark does not answer this consumer."""
        self._process.call()
        if self._process.world.at < self._process.waits_until:
            raise Away("Spark does not answer", "spark")

    def interrupt(self) -> None:
        """Forget what was begun."""
        self._begun = {}
