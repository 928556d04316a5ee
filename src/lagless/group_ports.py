"""The interfaces to consumer groups whose members lagless did not write.

Passing trouble is raised as TryAgain, as in `ports`. Nothing here says how.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lagless.messages import ControllerState, Message, Plan, SeenGroup
from lagless.model import TopicPartition
from lagless.ports import Post


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a consumer group, as its coordinator sees it."""

    id: str
    """The member id: another one whenever it joins."""
    instance: str = ""
    """Its group.instance.id; "" if it has none."""
    client: str = ""
    host: str = ""
    held: frozenset[TopicPartition] = frozenset()
    """The partitions of interest that it reads."""

    @property
    def name(self) -> str:
        """The name that it has in a plan."""
        return self.instance or self.id


@dataclass(frozen=True, slots=True)
class Membership:
    """A group at one moment."""

    state: str
    """Kafka's word: stable, empty, dead, …."""
    protocol: str
    """consumer (KIP-848) or classic."""
    assignor: str
    members: tuple[GroupMember, ...]

    @property
    def exists(self) -> bool:
        """Return whether the brokers know such a group."""
        return self.state != "dead"


@dataclass(frozen=True, slots=True)
class Progress:
    """The position of a group in a partition."""

    committed: int | None
    """The next offset to read; None if the group never committed one."""
    end: int
    """The log's end."""


class Members(Protocol):
    """A consumer group whose members lagless did not write; raises TryAgain while Kafka is away."""

    def describe(self) -> Membership:
        """Return the group without the member that nudges; no members if it does not exist."""

    def progress(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Progress]:
        """Return the group's position in each partition; partitions that do not exist are left
        out."""

    def nudge(self) -> None:
        """Trigger a rebalance; return at once."""

    def close(self) -> None:
        """Leave the group."""


class PlanMailbox(Protocol):
    """The mail of a controller whose members follow plans; raises Fenced like ControllerMailbox."""

    def lead(self) -> ControllerState | None:
        """Wait until this is the one controller that acts; give what was persisted last."""

    def receive(self, timeout: float) -> Post:
        """Return what arrived, waiting at most `timeout` seconds for the first."""

    def publish(
        self,
        plan: Plan | None,
        state: ControllerState | None,
        seen: SeenGroup | None = None,
        log: Sequence[Message] = (),
    ) -> None:
        """Send the plan, the state to persist and the event log in one transaction, or nothing.

        How the group is seen is told to everyone; it need not arrive.
        """

    def partitions(self) -> Collection[TopicPartition]:
        """Return the partitions of interest that exist."""

    def close(self) -> None:
        """Give up the lead."""


class Scaler(Protocol):
    """Decides how many members run; without one, lagless only places them."""

    @property
    def ordered(self) -> bool:
        """Whether members go by their ordinal, the highest first, as in a StatefulSet.

        The ordinal is the number at the end of the member's instance, client id or host.
        """

    def scale(self, size: int, idle: Collection[GroupMember]) -> None:
        """Ask for `size` members, now and whenever that is still wanted (every few seconds).

        `idle` are those that the plan leaves without work: they should go first. Raise TryAgain.
        """
