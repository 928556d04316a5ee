"""One name for states that differ in names only.

Generations, revisions and offsets only grow, and the machines only compare them. So they are
numbered anew in each state, in their order: without this no state would ever be met again.

* Generations up to the oldest from which a controller may go on are ranks, 0, 1, 2, ...; if
  somebody else may still count on from one of them (a stranger's claim), a gap stays a gap. Later
  ones keep their distance, because the next generation is drawn between them. Where the controller
  may lose its state, and so begin again with 1, generations stay what they are.
* Revisions of an incarnation are ranks.
* Offsets count from where the table stands; what is behind by more than `BASE` is behind by `BASE`.
* An incarnation that is over is forgotten when nothing is left that could speak for it, as the
  controller does after an hour.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from lagless import messages
from lagless.controller.state import State
from lagless.messages import ConsumerState, ControllerState, Heartbeat, Order, Receipt
from lagless.model import TopicPartition
from lagless.ports import Position, Span
from tests.exhaustive.states import NOBODY, PARTITIONS, Memory, Pool, World

BASE = 4
"""The offset at which every table stands."""
ANY = 1_000_000
"""A gap that is never closed."""
Number = Callable[[int], int]


class _Inside(NamedTuple):
    """The numbers that a part holds."""

    generations: tuple[int, ...]
    revisions: tuple[tuple[str, int], ...]
    is_memory: bool


class Canon:
    """Renames what is in the pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._inside: dict[int, _Inside] = {}
        self._over: dict[int, frozenset[str]] = {}
        self._renamed: dict[object, int] = {}

    def forget(self, world: World) -> World:
        """Let controllers forget incarnations for which nothing is left that could speak."""
        over = self._is_over(world.lead) | self._is_over(world.kept)
        if not over or world.frozen is not None:
            return world
        names = {p.incarnation for p in world.processes}
        births = {s.birth for s in world.slots}
        for number in _mail(world):
            names.add(self._pool[number].incarnation)
        alive = {i for i in over if i in names or messages.birth(i) in births}
        forgotten = over - alive
        if not forgotten:
            return world
        rename = self._rename
        lead, kept = world.lead, world.kept
        if lead != NOBODY:
            lead = rename(("forget", lead, forgotten), lead, lambda x: _forget(x, forgotten))
        if kept != NOBODY:
            kept = rename(("forget", kept, forgotten), kept, lambda x: _forget(x, forgotten))
        return world._replace(lead=lead, kept=kept)

    def __call__(self, world: World, *, gap: int) -> World:
        """Return the representative of all states that differ in names only."""
        numbers: set[int] = {0}
        revisions: dict[str, set[int]] = {}
        seen = set()
        for number in parts(world):
            if number not in seen:
                seen.add(number)
                inside = self._inside.get(number) or self._look_inside(number)
                numbers.update(inside.generations)
                for name, revision in inside.revisions:
                    if name in revisions:
                        revisions[name].add(revision)
                    else:
                        revisions[name] = {revision}
        shifts = []
        for p, table in zip(PARTITIONS, world.tables, strict=True):
            if table is not None:
                numbers.add(table.owner)
                numbers.add(table.newest[0])
                if table.offset != BASE:
                    shifts.append((p, BASE - table.offset))
        g, is_same = _ranks(numbers, self._reference(world), gap)
        r: dict[str, dict[int, int]] = {}
        for name, found in revisions.items():
            found.discard(-1)
            ordered = sorted(found)
            r[name] = {old: new for new, old in enumerate(ordered)}
            r[name][-1] = -1
            is_same = is_same and (not ordered or ordered[-1] == len(ordered) - 1)
        if is_same and not shifts:
            return world
        moved = tuple(shifts)

        def new(number: int) -> int:
            if number == NOBODY:
                return number
            inside = self._inside[number]
            gs = tuple([g[x] for x in inside.generations])
            rs = tuple([r[n][x] for n, x in inside.revisions])
            key = (number, gs, rs, moved if inside.is_memory else ())
            after = self._renamed.get(key)
            if after is None:
                part = rename(self._pool[number], g.__getitem__, r, dict(shifts))
                after = self._renamed[key] = self._pool.put(part)
            return after

        return replaced(world, new, g.__getitem__)

    def _rename(self, key: object, number: int, change: Callable[[Any], Any]) -> int:
        if key not in self._renamed:
            self._renamed[key] = self._pool.put(change(self._pool[number]))
        return self._renamed[key]

    def _reference(self, world: World) -> int:
        """Return the oldest generation from which a controller may go on."""
        numbers = [world.lead, world.kept]
        if world.frozen is not None and not world.frozen.is_replaced:
            numbers += [world.frozen.state, world.frozen.outbox.kept]
        known = [self._pool[n].generation for n in numbers if n != NOBODY]
        return min(known) if known and world.kept != NOBODY else 0

    def _look_inside(self, number: int) -> "_Inside":
        part = self._pool[number]
        found: set[int] = set()

        def see(generation: int) -> int:
            found.add(generation)
            return generation

        rename(part, see, None, {})
        revisions = tuple(sorted(set(_revisions(part))))
        inside = _Inside(tuple(sorted(found)), revisions, isinstance(part, Memory))
        self._inside[number] = inside
        return inside

    def _is_over(self, number: int) -> frozenset[str]:
        if number == NOBODY:
            return frozenset()
        over = self._over.get(number)
        if over is None:
            over = self._over[number] = frozenset(self._pool[number].ended)
        return over


