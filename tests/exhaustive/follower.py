"""The real consumer, one step at a time: end the running cycle, take orders, begin the next.

The step is that of `lagless.lab.world.SimulatedConsumer`, with the real service, cycle, claims and
orders inside, on the rules of the simulated tables. The logs have always five records more than
the table, so that a full batch is left after each cycle and the next one is begun ahead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from lagless.consumer import order_machine
from lagless.controller.state import Policy
from lagless.lab.world.simulated_consumer import Killed, SimulatedConsumer
from lagless.lab.world.simulated_tables import Landing, SimulatedLake, Violation
from lagless.lab.world.world import Weather, World
from lagless.messages import ConsumerState, Heartbeat, Order, Receipt
from lagless.model import Consumer, TopicPartition
from lagless.ports import Position, Topic
from lagless.settings import ConsumerSettings
from tests.exhaustive import leader
from tests.exhaustive.leader import POLICY
from tests.exhaustive.states import NOBODY, PARTITIONS, Memory, Pool, Process, Table

STRANGER = "stranger"
MORE = 5
"""Records in each log that are not in the table."""
TOPIC = Topic("t", "id")
SETTINGS = ConsumerSettings(
    batch_bytes=1,
    max_batch_bytes=2,
    wait_seconds=0.1,
    heartbeat=4,
    lost_after=30,
    cycle_deadline=60,
)


class Trouble(NamedTuple):
    """What goes wrong in a step."""

    refuses: str = ""
    """Whether the table takes no "claim" or no "commit", for no reason."""
    lost_answer: int = NOBODY
    """Which answer does not come back."""
    calls: int | None = None
    """How many calls of ports the process lives to see."""


WELL = Trouble()


class Lost(NamedTuple):
    """What was lost for good before a step."""

    is_reset: bool = False
    """The group's offsets in Kafka."""
    is_state: bool = False
    """What the controller persisted: it may give a generation to two consumers."""


class Stepped(NamedTuple):
    """What a step did."""

    memory: int
    """NOBODY: the process has ended."""
    tables: tuple[Table | None, ...]
    kept: int
    sent: tuple[int, ...]
    unread: tuple[int, ...]
    """Orders that were not taken."""
    read: frozenset[int]
    """The partitions of which records landed."""
    calls: int
    answers: int
    notes: tuple[str, ...]
    wrong: str = ""


class _Lake(SimulatedLake):
    """The table's rules, and a list of what was accepted."""

    def claim(self, partitions: Any, generation: int) -> None:
        super().claim(partitions, generation)
        self.accepted().extend((p, generation, None) for p in sorted(partitions))

    def _record(self, partition: TopicPartition, landing: Landing) -> None:
        self.accepted().append((partition, landing.generation, landing))

    def accepted(self) -> list[tuple[TopicPartition, int, Landing | None]]:
        """Return what was accepted, in order."""
        return cast(Any, self.ledger).setdefault("accepted", [])  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Surroundings:
    """What a consumer's process meets of the world in one step."""

    lake: _Lake
    states: dict[Consumer, ConsumerState]
    ends: dict[TopicPartition, int]
    group: dict[TopicPartition, int]
    weather: Weather
    lost_answer: int
    policy: Policy = POLICY
    consumer_settings: ConsumerSettings = SETTINGS
    counts: dict[str, int] = field(default_factory=lambda: {"t": len(PARTITIONS)})
    at: float = 0.0
    is_out: bool = False
    answers: int = 0
    sent: list[Receipt | Heartbeat] = field(default_factory=list)

    def happens(self, share: float) -> bool:
        """Return whether something happens: always, never, or at one of several times."""
        if 0 < share < 1:
            self.answers += 1
            return self.answers - 1 == self.lost_answer
        return share > 0

    def end(self, partition: TopicPartition) -> int:
        """Return where a log ends."""
        return self.ends[partition]

    def post(self, sender: SimulatedConsumer, message: Receipt | Heartbeat) -> None:
        """Send to the controller."""
        if isinstance(message, Receipt) or message.state == "ending":
            self.sent.append(leader.plain(message))


