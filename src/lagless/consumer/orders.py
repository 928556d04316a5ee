"""Orders in, claims, and receipts out once the state is persisted: `machine` with its mail."""

import logging
from collections.abc import Callable, Collection
from dataclasses import replace

from lagless.consumer import machine
from lagless.consumer.claims import Claims
from lagless.errors import ClaimLost, LaglessError, TryAgain
from lagless.messages import Order
from lagless.model import TopicPartition
from lagless.ports import Clock, ConsumerMailbox

log = logging.getLogger("lagless.consumer")


class Orders:
    """What a consumer holds, by order or by hand; used between cycles only."""

    def __init__(
        self,
        state: machine.State,
        claims: Claims,
        clock: Clock,
        mailbox: ConsumerMailbox | None,
        note: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        self.state = state
        self.trouble = ""
        """Why the last claim was not made, for people to read."""
        self._claims = claims
        self._clock = clock
        self._mailbox = mailbox
        self._note = note
        self._persisted = 0

    def begin(self) -> None:
        """Recall the highest generation that this consumer's number has known."""
        assert self._mailbox is not None
        state = self.state
        recalled = self._mailbox.recall()
        self.state = machine.begin(state.group, state.consumer, state.incarnation, recalled)

    def take(self, timeout: float) -> bool:
        """Take orders, claim what they name, persist, and only then send receipts.

        Say whether others should hear of a change at once.
        """
        if self._mailbox is None:
            return False
        orders = self._mailbox.receive(timeout)
        if orders:
            self.state = machine.receive(self.state, orders)
        self.trouble = ""
        for generation, partitions in machine.to_claim(self.state).items():
            for topic in sorted({p.topic for p in partitions}):
                self._claim(topic, {p for p in partitions if p.topic == topic}, generation)
        return self._settle()

    def take_by_hand(self, partitions: Collection[TopicPartition]) -> None:
        """Claim a fixed assignment."""
        held: dict[TopicPartition, int] = {}
        for topic in sorted({p.topic for p in partitions}):
            mine = {p.partition for p in partitions if p.topic == topic}
            granted = self._claims.claim(topic, mine, None)
            self._note(granted)
            held |= granted
        self.state = replace(self.state, held=held)

    def lose(self, topic: str, error: ClaimLost) -> None:
        """Drop what another consumer has claimed."""
        log.warning("%s", error)
        named = {p for p in self.state.held if p.topic == topic and p.partition in error.partitions}
        self.state = machine.lost(self.state, named, error.owner)

    def hand_back(self) -> None:
        """Hold nothing any more, and say so."""
        if not self.state.ending:
            retire = Order(
                group=self.state.group,
                kind="retire",
                consumer=self.state.consumer,
                incarnation=self.state.incarnation,
                generation=self.state.highest,
                at=self._clock.now(),
            )
            self.state = replace(machine.receive(self.state, [retire]), owed=())
        try:
            self._settle()
        except LaglessError as error:
            log.info("the last state was not persisted: %s", error)

    def _claim(self, topic: str, partitions: Collection[TopicPartition], generation: int) -> None:
        try:
            granted = self._claims.claim(topic, {p.partition for p in partitions}, generation)
        except ClaimLost as error:
            named = {p: str(error) for p in partitions if p.partition in error.partitions}
            self.state = machine.refused(self.state, named, error.owner)
        except TryAgain as error:
            # It stays to be claimed; the order has no receipt yet.
            self.trouble = str(error)
        else:
            self._note(granted)
            self.state = machine.claimed(self.state, granted)

    def _settle(self) -> bool:
        if self._mailbox is None:
            return False
        now = self._clock.now()
        after, receipts = machine.settle(self.state, now)
        news = bool(receipts) or after.revision != self._persisted
        if news:
            self._mailbox.persist(machine.persisted(after, now))
            self._persisted = after.revision
            for receipt in receipts:
                self._mailbox.send(receipt)
        self.state = after
        return news
