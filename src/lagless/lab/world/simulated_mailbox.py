"""Both ends of the mail: the controller's and a consumer's, over a network that loses messages."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lagless import messages
from lagless.errors import Fenced, TryAgain
from lagless.lab.world.simulated_tables import Violation
from lagless.model import TopicPartition
from lagless.ports import Post

if TYPE_CHECKING:
    from lagless.lab.world.simulated_consumer import SimulatedConsumer
    from lagless.lab.world.world import World


@dataclass(slots=True)
class SimulatedControllerMailbox:
    """ports.ControllerMailbox: fenced once another controller acts."""

    world: "World"
    epoch: int
    position: int
    measured_at: float = 0

    def lead(self) -> messages.ControllerState | None:
        """Lead at once."""
        return self.world.persisted

    def receive(self, timeout: float) -> Post:
        """Return what arrived."""
        self._call()
        world = self.world
        if world.is_out:
            return Post(deaf=True)
        new = tuple(world.mail[self.position :])
        self.position = len(world.mail)
        measured, before = world.measured, self.measured_at
        if measured is not None:
            self.measured_at = measured.at
        asked, world.asked = tuple(world.asked), []
        return Post(new, measured if self.measured_at > before else None, asked)

    def send(
        self,
        orders: Sequence[messages.Order],
        state: messages.ControllerState | None,
        log: Sequence[messages.Message] = (),
    ) -> None:
        """Send and persist, all or nothing."""
        self._call()
        world = self.world
        _check_broker(world)
        if state is not None:
            known = world.persisted.ended if world.persisted is not None else {}
            world.check_ended(state.ended.keys() - known.keys())
            world.persisted = state
        world.decisions += [message for message in log if isinstance(message, messages.AnyDecision)]
        world.orders += orders
        for order in orders:
            world.order(order)
        world.called()

    def partitions(self) -> Collection[TopicPartition]:
        """Return the partitions that exist."""
        self._call()
        _check_broker(self.world)
        return list(self.world.speeds)

    def close(self) -> None:
        """Leave."""

    def _call(self) -> None:
        if self.epoch != self.world.epoch:
            raise Fenced("another controller acts")
        self.world.called()


@dataclass(slots=True)
class SimulatedConsumerMailbox:
    """ports.ConsumerMailbox: checks that a receipt comes after its claims and its state."""

    _process: "SimulatedConsumer"
    _world: "World"
    inbox: list[messages.Order]
    _persisted: int = -1

    def recall(self) -> messages.ConsumerState | None:
        """Return what this number persisted last, by whichever incarnation."""
        return self._world.states.get(self._process.consumer)

    def receive(self, timeout: float) -> list[messages.Order]:
        """Return the orders that arrived; nobody waits here, the world's time does not stand."""
        self._process.call()
        if self._world.is_out:
            return []
        orders, self.inbox = self.inbox, []
        return orders

    def persist(self, state: messages.ConsumerState) -> None:
        """Persist the state."""
        self._process.call()
        _check_broker(self._world)
        self._world.states[state.consumer] = state
        self._persisted = state.revision
        self._process.answer("kafka")

    def send(self, message: messages.Receipt | messages.Heartbeat) -> None:
        """Send to the controller."""
        if isinstance(message, messages.Receipt):
            self._process.call()
            _check_broker(self._world)
            if message.revision != self._persisted:
                raise Violation(f"{self._process} answered before it persisted")
            refused = {TopicPartition(topic, p) for topic, p, _ in message.refused}
            if not refused.isdisjoint(self._process.state.wanted):
                raise Violation(f"{self._process} answered before it claimed")
        self._world.post(self._process, message)


def _check_broker(world: "World") -> None:
    if world.is_out:
        raise TryAgain("the broker does not answer")
