"""The world's consumers: the real machine around cycles, heartbeats and every way to go wrong."""

from dataclasses import dataclass, field
from typing import Literal

from lagless import messages
from lagless.consumer import machine
from lagless.errors import ClaimLost
from lagless.messages import ConsumerState, Heartbeat, Order, Receipt
from lagless.model import Consumer, TopicPartition
from lagless.simulation.world_lake import MemoryLake


@dataclass(slots=True)
class _Cycle:
    """What was looked at and read, and is not committed yet."""

    began_at: float
    read_from: dict[TopicPartition, int]
    read_to: dict[TopicPartition, int]
    generations: dict[TopicPartition, int]
    snapshot: dict[TopicPartition, int]


@dataclass(slots=True)
class MemoryConsumer:
    """A consumer's process."""

    state: machine.State
    lake: MemoryLake
    ready_at: float
    alive: bool = True
    asleep_until: float = 0
    """The whole process stands still: no cycle, no heartbeat."""
    stuck_until: float = 0
    """The cycle stands still, heartbeats go on."""
    waits_until: float = 0
    """The cycle stands still because Spark is away, and heartbeats say so."""
    well: bool = True
    """Nothing happened to it that would make it lost with good reason."""
    heard_at: float = 0
    inbox: list[Order] = field(default_factory=list)
    cycle: _Cycle | None = None
    ignored: int = 0

    @property
    def consumer(self) -> Consumer:
        """Its number."""
        return self.state.consumer

    @property
    def incarnation(self) -> str:
        """Its incarnation."""
        return self.state.incarnation

    def is_running(self, now: float) -> bool:
        """Say whether its process does anything now."""
        return self.alive and now >= self.asleep_until

    def reads(self, now: float) -> bool:
        """Say whether it is up and past its start."""
        return self.alive and now >= self.ready_at

    def beat(self, now: float) -> Heartbeat:
        """Give a heartbeat."""
        waiting: Literal["", "spark"] = "spark" if now < self.waits_until else ""
        age = now - self.cycle.began_at if self.cycle is not None else 0.0
        return machine.heartbeat(
            self.state, now, ready=now >= self.ready_at, waiting_for=waiting, cycle_age=age
        )

    def end_cycle(
        self, now: float, may_claim: bool = True
    ) -> tuple[list[Receipt], ConsumerState | None]:
        """Commit what was read, take orders, and claim what they name if the lake is there."""
        self._commit()
        before = self.state
        orders, self.inbox = self.inbox, []
        state = machine.receive(self.state, orders)
        for generation, partitions in machine.to_claim(state).items() if may_claim else ():
            for partition in sorted(partitions):
                try:
                    self.lake.claim([partition], generation)
                    state = machine.claimed(state, [partition])
                except ClaimLost as refusal:
                    owner = self.lake.look([partition])[partition].owner
                    state = machine.refused(state, {partition: str(refusal)}, owner)
        state, receipts = machine.settle(state, now)
        self.state = state
        if state.ending:
            self.alive = False
        changed = bool(receipts) or state.revision != before.revision
        return list(receipts), machine.persisted(state, now) if changed else None

    def begin_cycle(self, now: float, ends: dict[TopicPartition, int]) -> None:
        """Look: drop what another owns, and read the rest up to the logs' ends."""
        positions = self.lake.look(list(self.state.held))
        for p, position in positions.items():
            if position.owner != self.state.held[p]:
                self.state = machine.lost(self.state, [p], position.owner)
        held = dict(self.state.held)
        read_from = {p: positions[p].offset for p in held}
        self.cycle = _Cycle(
            now,
            read_from,
            {p: max(offset, ends.get(p, offset)) for p, offset in read_from.items()},
            held,
            self.lake.snapshot(list(held)),
        )

    def _commit(self) -> None:
        cycle, self.cycle = self.cycle, None
        if cycle is None:
            return
        for p in cycle.read_from:
            one = {p: cycle.read_from[p]}
            try:
                self.lake.commit(one, cycle.read_to, cycle.generations, cycle.snapshot)
            except ClaimLost:
                owner = self.lake.look([p])[p].owner
                if owner != cycle.generations[p]:
                    self.state = machine.lost(self.state, [p], owner)


def born(
    group: str,
    consumer: Consumer,
    incarnation: str,
    lake: MemoryLake,
    recalled: ConsumerState | None,
    ready_at: float,
) -> MemoryConsumer:
    """Start a consumer's process."""
    assert messages.birth(incarnation)
    state = machine.begin(group, consumer, incarnation, recalled)
    return MemoryConsumer(state, lake, ready_at)
