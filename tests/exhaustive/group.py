"""What a move does: the parts of the world act on each other, and nothing is chosen here.

The controller's orders and what it persists go out together, then the provisioner is called. A
consumer's step changes the tables, what it persisted, and the mail.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from lagless import messages
from lagless.lab.world.simulated_tables import Violation
from lagless.messages import ControllerState, Order
from lagless.model import Consumer
from tests.exhaustive.follower import Follower, Lost, Stepped, Trouble
from tests.exhaustive.leader import Leader
from tests.exhaustive.states import NOBODY, Outbox, Pool, Process, Slot, World

T = TypeVar("T")
Label = tuple[object, ...]
"""What a move is: its kind, and whom it concerns."""
Changes = tuple[World, tuple[str, ...]]
"""The world after a move, and what was decided."""
Change = Callable[[], Changes]
Turning = Callable[[], tuple[World, int, Outbox]]
"""A turn of the controller that is not carried out yet."""


class Move(NamedTuple):
    """What happened, and the world after it."""

    label: Label
    world: World
    notes: tuple[str, ...] = ()
    wrong: str = ""
    """What the world saw that must never happen."""
    only_reads: bool = False


class Group:
    """The controller and the consumers of one search; what was worked out once is kept."""

    def __init__(self, faults: dict[str, int]) -> None:
        self.pool = Pool()
        self.leader = Leader(self.pool)
        self.follower = Follower(self.pool)
        self.names = tuple(faults)
        self.budget = tuple(faults.values())

    def left(self, world: World, fault: str) -> int:
        return world.left[self.names.index(fault)] if fault in self.names else 0

    def spent(self, world: World, fault: str) -> World:
        i = self.names.index(fault)
        return world._replace(left=(*world.left[:i], world.left[i] - 1, *world.left[i + 1 :]))

    def happened(self, world: World, fault: str) -> bool:
        if fault not in self.names:
            return False
        i = self.names.index(fault)
        return world.left[i] < self.budget[i]

    def check_healthy(self, world: World, incarnations: Iterable[str], what: str) -> None:
        named = set(incarnations)
        for process in world.processes:
            well = process.is_running and process.is_well
            if well and process.incarnation in named and self.follower.held(process):
                raise Violation(f"{process.incarnation} is healthy and reads, and {what}")

    def turns(self, world: World) -> Iterator[tuple[Label, Turning]]:
        """Return the turns that the controller may take next."""
        lead, leader = world.lead, self.leader
        if lead == NOBODY:
            return
        births = alive(world)
        queued = dict(world.mail)
        for n, mail in world.mail:
            rest = tuple((k, found) for k, found in world.mail if k != n)
            yield ("hear", n), turning(leader.hear, lead, mail, world._replace(mail=rest))
        for process in world.processes:
            if process.is_running and process.number not in queued:
                beat = (self.follower.beat(process),)
                yield ("beat", process.incarnation), turning(leader.hear, lead, beat, world)
        if not leader.knows(lead, world.slots, births):
            yield ("look",), lambda: (world, *leader.look(lead, world.slots, births))
        for n in leader.silent(lead, world.processes):
            yield ("give up", n), turning(leader.give_up, lead, n, world)
        for i, number in enumerate(world.astray):
            if not isinstance(self.pool[number], Order):
                others = (*world.astray[:i], *world.astray[i + 1 :])
                late = world._replace(astray=others)
                yield ("astray", i), turning(leader.hear, lead, (number,), late)
        waiting = any(p.inbox for p in world.processes if p.is_running)
        if not waiting and not world.mail and leader.knows(lead, world.slots, births):
            beats = tuple(self.follower.beat(p) for p in world.processes if p.is_running)
            yield ("wait",), lambda: (world, *leader.wait(lead, beats, world.slots, births))

    def deliver(self, world: World, lead: int, outbox: Outbox) -> Changes:
        sent = self.send(world._replace(lead=lead), outbox)
        return self.provision(sent, outbox), outbox.notes

    def send(self, world: World, outbox: Outbox) -> World:
        if outbox.kept != NOBODY:
            before: ControllerState | None = None if world.kept == NOBODY else self.pool[world.kept]
            ended = self.pool[outbox.kept].ended.keys()
            new = ended - (before.ended.keys() if before is not None else set())
            self.check_healthy(world, new, "is given up")
            world = world._replace(kept=outbox.kept)
        for number in outbox.orders:
            world = self.order(world, number)
        return world

    def order(self, world: World, number: int) -> World:
        order: Order = self.pool[number]
        return world._replace(
            processes=tuple(
                p._replace(inbox=(*p.inbox, number))
                if p.number == order.consumer and number not in p.inbox
                else p
                for p in world.processes
            )
        )

    def provision(self, world: World, outbox: Outbox) -> World:
        """Call the provisioner; tell the controller at its next turn what could not be created."""
        for n, incarnation in outbox.delete:
            world = self._delete(world, n, incarnation)
        troubles = []
        for n in outbox.create:
            slot = next((s for s in world.slots if s.number == n), None)
            if slot is None:
                world = self._create(world, n)
            elif slot.is_deleting:
                troubles.append(n)
        if troubles and world.lead != NOBODY:
            turn = self.leader.fail(world.lead, world.slots, alive(world), troubles)
            world, _ = self.deliver(world, *turn)
        return world

    def _delete(self, world: World, number: Consumer, incarnation: str) -> World:
        for slot in world.slots:
            meant = not incarnation or messages.birth(incarnation) == slot.birth
            if slot.number != number or slot.is_deleting or not meant:
                continue
            names = [p.incarnation for p in world.processes if p.birth == slot.birth]
            self.check_healthy(world, names, "is deleted")
            world = world._replace(
                slots=exchanged(world.slots, slot, slot._replace(is_deleting=True)),
                processes=tuple(
                    p._replace(is_terminated=True) if p.birth == slot.birth and p.is_running else p
                    for p in world.processes
                ),
            )
        return world

    def _create(self, world: World, number: Consumer) -> World:
        used = {p.birth for p in world.processes} | {s.birth for s in world.slots}
        used |= {messages.birth(name) for name in self._spoken_of(world)}
        k = next(k for k in range(1, 100) if f"b{number}{chr(96 + k)}" not in used)
        birth = f"b{number}{chr(96 + k)}"
        world = world._replace(slots=tuple(sorted((*world.slots, Slot(number, birth)))))
        return self.spawn(world, number, birth, 1, dict(world.unread).get(number, ()))

    def spawn(
        self, world: World, number: Consumer, birth: str, serial: int, inbox: tuple[int, ...]
    ) -> World:
        name = f"{birth}.{serial}"
        memory = self.follower.spawn(number, name, dict(world.states).get(number, NOBODY))
        process = Process(number, birth, serial, memory, inbox)
        return world._replace(
            processes=tuple(sorted((*world.processes, process))),
            unread=tuple((n, found) for n, found in world.unread if n != number),
        )

    def _spoken_of(self, world: World) -> set[str]:
        """Return every incarnation of which anything is left."""
        names = {name for t in world.tables if t is not None for name in (t.newest[1],)}
        for number in (world.lead, world.kept, world.frozen.state if world.frozen else NOBODY):
            if number != NOBODY:
                names |= set(self.pool[number].ended)
                for member in self.pool[number].members.values():
                    names.add(member if isinstance(member, str) else member.incarnation)
                    names.add("" if isinstance(member, str) else member.successor)
        queues = [found for _, found in (*world.mail, *world.unread)]
        queues += [world.astray, *(p.inbox for p in world.processes)]
        if world.frozen is not None:
            queues.append(world.frozen.outbox.orders)
            names |= {incarnation for _, incarnation in world.frozen.outbox.delete}
        return names | {self.pool[n].incarnation for queue in queues for n in queue}

    def stepped(self, world: World, process: Process, trouble: Trouble) -> Stepped:
        kept = dict(world.states).get(process.number, NOBODY)
        lost = Lost(self.happened(world, "reset"), self.happened(world, "forget"))
        return self.follower.step(process, world.tables, kept, lost, trouble)

    def step(
        self, world: World, process: Process, trouble: Trouble, restarts: bool = False
    ) -> Change:
        def change() -> Changes:
            stepped = self.stepped(world, process, trouble)
            if stepped.wrong:
                raise Violation(stepped.wrong)
            states = dict(world.states)
            if stepped.kept != NOBODY:
                states[process.number] = stepped.kept
            mail = dict(world.mail)
            if stepped.sent:
                mail[process.number] = (*mail.get(process.number, ()), *stepped.sent)
            after = world._replace(
                tables=stepped.tables,
                states=tuple(sorted(states.items())),
                mail=tuple(sorted(mail.items())),
            )
            if stepped.memory == NOBODY:
                after = self.dead(after, process, stepped.unread, restarts)
            else:
                now = process._replace(memory=stepped.memory, inbox=())
                after = after._replace(processes=exchanged(world.processes, process, now))
            return after, stepped.notes

        return change

    def dead(
        self, world: World, process: Process, unread: tuple[int, ...], restarts: bool
    ) -> World:
        world = world._replace(processes=tuple(p for p in world.processes if p != process))
        if restarts:
            serial = process.serial + 1
            return self.spawn(world, process.number, process.birth, serial, unread)
        if any(p.number == process.number for p in world.processes):
            return world
        left = {n: found for n, found in world.unread if n != process.number}
        if unread:
            left[process.number] = unread
        return world._replace(unread=tuple(sorted(left.items())))


def changing(world: World) -> Change:
    """Return the change to a world that is known already."""
    return lambda: (world, ())


def turning(
    turn: Callable[[int, T], tuple[int, Outbox]], lead: int, told: T, world: World
) -> Turning:
    """Return a turn in which the controller is told something."""
    return lambda: (world, *turn(lead, told))


def delivering(group: Group, turn: Turning) -> Change:
    """Return a turn with what follows from it."""
    return lambda: group.deliver(*turn())


def alive(world: World) -> frozenset[str]:
    """Return the births that have a process."""
    return frozenset(p.birth for p in world.processes)


def exchanged(parts: tuple[T, ...], before: T, after: T) -> tuple[T, ...]:
    """Return parts with one in place of another."""
    return tuple(after if part == before else part for part in parts)