class Follower:
    """Steps of consumers, each worked out once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._steps: dict[object, Stepped] = {}
        self._beats: dict[tuple[int, str], int] = {}

    def spawn(self, number: Consumer, incarnation: str, kept: int) -> int:
        """Return the memory of a new process."""
        recalled = None if kept == NOBODY else self._pool[kept]
        state = order_machine.begin(POLICY.group, number, incarnation, recalled)
        return self._pool.put(Memory(state))

    def held(self, process: Process) -> frozenset[TopicPartition]:
        """Return what a process reads."""
        return frozenset(self._pool[process.memory].state.held)

    def beat(self, process: Process) -> int:
        """Return the heartbeat that a process sends now."""
        key = (process.memory, process.incarnation)
        if key not in self._beats:
            memory: Memory = self._pool[process.memory]
            beat = order_machine.heartbeat(memory.state, 0.0, ready=memory.is_ready)
            self._beats[key] = self._pool.put(leader.plain(beat))
        return self._beats[key]

    def late_beat(self, process: Process) -> int:
        """Return the heartbeat that a process sends now, for one who hears it much later."""
        beat = self._pool[self.beat(process)]
        return self._pool.put(beat.model_copy(update={"at": leader.LONG_AGO}))

    def step(
        self,
        process: Process,
        tables: tuple[Table | None, ...],
        kept: int,
        lost: Lost,
        trouble: Trouble = WELL,
    ) -> Stepped:
        """End the running cycle, take orders and begin the next cycle."""
        key = (
            process.number,
            process.memory,
            process.inbox,
            process.is_terminated,
            tables,
            kept,
            lost,
            trouble,
        )
        if key not in self._steps:
            try:
                stepped = self._step(process, tables, kept, lost, trouble)
            except Violation as wrong:
                nothing = Stepped(process.memory, tables, kept, (), (), frozenset(), 0, 0, ())
                stepped = nothing._replace(wrong=str(wrong))
            self._steps[key] = stepped
        return self._steps[key]

    def _step(
        self,
        process: Process,
        tables: tuple[Table | None, ...],
        kept: int,
        lost: Lost,
        trouble: Trouble,
    ) -> Stepped:
        memory: Memory = self._pool[process.memory]
        around = _surroundings(tables, lost.is_reset, trouble)
        if kept != NOBODY:
            around.states[process.number] = self._pool[kept]
        inbox: Sequence[Order] = [self._pool[number] for number in process.inbox]
        simulated = SimulatedConsumer(
            cast(World, around), process.number, process.incarnation, 0.0, inbox
        )
        _remember(simulated, memory)
        calls = _counting(simulated)
        simulated.dies_after = trouble.calls
        is_dead = False
        try:
            simulated.step()
        except Killed:
            is_dead = True
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{process.incarnation} ended: {error!r}") from error
        name = process.incarnation
        after, read = _account(tables, around.lake, name, lost.is_state)
        state = around.states.get(process.number)
        notes = [f"{p} claimed under generation {g}" for p, g, x in around.lake.accepted() if not x]
        notes += [
            f"{p} offsets {x.span.first} to {x.span.until - 1} landed"
            for p, _, x in around.lake.accepted()
            if x
        ]
        return Stepped(
            NOBODY if is_dead or not simulated.alive else self._pool.put(_memory(simulated)),
            after,
            NOBODY if state is None else self._pool.put(_persisted(state)),
            tuple(map(self._pool.put, around.sent)),
            process.inbox if simulated.mailbox.inbox else (),
            read,
            calls(),
            around.answers,
            tuple(notes),
        )


def _surroundings(
    tables: tuple[Table | None, ...], is_reset: bool, trouble: Trouble
) -> _Surroundings:
    positions = {
        p: Position(t.offset, t.owner)
        for p, t in zip(PARTITIONS, tables, strict=True)
        if t is not None
    }
    return _Surroundings(
        _Lake(positions, topics={"t"} if positions else set()),
        {},
        {p: (positions[p].offset if p in positions else 0) + MORE for p in PARTITIONS},
        dict.fromkeys(PARTITIONS, 0) if is_reset else {},
        Weather(
            claims=float(trouble.refuses == "claim"),
            refusals=float(trouble.refuses == "commit"),
            answers=0.5,
        ),
        trouble.lost_answer,
    )


def _remember(simulated: SimulatedConsumer, memory: Memory) -> None:
    """Give a process the memory that it had after its last step."""
    service: Any = simulated.service
    service.orders.state = memory.state
    service.orders.persisted = memory.persisted
    cast(Any, simulated.mailbox)._persisted = memory.persisted
    service.vitals.ready = memory.is_ready
    service._cold = not memory.is_ready
    service._rested = -1.0
    service._cycle.positions = dict(memory.positions)
    service._cycle.weights.measured = {"t": 1.0}
    service._cycle.claims.topics = {"t": TOPIC}
    tables: Any = simulated._tables
    tables._begun = {TOPIC: memory.begun} if memory.begun else {}
    tables.view = dict(memory.view)


def _memory(simulated: SimulatedConsumer) -> Memory:
    service: Any = simulated.service
    tables: Any = simulated._tables
    state: order_machine.State = service.orders.state
    held = dict(sorted(state.held.items()))
    return Memory(
        replace(state, held=held, owed=tuple(state.owed)),
        service.orders.persisted,
        service.vitals.ready,
        dict(service._cycle.positions),
        dict(tables._begun.get(TOPIC, {})),
        dict(tables.view),
    )


def _persisted(state: ConsumerState) -> ConsumerState:
    return state.model_copy(update={"at": 0.0, "revision": 0, "incarnation": ""})


def _counting(simulated: SimulatedConsumer) -> Callable[[], int]:
    count = 0
    call = simulated.call

    def counted() -> None:
        nonlocal count
        count += 1
        call()

    simulated.call = counted  # type: ignore[method-assign]
    return lambda: count


def _account(
    tables: tuple[Table | None, ...], lake: _Lake, name: str, generations_reused: bool
) -> tuple[tuple[Table | None, ...], frozenset[int]]:
    """Return the tables after a step; raise Violation if something landed that must not."""
    newest = {p: t.newest if t else (0, "") for p, t in zip(PARTITIONS, tables, strict=True)}
    reached = {p: t.offset if t else 0 for p, t in zip(PARTITIONS, tables, strict=True)}
    read = set()
    for p, generation, landing in lake.accepted():
        if landing is None:
            # A stranger takes the next number unasked, which a later order may have as well.
            same = generation == newest[p][0] and newest[p][1] not in (name, STRANGER)
            if same and not generations_reused:
                raise Violation(
                    f"{p}: {newest[p][1]} and {name} both claimed under generation {generation}"
                )
            if generation >= newest[p][0]:
                newest[p] = (generation, name)
            continue
        if landing.span.first != reached[p]:
            what = "landed again" if landing.span.first < reached[p] else "were skipped"
            raise Violation(
                f"{p}: {name} landed from offset {landing.span.first} where {reached[p]} was "
                f"next: rows {what}"
            )
        if (generation, name) != newest[p] and not (
            generations_reused and generation == newest[p][0]
        ):
            raise Violation(
                f"{p}: {name} committed under generation {generation}, and the newest claim is "
                f"{newest[p][1]}'s under {newest[p][0]}"
            )
        reached[p] = landing.span.until
        read.add(p.partition)
    after: list[Table | None] = []
    for p, before in zip(PARTITIONS, tables, strict=True):
        at = lake.positions.get(p)
        if at is None:
            after.append(None)
            continue
        if before is not None and at.offset < before.offset:
            raise Violation(f"{p}: the offset went back from {before.offset} to {at.offset}")
        after.append(Table(at.offset, at.owner, newest[p]))
    return tuple(after), frozenset(read)
