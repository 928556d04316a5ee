"""What can happen next: every move of the small world, and every fault that is still allowed.

A move is a whole step of one part, since nothing else can tell when inside the step it happened:
the controller hears, decides, sends and calls the provisioner; a consumer commits, takes orders,
claims, persists, answers and looks. Faults break a step in two where that can be told.
"""

from collections.abc import Iterator, Sequence

from lagless.lab.world.simulated_tables import Violation
from lagless.messages import Order
from tests.exhaustive import canon
from tests.exhaustive.faults import faults
from tests.exhaustive.follower import WELL
from tests.exhaustive.group import (
    Change,
    Changes,
    Group,
    Label,
    Move,
    alive,
    changing,
    delivering,
    exchanged,
)
from tests.exhaustive.leader import CONTRADICTION
from tests.exhaustive.states import NOBODY, PARTITIONS, Process, Slot, World, freeze

FAIR = (
    "late hand",
    "lead",
    "wake",
    "astray",
    "hear",
    "look",
    "gone",
    "step",
    "beat",
    "give up",
    "wait",
    "resume",
)
"""In which order everyone gets a turn where nothing goes wrong any more."""


class Moves(Group):
    """The moves of one search."""

    def __init__(self, faults: dict[str, int], *, is_canonical: bool = True) -> None:
        super().__init__(faults)
        self.canon = canon.Canon(self.pool)
        self._is_canonical = is_canonical

    def start(self, *, busy: bool) -> World:
        """Return the world before anything runs."""
        return World(busy=busy, left=self.budget)

    def _gap(self, world: World) -> int:
        """Return how far apart generations may have to be told."""
        if "forget" in self.names:
            return canon.ANY  # a controller that knows nothing begins again with the first
        return 2 if self.left(world, "stranger") else 1

    def fingerprint(self, world: World) -> object:
        """Return what a state is, whatever its parts are numbered in the pool."""
        world = self.canon(world, gap=self._gap(world))
        parts = {n: freeze(self.pool[n]) for n in canon.parts(world)}
        return canon.replaced(world, lambda n: parts.get(n, n))

    def opening(self, world: World) -> list[Move]:
        """Return the moves from the start until the group rests for the first time."""
        moves: list[Move] = []
        seen = {world}
        while (move := self.fair(world)) is not None and move.world not in seen:
            moves.append(move)
            world = move.world
            seen.add(world)
        return moves

    def make(self, world: World, label: Label) -> Move:
        """Make one move again."""
        for name, move in (*self._ordinary(world), *faults(self, world)):
            if name == label:
                try:
                    after, notes = move()
                except Violation as wrong:
                    return Move(label, world, wrong=str(wrong))
                return Move(label, self._named(after), notes, self._wrong(after, notes))
        raise LookupError(f"{label} cannot happen here")

    def after(self, world: World) -> Iterator[Move]:
        """Return every move; a move that changes nothing is left out."""
        for label, move in (*self._ordinary(world), *faults(self, world)):
            try:
                after, notes = move()
            except Violation as wrong:
                yield Move(label, world, wrong=str(wrong))
                continue
            wrong_now = self._wrong(after, notes)
            named = self._named(after)
            if named != world or wrong_now:
                yield Move(label, named, notes, wrong_now)

    def fair(self, world: World) -> Move | None:
        """Return the next move without faults, in which everyone gets a turn; None at rest.

        What only reads on comes last, and may go on for ever.
        """

        def turn(label: Label) -> int:
            reads = label[0] == "step" and self._only_reads(world, str(label[1]))
            return len(FAIR) if reads else FAIR.index(str(label[0]))

        for label, move in sorted(self._ordinary(world), key=lambda x: turn(x[0])):
            try:
                after, notes = move()
            except Violation as wrong:
                return Move(label, world, wrong=str(wrong))
            named = self._named(after)
            if named != world:
                reads = turn(label) == len(FAIR)
                return Move(label, named, notes, self._wrong(after, notes), reads)
        return None

    def _only_reads(self, world: World, incarnation: str) -> bool:
        process = next(p for p in world.processes if p.incarnation == incarnation)
        stepped = self.stepped(world, process, WELL)
        if process.inbox or not stepped.read or stepped.memory == NOBODY:
            return False
        before, after = self.pool[process.memory], self.pool[stepped.memory]
        return bool(before.state == after.state)

    def unread(self, world: World) -> str:
        """Return what is not read by a process that runs, while others stand still for ever."""
        running = [p for p in world.processes if p.is_running]
        held = [p for process in running for p in self.follower.held(process)]
        return "" if sorted(held) == [*PARTITIONS] else f"only {len(held)} partitions are read"

    def unsettled(self, worlds: Sequence[World]) -> str:
        """Return what is not as it should be in worlds that follow each other; "" if all is well.

        They differ in nothing but what was read.
        """
        world = worlds[0]
        if world.lead == NOBODY:
            return "nobody leads"
        readers: dict[int, set[str]] = {0: set(), 1: set()}
        for now in worlds:
            for process in now.processes:
                for p in self.stepped(now, process, WELL).read:
                    readers[p].add(process.incarnation)
        for p, names in readers.items():
            if len(names) != 1:
                return f"partition {p} is read by {', '.join(sorted(names)) or 'nobody'}"
        if len(world.processes) != (2 if world.busy else 1):
            return f"there are {len(world.processes)} consumers"
        idle = {p.incarnation for p in world.processes} - set[str]().union(*readers.values())
        return f"{', '.join(sorted(idle))} reads nothing" if idle else ""

    def _named(self, world: World) -> World:
        world = self.canon.forget(world)
        if not self._is_canonical:
            return world
        return self.canon(world, gap=self._gap(world))

    def _wrong(self, world: World, notes: tuple[str, ...]) -> str:
        reader: dict[object, Process] = {}
        for process in world.processes:
            if process.is_running and process.is_well:
                for p in self.follower.held(process):
                    if p in reader:
                        other = reader[p].incarnation
                        return f"{p} is read by {other} and {process.incarnation}"
                    reader[p] = process
        outside = self.happened(world, "stranger") or self.happened(world, "forget")
        doubts = [note for note in notes if note.startswith(CONTRADICTION)]
        if doubts and not outside:
            return f"reality was not what was believed: {doubts[0].removeprefix(CONTRADICTION)}"
        return ""

    def _ordinary(self, world: World) -> Iterator[tuple[Label, Change]]:
        if world.lead == NOBODY:
            yield ("lead",), lambda: self._lead(world)
            if world.frozen is not None and not world.frozen.is_replaced:
                yield ("wake",), lambda: self._wake(world)
        if world.frozen is not None and world.frozen.is_replaced:
            yield ("late hand",), lambda: self._late_hand(world)
        for label, turn in self.turns(world):
            yield label, delivering(self, turn)
        for process in world.processes:
            if process.is_running:
                yield ("step", process.incarnation), self.step(world, process, WELL)
            else:
                yield ("resume", process.incarnation), self._resume(world, process)
        for slot in world.slots:
            if slot.is_deleting:
                yield ("gone", slot.birth), self._gone(world, slot)
        for i, number in enumerate(world.astray):
            if isinstance(self.pool[number], Order):
                yield ("astray", i), self._astray(world, i)

    def _lead(self, world: World) -> Changes:
        """A new controller leads: it reads the mail from its end, and fences the one before."""
        frozen = world.frozen
        if frozen is not None and not frozen.is_replaced:
            # What it would send first is refused; what needs no sending, or is sent, may come.
            box = frozen.outbox
            has_hand = bool(box.create or box.delete) and (frozen.is_sent or not box.is_urgent)
            frozen = frozen._replace(is_replaced=True, is_sent=True) if has_hand else None
        world = world._replace(frozen=frozen, mail=())
        turn = self.leader.begin(world.kept, world.slots, alive(world), world.busy)
        return self.deliver(world, *turn)

    def _gone(self, world: World, slot: Slot) -> Change:
        def change() -> Changes:
            rest = tuple(p for p in world.processes if p.birth != slot.birth or not p.is_running)
            slots = tuple(s for s in world.slots if s != slot)
            return world._replace(slots=slots, processes=rest), ()

        return change

    def _resume(self, world: World, process: Process) -> Change:
        after = process._replace(is_running=True)
        processes = exchanged(world.processes, process, after)
        return changing(world._replace(processes=processes))

    def _astray(self, world: World, i: int) -> Change:
        rest = world._replace(astray=(*world.astray[:i], *world.astray[i + 1 :]))
        return lambda: (self.order(rest, world.astray[i]), ())

    def _wake(self, world: World) -> Changes:
        """The controller goes on, and nobody has taken over."""
        frozen = world.frozen
        assert frozen is not None
        world = world._replace(frozen=None, lead=frozen.state)
        if not frozen.is_sent:
            world = self.send(world, frozen.outbox)
        world = self.provision(world, frozen.outbox)
        world, notes = self.deliver(world, *self.leader.wake(world.lead))
        turn = self.leader.measure(world.lead, world.busy)
        world, more = self.deliver(world, *turn)
        return world, (*frozen.outbox.notes, *notes, *more)

    def _late_hand(self, world: World) -> Changes:
        assert world.frozen is not None
        box = world.frozen.outbox
        lead = world.lead
        world = self.provision(world._replace(frozen=None, lead=NOBODY), box)
        return world._replace(lead=lead), ()
