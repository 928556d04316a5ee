"""The real controller, one turn at a time, with time in coarse steps.

Time stands still while messages go to and fro, and every moment that the controller remembers is
either now or past: `settled` moves what is past to one and the same moment. Three kinds of events
let time go by: a while (everything that is repeated is due), the end of the patience with a
consumer that cannot speak, and the controller's own pause.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from lagless import messages
from lagless.controller import machine
from lagless.controller.events import (
    Create,
    Delete,
    Event,
    Listed,
    Mail,
    Measured,
    NotCreated,
    Persist,
    Provisioned,
    Tick,
)
from lagless.controller.state import Member, Policy, State
from lagless.messages import Decision, Heartbeat, Order, PhaseChanged, Receipt, WriteSpeeds
from lagless.model import Cause, Consumer, Phase
from lagless.ports import Instance
from tests import policies
from tests.controller import histories
from tests.exhaustive.states import NOBODY, PARTITIONS, Outbox, Pool, Process, Slot

PAST = -1.0
LONG_AGO = -1000.0
A_WHILE = 1.0
A_PAUSE = 50.0
"""For which a controller stands still: longer than anyone may be silent."""
POLICY: Policy = policies.policy(
    histories.pack,
    capacity=100.0,
    min_consumers=1,
    max_consumers=2,
    iteration=A_WHILE,
    pause=A_WHILE,
    breath=A_WHILE,
    repeat=A_WHILE,
    catch_up=0,
    patience=10,
    lost_after=10,
    start_deadline=10,
    order_deadline=10,
    cycle_deadline=10,
    stale_after=1e9,
    max_gap=5,
)
CONTRADICTION = "!"
"""Begins a note that reality was not what was believed."""


class Leader:
    """Turns of the controller, each worked out once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._turns: dict[object, tuple[int, Outbox]] = {}

    def begin(
        self, kept: int, slots: Sequence[Slot], alive: frozenset[str], busy: bool
    ) -> tuple[int, Outbox]:
        """Begin to lead, and look at everything once."""
        persisted = None if kept == NOBODY else self._pool[kept]
        state = machine.begin(persisted, 0.0)
        listed = Listed(0.0, tuple((p.topic, p.partition) for p in PARTITIONS))
        events: list[Event] = [listed, _provisioned(slots, alive), _measured(busy)]
        return self._take(state, events)

    def hear(self, lead: int, mail: tuple[int, ...]) -> tuple[int, Outbox]:
        """Take mail."""
        return self._once(("hear", lead, mail), lead, lambda: [self._mail(mail)])

    def look(self, lead: int, slots: Sequence[Slot], alive: frozenset[str]) -> tuple[int, Outbox]:
        """Look at the provisioner's consumers."""
        key = ("look", lead, tuple(slots), tuple(s.birth in alive for s in slots))
        return self._once(key, lead, lambda: [_provisioned(slots, alive)])

    def knows(self, lead: int, slots: Sequence[Slot], alive: frozenset[str]) -> bool:
        """Return whether a look would show nothing new."""
        seen = self._pool[lead].instances
        now = {s.number: (s.birth, _phase(s, alive)) for s in slots}
        return seen is not None and now == {n: (i.birth, i.phase) for n, i in seen.items()}

    def fail(
        self, lead: int, slots: Sequence[Slot], alive: frozenset[str], numbers: Iterable[Consumer]
    ) -> tuple[int, Outbox]:
        """Learn that consumers could not be created, as the service tells it."""
        troubles = dict.fromkeys(numbers, "is still being deleted")
        events: list[Event] = [_provisioned(slots, alive), NotCreated(0.0, troubles)]
        return self._take(self._pool[lead], events)

    def measure(self, lead: int, busy: bool) -> tuple[int, Outbox]:
        """Learn speeds."""
        return self._once(("measure", lead, busy), lead, lambda: [_measured(busy)])

    def wait(
        self, lead: int, beats: tuple[int, ...], slots: Sequence[Slot], alive: frozenset[str]
    ) -> tuple[int, Outbox]:
        """Let a while go by, in which everyone who can speaks, and the controller looks."""
        mail: list[Event] = [self._mail(beats)] if beats else []
        key = ("wait", lead, beats, tuple(slots), tuple(s.birth in alive for s in slots))
        return self._once(key, lead, lambda: [*mail, _provisioned(slots, alive), Tick(A_WHILE)])

    def wake(self, lead: int) -> tuple[int, Outbox]:
        """Go on after a pause."""
        return self._once(("wake", lead), lead, lambda: [Tick(A_PAUSE)])

    def is_heard(self, lead: int) -> bool:
        """Return whether everyone had time to speak since the controller began to listen."""
        return bool(self._pool[lead].hearing_since < 0)

    def silent(self, lead: int, processes: Sequence[Process]) -> list[Consumer]:
        """Return the consumers with which the controller's patience may end."""
        state: State = self._pool[lead]
        if not self.is_heard(lead):
            return []
        running = {p.incarnation for p in processes if p.is_running}
        numbers = {p.number for p in processes if p.is_running}
        gone = {n for n, m in state.members.items() if m.incarnation not in running}
        unborn = {n for n in state.requests if n not in state.members and n not in numbers}
        created = {n for n in unborn if n in (state.instances or {})}
        return sorted(gone | created)

    def give_up(self, lead: int, number: Consumer) -> tuple[int, Outbox]:
        """Lose patience with a consumer that cannot speak."""
        state: State = self._pool[lead]
        member = state.members.get(number)
        if member is not None:
            state = state.with_member(replace(member, heard_at=LONG_AGO))
        request = state.requests.get(number)
        if request is not None:
            old = replace(request, since=LONG_AGO)
            state = replace(state, requests={**state.requests, number: old})
        return self._once(("give up", lead, number), lead, lambda: [Tick(0.0)], state)

    def _mail(self, mail: tuple[int, ...]) -> Mail:
        return Mail(0.0, tuple(self._pool[number] for number in mail))

    def _once(
        self,
        key: object,
        lead: int,
        events: Callable[[], Sequence[Event]],
        state: State | None = None,
    ) -> tuple[int, Outbox]:
        if key not in self._turns:
            self._turns[key] = self._take(state or self._pool[lead], events())
        return self._turns[key]

    def _take(self, state: State, events: Sequence[Event]) -> tuple[int, Outbox]:
        """Step through events as the service does: what is created last is persisted first."""
        outbox = Outbox()
        for event in events:
            state, given = machine.step(state, event, POLICY)
            outbox = self._add(outbox, given)
        return self._pool.put(settled(state)), outbox

    def _add(self, outbox: Outbox, given: Sequence[object]) -> Outbox:
        for instruction in given:
            match instruction:
                case Order():
                    order = self._pool.put(instruction.model_copy(update={"at": 0.0}))
                    if order not in outbox.orders:
                        outbox = outbox._replace(orders=(*outbox.orders, order), is_urgent=True)
                case Persist(state):
                    kept = self._pool.put(state.model_copy(update={"at": 0.0}))
                    outbox = outbox._replace(kept=kept, is_urgent=True)
                case Create(consumers):
                    outbox = outbox._replace(create=tuple(sorted({*outbox.create, *consumers})))
                case Delete(consumers):
                    doomed = tuple(sorted({**dict(outbox.delete), **consumers}.items()))
                    outbox = outbox._replace(delete=doomed)
                case Decision():
                    note = f"{instruction.decision}: {instruction.reason}"
                    if isinstance(instruction, PhaseChanged):
                        is_doubt = instruction.details.cause is Cause.CONTRADICTION
                        note = f"{CONTRADICTION if is_doubt else ''}{instruction.phase}: " + (
                            instruction.reason
                        )
                    outbox = outbox._replace(notes=(*outbox.notes, note), is_urgent=True)
        return outbox


