"""Orders in, claims, and receipts out once the state is persisted: `machine` with its mail."""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lagless.consumer import order_machine
from lagless.errors import ClaimLost, LaglessError, NotYet, TryAgain
from lagless.messages import Order
from lagless.model import TopicPartition
from lagless.ports import Bounds, Clock, ConsumerMailbox, Offsets, Tables, Topic


@dataclass(slots=True)
class Claims:
    """Claims on partitions, topic by topic."""

    offsets: Offsets
    tables: Tables
    start: Literal["earliest", "latest"]
    topics: dict[str, Topic] = field(default_factory=dict)
    """The topics under whose ids partitions were claimed."""

    def claim(
        self, topic: str, partitions: Collection[TopicPartition], generation: int | None
    ) -> Mapping[TopicPartition, int]:
        """Claim partitions of one topic; ClaimLost where another owns one under a newer order."""
        found = self.offsets.topics([topic]).get(topic)
        if found is None:
            raise NotYet(f"topic {topic} does not exist")
        described, count = found
        absent = sorted(p.partition for p in partitions if p.partition >= count)
        if absent:
            raise NotYet(f"topic {topic} has {count} partitions and no partition {absent[0]}")
        everything = [TopicPartition(topic, p) for p in range(count)]
        bounds = self.offsets.bounds(everything)
        granted = self.tables.claim(
            described,
            partitions,
            generation,
            lambda: self._first(everything, bounds),
            {p: bound.earliest for p, bound in bounds.items()},
        )
        self.topics[topic] = described
        return granted

    def renew(
        self, held: Mapping[TopicPartition, int]
    ) -> tuple[frozenset[str], dict[str, ClaimLost]]:
        """Claim again the held partitions of topics that were created again.

        Give the topics that are not there, and the claims that another consumer has won.
        """
        now = self.offsets.topics({p.topic for p in held})
        lost: dict[str, ClaimLost] = {}
        for name, (topic, count) in now.items():
            if topic == self.topics.get(name):
                continue
            mine = {p: g for p, g in held.items() if p.topic == name and p.partition < count}
            for generation in sorted(set(mine.values())):
                some = [p for p, g in mine.items() if g == generation]
                try:
                    self.claim(name, some, generation)
                except ClaimLost as error:
                    lost[name] = error
        return frozenset(p.topic for p in held if p.topic not in now), lost

    def _first(
        self, everything: Collection[TopicPartition], bounds: Mapping[TopicPartition, Bounds]
    ) -> Mapping[TopicPartition, int]:
        """Return where to begin with a topic that the group has never met."""
        committed = self.offsets.committed(everything)
        latest = self.start == "latest"
        begin = {p: bounds[p].end if latest else bounds[p].earliest for p in everything}
        return begin | {p: offset for p, offset in committed.items() if offset <= bounds[p].end}


log = logging.getLogger("lagless.consumer")


@dataclass(slots=True)
class Orders:
    """What a consumer holds, by order or by hand; used between cycles only."""

    state: order_machine.State
    claims: Claims
    clock: Clock
    mailbox: ConsumerMailbox | None
    note: Callable[[Mapping[TopicPartition, int]], None]
    trouble: TryAgain | None = None
    """Why a claim could not be made yet."""
    persisted: int = 0
    """The revision that was persisted last."""

    def begin(self) -> None:
        """Recall the highest generation that this consumer's number has known."""
        assert self.mailbox is not None
        state = self.state
        recalled = self.mailbox.recall()
        self.state = order_machine.begin(state.group, state.consumer, state.incarnation, recalled)

    def take(self, timeout: float) -> bool:
        """Take orders, claim what they name, persist, and only then send receipts.

        Say whether others should hear of a change at once.
        """
        if self.mailbox is None:
            return False
        orders = self.mailbox.receive(timeout)
        if orders:
            self.state = order_machine.receive(self.state, orders)
        self.trouble = None
        for generation, partitions in order_machine.to_claim(self.state).items():
            for topic in sorted({p.topic for p in partitions}):
                self._claim(topic, {p for p in partitions if p.topic == topic}, generation)
        return self._settle()

    def take_by_hand(self, partitions: Collection[TopicPartition]) -> None:
        """Claim a fixed assignment."""
        held: dict[TopicPartition, int] = {}
        for topic in sorted({p.topic for p in partitions}):
            mine = {p for p in partitions if p.topic == topic}
            granted = self.claims.claim(topic, mine, None)
            self.note(granted)
            held |= granted
        self.state = replace(self.state, held=held)

    def lose(self, error: ClaimLost) -> None:
        """Drop what another consumer has claimed."""
        log.warning("%s", error)
        named = {p for p in self.state.held if p in error.partitions}
        self.state = order_machine.lost(self.state, named, error.owner)

    def hand_back(self) -> None:
        """Hold nothing any more, and say so."""
        if not self.state.ending:
            retire = Order(
                group=self.state.group,
                kind="retire",
                consumer=self.state.consumer,
                incarnation=self.state.incarnation,
                generation=self.state.highest,
                at=self.clock.now(),
            )
            self.state = replace(order_machine.receive(self.state, [retire]), owed=())
        try:
            self._settle()
        except LaglessError as error:
            log.info("the last state was not persisted: %s", error)

    def _claim(self, topic: str, partitions: Collection[TopicPartition], generation: int) -> None:
        try:
            granted = self.claims.claim(topic, partitions, generation)
        except ClaimLost as error:
            named = {p: str(error) for p in partitions if p in error.partitions}
            self.state = order_machine.refused(self.state, named, error.owner)
        except TryAgain as error:
            # It stays to be claimed; the order has no receipt yet.
            self.trouble = error
        else:
            self.note(granted)
            self.state = order_machine.claimed(self.state, granted)

    def _settle(self) -> bool:
        assert self.mailbox is not None
        now = self.clock.now()
        after, receipts = order_machine.settle(self.state, now)
        news = bool(receipts) or after.revision != self.persisted
        if news:
            self.mailbox.persist(order_machine.persisted(after, now))
            self.persisted = after.revision
            for receipt in receipts:
                self.mailbox.send(receipt)
        self.state = after
        return news
