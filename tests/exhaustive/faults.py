"""What can go wrong: every way in which each fault can happen in a state."""

from collections.abc import Callable, Iterator

from tests.exhaustive.follower import STRANGER, WELL, Trouble
from tests.exhaustive.group import (
    Change,
    Changes,
    Group,
    Label,
    changing,
    delivering,
    exchanged,
    turning,
)
from tests.exhaustive.states import NOBODY, Frozen, Outbox, Process, World

FAULTS = {
    "crash": "a consumer dies, between two steps or inside one",
    "restart": "a consumer's process dies and is started again under the same birth",
    "pause": "a consumer hangs, with a cycle in flight, for any length of time",
    "kill": "the controller dies, between two turns or before it calls the provisioner",
    "freeze": "the controller hangs, before it sends or before it calls the provisioner",
    "lose": "a message is lost",
    "repeat": "a message is delivered again, late",
    "late": "a message is delivered late",
    "refuse": "the table refuses a claim or a commit without a reason",
    "answer": "a claim, a commit or a persisted state arrives, and its answer is lost",
    "stranger": "a consumer outside the group's control claims a partition",
    "forget": "what the controller persisted is lost, and the controller with it",
    "reset": "the group's offsets in Kafka are set back",
    "load": "the load changes, so that one consumer more or less is needed",
}


def faults(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    """Return every fault that may still happen, and what it changes."""
    for fault, left in zip(group.names, world.left, strict=True):
        if left:
            less = group.spent(world, fault)
            for label, change in _KINDS[fault](group, less):
                yield (fault, *label), change


def _crash(group: Group, world: World, *, restarts: bool = False) -> Iterator[tuple[Label, Change]]:
    for process in world.processes:
        if restarts and any(s.birth == process.birth and s.is_deleting for s in world.slots):
            continue
        if restarts and all(s.birth != process.birth for s in world.slots):
            continue

        def between(process: Process = process) -> Changes:
            return group.dead(world, process, process.inbox, restarts), ()

        yield ("between", process.incarnation), between
        if not process.is_running:
            continue
        seen = set()
        for calls in range(group.stepped(world, process, WELL).calls + 1):
            trouble = Trouble(calls=calls)
            stepped = group.stepped(world, process, trouble)
            did = (stepped.tables, stepped.kept, stepped.sent, stepped.unread)
            if (stepped.memory == NOBODY or stepped.wrong) and did not in seen:
                seen.add(did)
                label = ("inside", process.incarnation, calls)
                yield label, group.step(world, process, trouble, restarts)


def _restart(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    return _crash(group, world, restarts=True)


def _pause(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    for process in world.processes:
        if process.is_running:
            still = process._replace(is_running=False, is_well=False)
            processes = exchanged(world.processes, process, still)
            after = world._replace(processes=processes)
            yield (process.incarnation,), changing(after)


def _kill(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    if world.lead != NOBODY:
        yield ("between",), changing(world._replace(lead=NOBODY, mail=()))
    for label, turn in group.turns(world):
        after, lead, outbox = turn()
        if outbox.create or outbox.delete:
            yield ("inside", *label), _sent(group, after, lead, outbox, None)


def _freeze(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    if world.lead == NOBODY or world.frozen is not None:
        return
    still = Frozen(world.lead, Outbox(), is_sent=True)
    yield ("between",), changing(world._replace(lead=NOBODY, frozen=still))
    for label, turn in group.turns(world):
        after, lead, outbox = turn()
        if outbox.is_urgent or outbox.create or outbox.delete:
            box = outbox._replace(notes=())
            stops = after._replace(lead=NOBODY, frozen=Frozen(lead, box, is_sent=False))
            yield ("unsent", *label), changing(stops)
        if outbox.create or outbox.delete:
            hand = Outbox(create=outbox.create, delete=outbox.delete)
            still = Frozen(lead, hand, is_sent=True)
            yield ("sent", *label), _sent(group, after, lead, outbox, still)


def _sent(group: Group, world: World, lead: int, outbox: Outbox, frozen: Frozen | None) -> Change:
    """Send what follows from a turn, and do not come to call the provisioner."""

    def change() -> Changes:
        after = group.send(world._replace(lead=lead), outbox)
        return after._replace(lead=NOBODY, frozen=frozen or world.frozen), outbox.notes

    return change


def _on_the_way(group: Group, world: World) -> Iterator[tuple[Label, int, World]]:
    """Return every message on its way, and the world without it."""
    for n, mail in world.mail:
        for i, number in enumerate(mail):
            rest = (*mail[:i], *mail[i + 1 :])
            others = tuple((k, found) for k, found in world.mail if k != n)
            queues = sorted((*others, (n, rest))) if rest else others
            yield ("up", n, i), number, world._replace(mail=tuple(queues))
    for process in world.processes:
        for i, number in enumerate(process.inbox):
            less = process._replace(inbox=(*process.inbox[:i], *process.inbox[i + 1 :]))
            rest_of = exchanged(world.processes, process, less)
            label = ("down", process.incarnation, i)
            yield label, number, world._replace(processes=rest_of)


def _lose(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    for label, _, without in _on_the_way(group, world):
        yield label, changing(without)


def _late(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    for label, number, without in _on_the_way(group, world):
        after = without._replace(astray=(*world.astray, number))
        yield label, changing(after)
    for process in world.processes:
        if process.is_running:
            late = group.follower.late_beat(process)
            after = world._replace(astray=(*world.astray, late))
            yield ("beat", process.incarnation), changing(after)


def _repeat(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    for label, number, _ in _on_the_way(group, world):
        after = world._replace(astray=(*world.astray, number))
        yield label, changing(after)


def _refuse(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    for process in world.processes:
        if process.is_running:
            well = group.stepped(world, process, WELL)
            for what in ("claim", "commit"):
                trouble = Trouble(refuses=what)
                if group.stepped(world, process, trouble) != well:
                    label = (what, process.incarnation)
                    yield label, group.step(world, process, trouble)


def _answer(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    for process in world.processes:
        if process.is_running:
            for i in range(group.stepped(world, process, WELL).answers):
                trouble = Trouble(lost_answer=i)
                yield (process.incarnation, i), group.step(world, process, trouble)


def _stranger(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    for i, table in enumerate(world.tables):
        if table is not None:
            taken = table._replace(owner=table.owner + 1, newest=(table.owner + 1, STRANGER))
            tables = (*world.tables[:i], taken, *world.tables[i + 1 :])
            after = world._replace(tables=tables)
            yield (i,), changing(after)


def _forget(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    after = world._replace(kept=NOBODY, lead=NOBODY, frozen=None, mail=())
    yield (), changing(after)


def _reset(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    if any(world.tables):
        yield (), changing(world)


def _load(group: Group, world: World) -> Iterator[tuple[Label, Change]]:
    after = world._replace(busy=not world.busy)
    if world.lead == NOBODY:
        yield (), changing(after)
    else:
        yield (), delivering(group, turning(group.leader.measure, world.lead, after.busy, after))


_KINDS: dict[str, Callable[[Group, World], Iterator[tuple[Label, Change]]]] = {
    "crash": _crash,
    "restart": _restart,
    "pause": _pause,
    "kill": _kill,
    "freeze": _freeze,
    "lose": _lose,
    "repeat": _repeat,
    "late": _late,
    "refuse": _refuse,
    "answer": _answer,
    "stranger": _stranger,
    "forget": _forget,
    "reset": _reset,
    "load": _load,
}
