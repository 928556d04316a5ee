"""A world in memory and virtual time: real machines, real service, and every port full of faults.

Messages are lost, repeated, delayed and so reordered (but never more than `Weather.patience` in a
row lost, so that waiting helps); consumers, provisioner and controller fail when told to. The
network's dice are a generator that is handed in.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lagless import messages
from lagless.controller.facts import Policy
from lagless.controller.service import Service
from lagless.messages import (
    ConsumerState,
    ControllerState,
    Decision,
    Heartbeat,
    Order,
    Receipt,
    WriteSpeeds,
)
from lagless.model import Consumer, TopicPartition
from lagless.simulation.world_consumer import MemoryConsumer, born
from lagless.simulation.world_lake import MemoryLake
from lagless.simulation.world_mailbox import MemoryMailbox
from lagless.simulation.world_provisioner import MemoryProvisioner, Violation


class Killed(BaseException):
    """The controller's process ends in the middle of whatever it does."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is."""

    loss: float = 0
    repeat: float = 0
    delay: float = 0.05
    """Seconds at most, drawn evenly: messages overtake each other within it."""
    claims: float = 0
    """How often the lake cannot take claims at the end of a cycle."""
    patience: int = 2
    """Messages of one sender to one reader that may be lost in a row."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the world's processes turn, in seconds."""

    tick: float = 1
    heartbeat: float = 4
    cycle: float = 2.5
    start: float = 6
    measure: float = 5


