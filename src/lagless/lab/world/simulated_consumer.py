"""A consumer's process in the world: the real service, driven in virtual time without threads.

The world calls `step` at the end of each cycle: the cycle that began at the last step is read and
committed (see SimulatedTables), then orders are taken, then the next cycle begins. Between steps
the process can be killed, put to sleep (and come back as a zombie), get stuck, or lose Spark; and
it can die inside a step, at any call of a port.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from lagless import messages
from lagless.consumer import order_machine
from lagless.consumer.cycle import Done
from lagless.consumer.service import Service
from lagless.errors import Away
from lagless.lab.world.simulated_mailbox import SimulatedConsumerMailbox
from lagless.lab.world.simulated_tables import SimulatedTables
from lagless.messages import Order
from lagless.model import Consumer, TopicPartition
from lagless.ports import Bounds, Clock, Topic

if TYPE_CHECKING:
    from lagless.lab.world.world import World

K = TypeVar("K")
T = TypeVar("T")
GATHER = 0.25
"""Seconds for which a cycle waits for its bytes, after orders were taken."""


class Killed(BaseException):
    """The process ends in the middle of whatever it does."""


def one_by_one(
    jobs: Mapping[K, Callable[[], T]], clock: Clock, deadline: float
) -> dict[K, Done[T]]:
    """Run every job, without threads; see cycle.side_by_side."""
    done: dict[K, Done[T]] = {}
    for key, job in jobs.items():
        try:
            done[key] = Done(job())
        except Exception as error:
            done[key] = Done(error=error)
    return done


@dataclass(slots=True)
class ProcessClock:
    """The time of one process: behind the world's while its cycle is read."""

    at: float

    def now(self) -> float:
        """Return the process's time."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """Do nothing: the world decides when the next step comes."""


class SimulatedOffsets:
    """ports.Offsets of one consumer; the logs' ends are those of the moment its cycle began."""

    def __init__(self, process: "SimulatedConsumer") -> None:
        self._process = process
        self._world = process.world
        self.view: dict[TopicPartition, Bounds] = {}

    def topics(self, names: Collection[str]) -> Mapping[str, tuple[Topic, int]]:
        """Return each topic and its number of partitions."""
        self._ask()
        counts = self._world.counts
        return {name: (Topic(name, "id"), counts[name]) for name in names if name in counts}

    def bounds(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return where the logs begin and end."""
        self._ask()
        return {p: self.view.get(p) or Bounds(0, self._world.end(p)) for p in partitions}

    def ends(
        self, epochs: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]
    ) -> Mapping[TopicPartition, int]:
        """Return nothing: no leader ever changes."""
        return {}

    def committed(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the group's committed offsets."""
        self._ask()
        return {p: self._world.group[p] for p in partitions if p in self._world.group}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to the group."""
        self._ask()
        self._world.group |= offsets

    def _ask(self) -> None:
        self._process.call()
        if self._world.is_out:
            raise Away("the broker does not answer", "kafka")


@dataclass(eq=False)
class SimulatedConsumer:
    """A process with one incarnation of a consumer."""

    world: "World"
    consumer: Consumer
    incarnation: str
    ready_at: float
    inbox: InitVar[Sequence[Order]]
    alive: bool = True
    asleep_until: float = 0.0
    """The whole process stands still: no cycle, no heartbeat."""
    pauses_late: bool = False
    """It stands still between its last check and the commit, not before the check."""
    stuck_until: float = 0.0
    """The cycle stands still, heartbeats go on."""
    waits_until: float = 0.0
    """Spark does not answer."""
    well: bool = True
    """Nothing happened to it that would be a good reason to give it up."""
    terminated: bool = False
    """The process was asked to end."""
    dies_after: int | None = None
    """How many more calls of ports it lives to see."""

    def __post_init__(self, inbox: Sequence[Order]) -> None:
        assert messages.birth(self.incarnation)
        world = self.world
        self.heard_at = self._begins_at = world.at
        self.clock = ProcessClock(world.at)
        self.mailbox = SimulatedConsumerMailbox(self, world, list(inbox))
        self._tables = SimulatedTables(self)
        self._offsets = SimulatedOffsets(self)
        who = (world.policy.group, self.consumer, self.incarnation)
        settings, clock, mailbox = world.consumer_settings, self.clock, self.mailbox
        self.service = Service(
            *who, settings, self._offsets, self._tables, clock, mailbox, side_by_side=one_by_one
        )
        self.service.nudge = self.beat
        self.service.begin()

    def __str__(self) -> str:
        return f"{self.incarnation} of {self.consumer}"

    @property
    def state(self) -> order_machine.State:
        """Return what it knows of its orders."""
        return self.service.state

    @property
    def held(self) -> Mapping[TopicPartition, int]:
        """Return what it reads; nothing once it has ended."""
        return self.state.held if self.alive else {}

    def reads(self, now: float) -> bool:
        """Return whether it is up and past its start."""
        return self.alive and now >= self.ready_at

    @property
    def stands_until(self) -> float:
        """Return when it can go on; the first call to a lost Spark fails, the next one hangs."""
        hangs_until = self.waits_until if self.service.vitals.waiting_for == "spark" else 0.0
        return max(self.asleep_until, self.stuck_until, hangs_until)

    def beat(self) -> None:
        """Send a heartbeat."""
        self.mailbox.send(self.service.heartbeat(self.world.at))

    def step(self) -> None:
        """End the cycle that began at the last step, take orders, and begin the next."""
        service, world = self.service, self.world
        if service.vitals.ready:
            self.clock.at = self._begins_at
            service.read()
        self.clock.at = world.at
        self._tables.view, self._offsets.view = {}, {}
        service.vitals.cycle_began = None
        service.listen()
        if service.state.ending or self.terminated:
            service.orders.hand_back()
            self.beat()
            self.alive = False
            return
        held = service.state.held
        self._begins_at = world.at + GATHER
        self._tables.view = world.lake.at(held)
        self._offsets.view = {p: Bounds(0, world.end(p)) for p in held}
        reads = held and service.vitals.waiting_for != "spark"
        service.vitals.cycle_began = self._begins_at if reads else None

    def call(self) -> None:
        """Count a call of a port, which may be the last thing that the process does."""
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise Killed

    def answer(self, part: Literal["kafka", "lake"]) -> None:
        """Let the caller have its answer; it may be lost, or the caller may be dead by now."""
        self.call()
        if self.world.happens(self.world.weather.answers):
            raise Away("the answer was lost", part)
