"""A path through the states, told for people: who did what, which messages went, what is so now."""

from collections.abc import Iterator

from lagless.controller.state import State
from lagless.messages import Heartbeat, Order, Receipt
from tests.exhaustive.faults import FAULTS
from tests.exhaustive.group import Label
from tests.exhaustive.leader import CONTRADICTION
from tests.exhaustive.moves import Moves
from tests.exhaustive.search import Result
from tests.exhaustive.states import NOBODY, PARTITIONS, Process, World

SENTENCES = {
    "lead": "a controller begins to lead",
    "wake": "the controller goes on; nobody has taken over",
    "late hand": "the controller that was replaced calls the provisioner, late",
    "hear": "the controller hears the mail of consumer {}",
    "beat": "{} sends a heartbeat, and the controller hears it",
    "look": "the controller looks at the provisioner's consumers",
    "give up": "the controller's patience with consumer {} ends",
    "wait": "a while goes by: everyone sends heartbeats, and what is repeated is due",
    "astray": "late message {} arrives",
    "step": "{} ends its cycle, takes orders, and begins the next cycle",
    "resume": "{} goes on",
    "gone": "the provisioner has removed {}",
}
AFTERWARDS = ("at rest", "without any fault", "while one hangs")
"""How a sentence begins on what is wrong after a story, and not in its last move."""
CONSUMERS = {"step", "crash", "restart", "refuse", "answer"}
"""Moves of which notes tell what the table accepted."""


def tell(result: Result, faults: dict[str, int], *, busy: bool = True) -> str:
    """Return the story of what is wrong, with every generation and offset as it is."""
    moves = Moves(faults, is_canonical=False)
    world = moves.start(busy=busy)
    for label in result.opening:
        world = moves.make(world, label).world
    wrong = ""
    lines = ["The group rests." if result.opening else "Nothing runs yet.", *_state(moves, world)]
    for number, label in enumerate(result.story, start=1):
        move = moves.make(world, label)
        lines.append(f"{number:3}. {sentence(label)}")
        who = "accepted" if label[0] in CONSUMERS else "decides"
        lines += [f"       {who}: {note.removeprefix(CONTRADICTION)}" for note in move.notes]
        lines += [f"       sends: {line}" for line in _news(moves, world, move.world)]
        if move.world != world:
            lines += _state(moves, move.world)
        world, wrong = move.world, move.wrong
    if not (wrong or result.wrong.startswith(AFTERWARDS)):
        raise LookupError(f"{result.wrong}: this does not happen when the moves are made again")
    return "\n".join([*lines, f"WRONG: {wrong or result.wrong}"])


def sentence(label: Label) -> str:
    """Say what a move is."""
    kind, *of = label
    if kind in SENTENCES:
        return SENTENCES[str(kind)].format(*of)
    return (
        f"FAULT: {FAULTS[str(kind)]} ({' '.join(map(str, of))})"
        if of
        else (f"FAULT: {FAULTS[str(kind)]}")
    )


def _news(moves: Moves, before: World, after: World) -> Iterator[str]:
    old = {number for _, mail in before.mail for number in mail}
    for _, mail in after.mail:
        for number in mail:
            if number not in old:
                yield spell(moves, number)
    inboxes = {(p.incarnation, n) for p in before.processes for n in p.inbox}
    for process in after.processes:
        for number in process.inbox:
            if (process.incarnation, number) not in inboxes:
                yield f"{spell(moves, number)}, in the inbox of {process.incarnation}"


def spell(moves: Moves, number: int) -> str:
    """Say what a message says."""
    message = moves.pool[number]
    match message:
        case Order():
            named = ", ".join(f"{t}:{p}" for t, p in message.partitions)
            return f"order g{message.generation} to {message.incarnation}: {message.kind} {named}"
        case Receipt() | Heartbeat():
            held = ", ".join(f"{t}:{p} under g{g}" for t, p, g in message.held) or "nothing"
            what = (
                f"receipt for {message.kind} g{message.generation}"
                if isinstance(message, Receipt)
                else f"heartbeat, {message.state}"
            )
            return f"{what} from {message.incarnation}: holds {held}, knows g{message.highest}"
    raise TypeError(message)


def _state(moves: Moves, world: World) -> Iterator[str]:
    yield f"       | {_controller(moves, world)}"
    for process in world.processes:
        yield f"       | {_process(moves, process)}"
    tables = [
        f"{p} at {t.offset}, owner g{t.owner}"
        for p, t in zip(PARTITIONS, world.tables, strict=True)
        if t is not None
    ]
    yield f"       | table: {'; '.join(tables) or 'empty'}"
    if world.astray:
        yield f"       | late: {'; '.join(spell(moves, n) for n in world.astray)}"


def _controller(moves: Moves, world: World) -> str:
    frozen = "" if world.frozen is None else "; one hangs"
    if world.lead == NOBODY:
        return f"controller: nobody leads{frozen}"
    state: State = moves.pool[world.lead]
    target = ", ".join(f"{p} to {n}" for p, n in sorted(state.target.items()))
    members = ", ".join(m.incarnation for m in state.members.values())
    return (
        f"controller: {state.phase.value} g{state.generation}, target {target or 'none'}, "
        f"members {members or 'none'}{frozen}"
    )


def _process(moves: Moves, process: Process) -> str:
    memory = moves.pool[process.memory]
    held = ", ".join(f"{p} under g{g}" for p, g in sorted(memory.state.held.items())) or "nothing"
    still = "" if process.is_running else ", hangs"
    inbox = f", {len(process.inbox)} orders waiting" if process.inbox else ""
    ready = "" if memory.is_ready else ", not ready"
    highest = memory.state.highest
    return f"{process.incarnation}: holds {held}, knows g{highest}{ready}{still}{inbox}"
