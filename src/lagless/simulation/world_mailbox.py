"""The controller's side of the world's mail."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lagless.errors import Fenced, TryAgain
from lagless.messages import ControllerState, Decision, Message, Order
from lagless.model import TopicPartition
from lagless.ports import Post

if TYPE_CHECKING:
    from lagless.simulation.world import World


@dataclass(slots=True)
class MemoryMailbox:
    """The controller's side of the world's mail."""

    world: "World"
    epoch: int
    position: int
    measured_at: float = 0

    def lead(self) -> ControllerState | None:
        """Lead at once."""
        return self.world.persisted

    def receive(self, timeout: float) -> Post:
        """Give what arrived."""
        self._call()
        world = self.world
        if world.at < world.out_until:
            return Post(deaf=True)
        new = tuple(world.mail[self.position :])
        self.position = len(world.mail)
        speeds = world.measured
        if speeds is None or speeds.at <= self.measured_at:
            return Post(new)
        self.measured_at = speeds.at
        return Post(new, speeds)

    def send(
        self, orders: Sequence[Order], state: ControllerState | None, log: Sequence[Message] = ()
    ) -> None:
        """Send and persist, all or nothing."""
        self._call()
        world = self.world
        if world.at < world.out_until:
            raise TryAgain("the broker is away")
        if state is not None:
            world.check_ended(world.persisted, state)
            world.persisted = state
        world.decisions += [one for one in log if isinstance(one, Decision)]
        world.orders += orders
        for order in orders:
            world.order(order)
        world.called()

    def partitions(self) -> Collection[TopicPartition]:
        """Give the partitions that exist."""
        self._call()
        if self.world.at < self.world.out_until:
            raise TryAgain("the broker is away")
        return list(self.world.speeds)

    def close(self) -> None:
        """Leave."""

    def _call(self) -> None:
        if self.epoch != self.world.epoch:
            raise Fenced("another controller acts")
        self.world.called()