def _forget(part: Any, forgotten: frozenset[str]) -> Any:
    ended = {i: x for i, x in part.ended.items() if i not in forgotten}
    if isinstance(part, ControllerState):
        return part.model_copy(update={"ended": ended})
    return replace(part, ended=ended)


def _mail(world: World) -> Iterable[int]:
    for process in world.processes:
        yield from process.inbox
    for _, numbers in (*world.unread, *world.mail):
        yield from numbers
    yield from world.astray


def parts(world: World) -> Iterable[int]:
    """Return the numbers of the pool that a state holds."""
    for number in (world.lead, world.kept):
        if number != NOBODY:
            yield number
    if world.frozen is not None:
        yield world.frozen.state
        yield from world.frozen.outbox.orders
        if world.frozen.outbox.kept != NOBODY:
            yield world.frozen.outbox.kept
    for process in world.processes:
        yield process.memory
    for _, number in world.states:
        yield number
    yield from _mail(world)


def replaced(world: World, new: Number, g: Number = lambda x: x) -> World:
    """Return a state with other numbers for its parts and its tables' generations."""

    def each(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(new, numbers))

    frozen = world.frozen
    if frozen is not None:
        box = frozen.outbox
        box = box._replace(orders=each(box.orders), kept=new(box.kept))
        frozen = frozen._replace(state=new(frozen.state), outbox=box)
    return world._replace(
        lead=new(world.lead),
        frozen=frozen,
        kept=new(world.kept),
        processes=tuple(
            p._replace(memory=new(p.memory), inbox=each(p.inbox)) for p in world.processes
        ),
        unread=tuple((n, each(found)) for n, found in world.unread),
        tables=tuple(
            t and t._replace(offset=BASE, owner=g(t.owner), newest=(g(t.newest[0]), t.newest[1]))
            for t in world.tables
        ),
        states=tuple((n, new(found)) for n, found in world.states),
        mail=tuple((n, each(found)) for n, found in world.mail),
        astray=each(world.astray),
    )


def _ranks(generations: set[int], reference: int, gap: int) -> tuple[dict[int, int], bool]:
    """Return the rank of each generation, and whether it is the generation itself."""
    generations.add(reference)
    ranks: dict[int, int] = {}
    before = rank = 0
    for generation in sorted(generations):
        step = generation - before
        rank += gap if step > gap and generation <= reference else step
        before, ranks[generation] = generation, rank
    return ranks, rank == before


def _revisions(part: Any) -> Iterable[tuple[str, int]]:
    if isinstance(part, State):
        for member in part.members.values():
            yield member.incarnation, member.revision
    elif isinstance(part, Memory):
        yield part.state.incarnation, part.state.revision
        yield part.state.incarnation, part.persisted
    elif isinstance(part, Receipt | Heartbeat):
        yield part.incarnation, part.revision


def rename(
    part: Any,
    g: Number,
    r: Mapping[str, Mapping[int, int]] | None,
    shifts: Mapping[TopicPartition, int],
) -> Any:
    """Return a part with other generations, revisions and offsets."""

    def revision(name: str, number: int) -> int:
        return number if r is None else r[name][number]

    match part:
        case State():
            return _renamed_state(part, g, revision)
        case ControllerState():
            return part.model_copy(update={"generation": g(part.generation)})
        case Order():
            return part.model_copy(update={"generation": g(part.generation)})
        case Memory():
            return _renamed_memory(part, g, revision, shifts)
        case Receipt() | Heartbeat():
            fields: dict[str, Any] = {
                "highest": g(part.highest),
                "revision": revision(part.incarnation, part.revision),
                "held": tuple((t, p, g(x)) for t, p, x in part.held),
            }
            if isinstance(part, Receipt):
                fields["generation"] = g(part.generation)
            return part.model_copy(update=fields)
        case ConsumerState():
            held = tuple((t, p, g(x)) for t, p, x in part.held)
            return part.model_copy(update={"highest": g(part.highest), "held": held})
    raise TypeError(part)


def _renamed_state(state: State, g: Number, revision: Callable[[str, int], int]) -> State:
    return replace(
        state,
        generation=g(state.generation),
        fence=g(state.fence),
        known=g(state.known),
        members={
            n: replace(
                m,
                highest=g(m.highest),
                revision=revision(m.incarnation, m.revision),
                held={p: g(x) for p, x in m.held.items()},
                asked={p: replace(a, generation=g(a.generation)) for p, a in m.asked.items()},
            )
            for n, m in state.members.items()
        },
    )


def _renamed_memory(
    memory: Memory,
    g: Number,
    revision: Callable[[str, int], int],
    shifts: Mapping[TopicPartition, int],
) -> Memory:
    state = memory.state
    name = state.incarnation

    def at(p: TopicPartition, offset: int) -> int:
        return max(0, offset + shifts.get(p, 0))

    return replace(
        memory,
        state=replace(
            state,
            highest=g(state.highest),
            revision=revision(name, state.revision),
            held={p: g(x) for p, x in state.held.items()},
            wanted={p: g(x) for p, x in state.wanted.items()},
            owed=tuple(rename(order, g, None, {}) for order in state.owed),
        ),
        persisted=revision(name, memory.persisted),
        positions={p: at(p, x) for p, x in memory.positions.items()},
        begun={p: Span(at(p, s.first), at(p, s.first) + len(s)) for p, s in memory.begun.items()},
        view={p: Position(at(p, x.offset), g(x.owner)) for p, x in memory.view.items()},
    )