@dataclass(slots=True)
class World:
    """Everything around the controller, and the controller itself."""

    policy: Policy
    speeds: dict[TopicPartition, float]
    generator: np.random.Generator
    weather: Weather = Weather()
    pace: Pace = Pace()
    at: float = 1000.0
    lake: MemoryLake = field(default_factory=MemoryLake)
    processes: list[MemoryConsumer] = field(default_factory=list)
    provisioner: MemoryProvisioner = field(init=False)
    service: Service | None = field(init=False, default=None)
    persisted: ControllerState | None = None
    states: dict[Consumer, ConsumerState] = field(default_factory=dict)
    mail: list[Receipt | Heartbeat] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    measured: WriteSpeeds | None = None
    epoch: int = 0
    out_until: float = 0
    """Nobody reaches the broker."""
    unmeasured_until: float = 0
    paused_until: float = 0
    kill_after_calls: int | None = None
    _queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _counter: int = 0
    _lost_in_row: dict[tuple[str, int], int] = field(default_factory=dict)
    _ends: dict[TopicPartition, float] = field(default_factory=dict)
    _grown_at: float = 1000.0
    _reader: dict[TopicPartition, MemoryConsumer] = field(default_factory=dict)
    """Who was last seen to read each partition."""

    def __post_init__(self) -> None:
        self.provisioner = MemoryProvisioner(self)
        self.later(0, self.start_controller)
        self.later(0, self._measure)

    # time

    def now(self) -> float:
        """Give the virtual time."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """Do nothing: a turn takes no virtual time."""

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something happen."""
        self._counter += 1
        heapq.heappush(self._queue, (self.at + seconds, self._counter, action))

    def run(self, until: float) -> None:
        """Let everything happen up to a moment."""
        while self._queue and self._queue[0][0] <= until:
            self.at, _, action = heapq.heappop(self._queue)
            action()
        self.at = until

    # the controller

    def start_controller(self) -> None:
        """Start a controller; one that acts already is fenced by it."""
        self.epoch += 1
        self.kill_after_calls = None
        service = Service(
            mailbox=MemoryMailbox(self, self.epoch, len(self.mail)),
            provisioner=self.provisioner,
            clock=self,
            policy=self.policy,
            record=False,
            tick=self.pace.tick,
        )
        self.service = service
        service.begin()
        self.later(0, lambda: self._turn(service))

    def kill_controller(self, restart_after: float) -> None:
        """End the controller's process, and start another later."""
        self.service = None
        self.later(restart_after, self.start_controller)

    def _turn(self, service: Service) -> None:
        if service is not self.service:
            return
        if self.at < self.paused_until:
            self.later(self.paused_until - self.at, lambda: self._turn(service))
            return
        try:
            service.turn(0)
        except Killed:
            self.kill_controller(1 + 5 * self.generator.random())
            return
        self.later(self.pace.tick, lambda: self._turn(service))

    def called(self) -> None:
        """Count a call of the controller to a port, which may be its last."""
        if self.kill_after_calls is not None:
            self.kill_after_calls -= 1
            if self.kill_after_calls < 0:
                raise Killed

    # the network

    def carry(self, road: str, consumer: Consumer, deliver: Callable[[], None]) -> None:
        """Carry a message: it may be lost, come late, and come twice."""
        weather, dice = self.weather, self.generator
        lost = self._lost_in_row.get((road, consumer), 0)
        if weather.loss and lost < weather.patience and dice.random() < weather.loss:
            self._lost_in_row[road, consumer] = lost + 1
            return
        self._lost_in_row[road, consumer] = 0
        self.later(weather.delay * dice.random(), deliver)
        if weather.repeat and dice.random() < weather.repeat:
            self.later(3 * weather.delay * dice.random(), deliver)

    def post(self, sender: MemoryConsumer, message: Receipt | Heartbeat) -> None:
        """Send from a consumer to the controller."""

        def deliver() -> None:
            if self.at >= self.out_until:
                self.mail.append(message)
                sender.heard_at = self.at

        self.carry("up", message.consumer, deliver)

    def order(self, order: Order) -> None:
        """Send to whoever reads the mailbox of the order's number, zombies too."""

        def deliver() -> None:
            for process in self.processes:
                if process.alive and process.consumer == order.consumer:
                    process.inbox.append(order)

        self.carry("down", order.consumer, deliver)

    # the monitor

    def _measure(self) -> None:
        self.later(self.pace.measure, self._measure)
        if self.at >= max(self.unmeasured_until, self.out_until):
            self.measured = WriteSpeeds(
                group=self.policy.group,
                at=self.at,
                window=30,
                speeds=messages.nest(self.speeds),
            )

    def grow(self) -> None:
        """Let the logs grow up to now, before a speed changes."""
        seconds, self._grown_at = self.at - self._grown_at, self.at
        for p, speed in self.speeds.items():
            self._ends[p] = self._ends.get(p, 0.0) + speed * seconds

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Give the ends of the logs."""
        seconds = self.at - self._grown_at
        return {
            p: int(self._ends.get(p, 0.0) + self.speeds[p] * seconds)
            for p in partitions
            if p in self.speeds
        }

    # consumers

    @property
    def start_seconds(self) -> float:
        """How long a consumer takes to be ready."""
        return self.pace.start * (0.5 + self.generator.random())

    def spawn(self, consumer: Consumer, birth: str, ready_after: float) -> MemoryConsumer:
        """Start a consumer's process."""
        name = messages.incarnation(birth, str(len(self.processes)))
        process = born(
            self.policy.group,
            consumer,
            name,
            self.lake,
            self.states.get(consumer),
            self.at + ready_after,
        )
        process.heard_at = self.at
        process.well = ready_after < self.policy.start_deadline
        self.processes.append(process)
        self.later(0.1, lambda: self._beat(process))
        self.later(ready_after, lambda: self._cycle(process))
        return process

    def _beat(self, process: MemoryConsumer) -> None:
        if not process.alive:
            return
        rest = max(process.asleep_until, self.out_until) - self.at
        if rest > 0:
            self._grow_unwell(process)
            self.later(rest, lambda: self._beat(process))
            return
        self.post(process, process.beat(self.at))
        self._grow_unwell(process)
        self.later(self.pace.heartbeat, lambda: self._beat(process))

    def _grow_unwell(self, process: MemoryConsumer) -> None:
        if self.at < self.out_until:
            process.heard_at = max(process.heard_at, self.out_until)
        asleep = max(0.0, process.asleep_until - self.at)
        if self.at - process.heard_at + asleep > self.policy.lost_after - 2:
            process.well = False

    def _cycle(self, process: MemoryConsumer) -> None:
        if not process.alive:
            return
        stuck = (process.asleep_until, process.stuck_until, process.waits_until, self.out_until)
        if max(stuck) > self.at:
            self.later(max(stuck) - self.at, lambda: self._cycle(process))
            return
        self._grow_unwell(process)
        claims = self.weather.claims
        may_claim = not claims or self.generator.random() >= claims
        receipts, state = process.end_cycle(self.at, may_claim)
        if state is not None:
            self.states[process.consumer] = state
        for receipt in receipts:
            self.post(process, receipt)
        if process.alive:
            process.begin_cycle(self.at, self.ends(process.state.held))
            self.later(
                self.pace.cycle * (0.5 + self.generator.random()), lambda: self._cycle(process)
            )
        self.check(process)

    # what must never be

    def check(self, process: MemoryConsumer) -> None:
        """See that nobody reads what this consumer reads, and that the lake is whole."""
        if process.alive and process.well:
            for p in process.state.held:
                other = self._reader.get(p)
                self._reader[p] = process
                if other is None or other is process or not (other.alive and other.well):
                    continue
                if p in other.state.held:
                    raise Violation(
                        f"{p} is read by {process.incarnation} of {process.consumer} and "
                        f"{other.incarnation} of {other.consumer} at {self.at:.1f}"
                    )
        if self.lake.faults:
            raise Violation(self.lake.faults[0])

    def check_ended(self, before: ControllerState | None, after: ControllerState) -> None:
        """See that nobody who does well and has work is given up."""
        new = after.ended.keys() - (before.ended.keys() if before is not None else ())
        for process in self.processes:
            if process.incarnation in new and process.alive and process.well and process.state.held:
                raise Violation(
                    f"{process.incarnation} of {process.consumer} does well and was given up "
                    f"at {self.at:.1f}"
                )

    def unsettled(self) -> str:
        """Say what is not as it should be at rest; "" if all is well."""
        readers: dict[TopicPartition, list[MemoryConsumer]] = {p: [] for p in self.speeds}
        loads: dict[int, float] = {}
        alive = [p for p in self.processes if p.alive]
        for process in alive:
            for p in process.state.held:
                readers.setdefault(p, []).append(process)
            loads[id(process)] = sum(self.speeds.get(p, 0.0) for p in process.state.held)
        for p, found in readers.items():
            if len(found) != (p in self.speeds):
                return f"{p} has {len(found)} readers"
        for process in alive:
            over = loads[id(process)] > self.policy.capacity and len(process.state.held) > 1
            if over and len(alive) < self.policy.max_consumers:
                return f"consumer {process.consumer} has too much"
        idle = sum(not process.state.held for process in alive)
        if idle and len(alive) > self.policy.min_consumers:
            return f"{idle} consumers idle among {len(alive)}"
        ends = self.ends(self.speeds)
        for p in self.speeds:
            behind = ends[p] - self.lake.look([p])[p].offset
            if behind > 10 * self.pace.cycle * max(self.speeds[p], 1):
                return f"{p} is {behind} behind"
        return ""


def readers(world: World) -> Mapping[TopicPartition, list[Consumer]]:
    """Give who reads each partition, by what the consumers themselves say."""
    found: dict[TopicPartition, list[Consumer]] = {p: [] for p in world.speeds}
    for process in world.processes:
        if process.alive:
            for p in process.state.held:
                found.setdefault(p, []).append(process.consumer)
    return found
