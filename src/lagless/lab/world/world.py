"""A group in memory and virtual time: the real controller and real consumers on faulty ports.

Everything that happens is an action in a queue, at a moment; nothing runs in a thread, and the dice
are a generator that is handed in, so the same world runs the same way again. Messages are lost,
repeated, delayed and so reordered (but never more than `Weather.patience` lost in a row, so that
waiting helps). The lake refuses and loses answers; all else fails on request.

`check`, `check_ended` and the provisioner raise Violation where something is not as it must be at
every moment; `unsettled` tells what must hold once the faults are over (docs/controller.md).
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

import numpy as np

from lagless import messages
from lagless.controller import calm
from lagless.controller.service import Service
from lagless.controller.state import Policy
from lagless.lab.world.simulated_consumer import GATHER, Killed, SimulatedConsumer
from lagless.lab.world.simulated_mailbox import SimulatedControllerMailbox
from lagless.lab.world.simulated_provisioner import SimulatedProvisioner
from lagless.lab.world.simulated_tables import SimulatedLake, Violation
from lagless.model import Consumer, TopicPartition
from lagless.settings import ConsumerSettings

Mail: TypeAlias = messages.Receipt | messages.Heartbeat


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is."""

    loss: float = 0
    repeat: float = 0
    delay: float = 0.05
    """Seconds at most, drawn evenly: messages overtake each other within it."""
    claims: float = 0
    """How often the lake does not accept a claim."""
    refusals: float = 0
    """How often the lake does not accept a commit, for no reason that the reader knows."""
    answers: float = 0
    """How often a claim, a commit or a persisted state arrives and its answer is lost."""
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
    lake: SimulatedLake = field(default_factory=SimulatedLake)
    processes: list[SimulatedConsumer] = field(default_factory=list)
    provisioner: SimulatedProvisioner = field(init=False)
    service: Service | None = field(init=False, default=None)
    persisted: messages.ControllerState | None = None
    states: dict[Consumer, messages.ConsumerState] = field(default_factory=dict)
    mail: list[Mail] = field(default_factory=list)
    asked: list[messages.Operation] = field(default_factory=list)
    """Operators' commands that no controller has read yet."""
    decisions: list[messages.AnyDecision] = field(default_factory=list)
    orders: list[messages.Order] = field(default_factory=list)
    measured: messages.WriteSpeeds | None = None
    group: dict[TopicPartition, int] = field(default_factory=dict)
    """The offsets committed to Kafka's group."""
    counts: dict[str, int] = field(default_factory=dict)
    """Partitions of each topic; Kafka never takes one away."""
    consumer_settings: ConsumerSettings = field(init=False)
    epoch: int = 0
    out_until: float = 0
    """The broker is down."""
    unmeasured_until: float = 0
    paused_until: float = 0
    kill_after_calls: int | None = None
    _queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _counter: Iterator[int] = field(default_factory=count)
    _lost_in_row: dict[tuple[str, int], int] = field(default_factory=dict)
    _ends: dict[TopicPartition, float] = field(default_factory=dict)
    _operation: str = ""
    """The operator's last command."""
    _grown_at: float = 1000.0
    _reader: dict[TopicPartition, SimulatedConsumer] = field(default_factory=dict)
    """The consumer last seen to read each partition."""

    def __post_init__(self) -> None:
        bytes_per_cycle = max(1, int(self.policy.capacity * self.pace.cycle))
        self.consumer_settings = ConsumerSettings(
            batch_bytes=bytes_per_cycle,
            max_batch_bytes=8 * bytes_per_cycle,
            wait_seconds=GATHER / 2,
            heartbeat=self.pace.heartbeat,
            lost_after=self.policy.lost_after,
            cycle_deadline=self.policy.cycle_deadline,
        )
        self.change(self.speeds)
        self.provisioner = SimulatedProvisioner(self)
        self.later(0, self.start_controller)
        self.later(0, self._measure)

    # time

    def now(self) -> float:
        """Return the virtual time."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """Do nothing: a turn takes no virtual time."""

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something happen."""
        heapq.heappush(self._queue, (self.at + seconds, next(self._counter), action))

    def happens(self, share: float) -> bool:
        """Return whether something happens that happens in this share of cases."""
        return share > 0 and self.generator.random() < share

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
            mailbox=SimulatedControllerMailbox(self, self.epoch, len(self.mail)),
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
        rest = self.paused_until - self.at
        try:
            if rest <= 0:
                service.turn(0)
        except Killed:
            self.kill_controller(1 + 5 * self.generator.random())
        else:
            self.later(rest if rest > 0 else self.pace.tick, lambda: self._turn(service))

    def called(self) -> None:
        """Count a call of the controller to a port, which may be its last."""
        if self.kill_after_calls is not None:
            self.kill_after_calls -= 1
            if self.kill_after_calls < 0:
                raise Killed

    # the network

    @property
    def is_out(self) -> bool:
        """Return whether the broker is down."""
        return self.at < self.out_until

    def carry(self, road: str, consumer: Consumer, deliver: Callable[[], None]) -> None:
        """Carry a message: it may be lost, come late, and come twice."""
        weather, dice = self.weather, self.generator
        lost = self._lost_in_row.get((road, consumer), 0)
        if lost < weather.patience and self.happens(weather.loss):
            self._lost_in_row[road, consumer] = lost + 1
            return
        self._lost_in_row[road, consumer] = 0
        self.later(weather.delay * dice.random(), deliver)
        if self.happens(weather.repeat):
            self.later(3 * weather.delay * dice.random(), deliver)

    def post(self, sender: SimulatedConsumer, message: Mail) -> None:
        """Send from a consumer to the controller."""

        def deliver() -> None:
            if not self.is_out:
                self.mail.append(message)
                sender.heard_at = self.at

        self.carry("up", message.consumer, deliver)

    def order(self, order: messages.Order) -> None:
        """Send to every process that reads the mailbox of the order's number, zombies too."""

        def deliver() -> None:
            for process in self.processes:
                if process.alive and process.consumer == order.consumer:
                    process.mailbox.inbox.append(order)

        self.carry("down", order.consumer, deliver)

    def operate(self, kind: messages.OperationKind) -> None:
        """Send an operator's command until the controller has taken it."""
        name = f"{kind}-{next(self._counter)}"
        until = messages.nest({p: self.end(p) for p in self.speeds}) if kind == "drain" else {}
        command = messages.Operation(
            group=self.policy.group, operation=kind, id=name, who="anna", until=until, at=self.at
        )

        def send() -> None:
            taken = self.persisted.mode.taken if self.persisted is not None else ()
            if name in taken or self._operation != name:
                return
            if not self.is_out:
                self.asked += [command] * (1 + self.happens(self.weather.repeat))
            self.later(1, send)

        self._operation = name
        send()

    # the monitor

    def _measure(self) -> None:
        self.later(self.pace.measure, self._measure)
        if self.at >= max(self.unmeasured_until, self.out_until):
            group, speeds = self.policy.group, messages.nest(self.speeds)
            self.measured = messages.WriteSpeeds(group=group, at=self.at, window=30, speeds=speeds)

    def change(self, speeds: Mapping[TopicPartition, float]) -> None:
        """Let the logs grow as they did until now, and at these speeds from now on."""
        for p in self.speeds:
            self._ends[p] = self._end(p)
        self._grown_at = self.at
        self.speeds = dict(speeds)
        for p in speeds:
            self.counts[p.topic] = max(self.counts.get(p.topic, 0), p.partition + 1)

    def end(self, partition: TopicPartition) -> int:
        """Return where a log ends."""
        return int(self._end(partition))

    def _end(self, partition: TopicPartition) -> float:
        grown = self.speeds.get(partition, 0.0) * (self.at - self._grown_at)
        return self._ends.get(partition, 0.0) + grown

    # consumers

    @property
    def start_seconds(self) -> float:
        """How long a consumer takes to be ready."""
        return self.pace.start * (0.5 + self.generator.random())

    def spawn(self, consumer: Consumer, birth: str, ready_after: float) -> SimulatedConsumer:
        """Start a consumer's process."""
        name = messages.incarnation(birth, str(len(self.processes)))
        # Kafka keeps what earlier incarnations of the number did not read.
        earlier = [p.mailbox.inbox for p in self.processes if p.consumer == consumer] or [[]]
        process = SimulatedConsumer(self, consumer, name, self.at + ready_after, earlier[-1])
        process.well = ready_after < self.policy.start_deadline
        self.processes.append(process)
        self.later(0.1, lambda: self._beat(process))
        self.later(ready_after, lambda: self._step(process))
        return process

    def _beat(self, process: SimulatedConsumer) -> None:
        if not process.alive:
            return
        rest = max(process.asleep_until, self.out_until) - self.at
        if rest <= 0:
            process.beat()
        self._grow_unwell(process)
        self.later(rest if rest > 0 else self.pace.heartbeat, lambda: self._beat(process))

    def _grow_unwell(self, process: SimulatedConsumer) -> None:
        if self.is_out:
            process.heard_at = max(process.heard_at, self.out_until)
        asleep = max(0.0, process.asleep_until - self.at)
        if self.at - process.heard_at + asleep > self.policy.lost_after - 2:
            process.well = False

    def _step(self, process: SimulatedConsumer) -> None:
        if not process.alive:
            return
        rest = process.stands_until - self.at
        if rest > 0:
            self.later(rest, lambda: self._step(process))
            return
        self._grow_unwell(process)
        try:
            process.step()
        except Killed:
            process.alive = False
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{process} ended: {error!r}") from error
        if process.alive:
            seconds = self.pace.cycle * (0.5 + self.generator.random())
            self.later(seconds, lambda: self._step(process))
        self.check(process)

    # invariants

    def check(self, process: SimulatedConsumer) -> None:
        """Raise Violation if another reads what this consumer reads, or the ledger has a fault."""
        for p in process.held if process.well else ():
            other = self._reader.get(p, process)
            self._reader[p] = process
            if other is not process and other.well and p in other.held:
                raise Violation(f"{p} is read by {process} and {other} at {self.at:.1f}")
        if self.lake.faults:
            raise Violation(self.lake.faults[0])

    def check_ended(self, incarnations: Collection[str]) -> None:
        """Raise Violation if a healthy consumer with partitions is given up."""
        for process in self.processes:
            if process.incarnation in incarnations and process.well and process.held:
                raise Violation(f"{process} is healthy and was given up at {self.at:.1f}")

    def unsettled(self) -> str:
        """Return what is not as it should be at rest; "" if all is well."""
        at_rest = self.policy.min_consumers == 0 and not any(self.speeds.values())
        for p, consumers in readers(self).items():
            if len(consumers) != (p in self.speeds) and not (at_rest and not consumers):
                return f"{p} has {len(consumers)} readers"
        alive = [process for process in self.processes if process.alive]
        for process in alive:
            load = sum(self.speeds.get(p, 0.0) for p in process.held)
            over = load > calm.limit(self.policy) and len(process.held) > 1
            if over and len(alive) < self.policy.max_consumers:
                return f"consumer {process.consumer} has too much"
        idle = sum(not process.held for process in alive)
        spares = self.policy.spare_consumers
        if idle > spares and len(alive) > self.policy.min_consumers + spares:
            return f"{idle} consumers idle among {len(alive)}"
        if idle < spares:
            return f"{idle} spares of {spares}"
        for p in self.speeds:
            landings = self.lake.ledger.get(p)
            behind = self.end(p) - (landings[-1].span.until if landings else 0)
            if behind > 10 * self.pace.cycle * max(self.speeds[p], 1):
                return f"{p} is {behind} behind"
        return ""


def readers(world: World) -> Mapping[TopicPartition, list[Consumer]]:
    """Return the consumers that say they read each partition."""
    consumers: dict[TopicPartition, list[Consumer]] = {p: [] for p in world.speeds}
    for process in world.processes:
        for p in process.held:
            consumers.setdefault(p, []).append(process.consumer)
    return consumers