def settled(state: State) -> State:
    """Return the state at time 0, with all that is past at one moment."""
    age = partial(_age, state.at)
    synchronizes = state.phase is Phase.SYNCHRONIZE
    begins = state.synchronizing_since > PAST
    return replace(
        state,
        at=0.0,
        began_at=LONG_AGO,
        hearing_since=LONG_AGO if state.at - state.hearing_since >= A_WHILE else 0.0,
        synchronizing_since=PAST,
        fence=state.fence if synchronizes else 0,
        known=state.known if state.known > state.generation else 0,
        members={
            n: _settled(m, age, synchronizes, begins) for n, m in sorted(state.members.items())
        },
        ended={i: (n, 0.0) for i, (n, _) in sorted(state.ended.items())},
        requests={
            n: replace(r, since=0.0, created_at=age(r.created_at))
            for n, r in sorted(state.requests.items())
        },
        partitions=state.partitions and dict.fromkeys(state.partitions, LONG_AGO),
        measured_at=0.0 if state.speeds else float("-inf"),
        backlog={},
        deleted_at={n: 0.0 for n, at in state.deleted_at.items() if age(at) == 0.0},
        reassigned_at=age(state.reassigned_at),
        failures=min(state.failures, 2),
        no_creation_until=A_WHILE / 2 if state.no_creation_until > state.at else PAST,
        first_order_at=None,
    )


def _age(now: float, at: float) -> float:
    return PAST if now - at >= A_WHILE else 0.0


def _settled(
    member: Member, age: Callable[[float], float], synchronizes: bool, begins: bool
) -> Member:
    last = member.last
    if last is not None:
        # It is looked at only to tell who is starting while a Synchronize waits for reports.
        is_starting = last.state == "starting" and not last.held and last.at == 0
        counts = synchronizes and not begins and is_starting
        last = last.model_copy(update={"highest": 0, "revision": 0}) if counts else None
    return replace(
        member,
        heard_at=0.0,
        held=dict(sorted(member.held.items())),
        asked={
            p: replace(a, since=0.0, sent_at=age(a.sent_at))
            for p, a in sorted(member.asked.items())
        },
        last=last,
        waited_at=float("-inf"),
        reported_at=age(member.reported_at) if synchronizes else PAST,
    )


def plain(message: Receipt | Heartbeat) -> Receipt | Heartbeat:
    """Return a message without what only people and dashboards read."""
    if isinstance(message, Receipt):
        return message.model_copy(update={"at": 0.0})
    return Heartbeat(
        group=message.group,
        consumer=message.consumer,
        incarnation=message.incarnation,
        highest=message.highest,
        revision=message.revision,
        state=message.state,
        held=message.held,
        at=0.0,
    )


def _phase(slot: Slot, alive: frozenset[str]) -> str:
    return "deleting" if slot.is_deleting else "running" if slot.birth in alive else "failed"


def _provisioned(slots: Iterable[Slot], alive: frozenset[str]) -> Provisioned:
    return Provisioned(
        0.0,
        tuple(
            Instance(s.number, _phase(s, alive), 0.0, birth=s.birth)  # type: ignore[arg-type]
            for s in slots
        ),
    )


def _measured(busy: bool) -> Measured:
    speed = 60.0 if busy else 30.0
    speeds = messages.nest(dict.fromkeys(PARTITIONS, speed))
    return Measured(0.0, WriteSpeeds(group=POLICY.group, at=0.0, window=30, speeds=speeds))
