"""Breadth first through every state that can be reached, and from each of them to rest.

Only a fingerprint of each state is kept, with its parent and the move that led to it, as TLC does;
a story is told by making the moves again. Two states share one of 2^64 fingerprints by chance with
a probability below 10^-6 for five million states.
"""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.exhaustive.group import Label, Move
from tests.exhaustive.moves import Moves
from tests.exhaustive.states import World


@dataclass(slots=True)
class Result:
    """What a search found."""

    states: int
    moves: int
    depth: int
    seconds: float
    is_complete: bool
    """Whether no state is left that was not looked at."""
    opening: list[Label] = field(default_factory=list)
    """The moves from nothing to the first state."""
    rests: int = 0
    """Different states in which the group rests."""
    wrong: str = ""
    story: list[Label] = field(default_factory=list)
    """The moves that lead to what is wrong."""
    is_shortest: bool = False
    """Whether no shorter story can be told; else the search ended before it could tell."""

    def shorten(self, wrong: str, story: list[Label]) -> None:
        """Keep what is wrong if its story is shorter."""
        if not self.wrong or len(story) < len(self.story):
            self.wrong, self.story = wrong, story


@dataclass(slots=True)
class _Seen:
    """Every state that was met: its fingerprint, its parent, and the move between them."""

    index: dict[int, int] = field(default_factory=dict)
    parents: "array[int]" = field(default_factory=lambda: array("i"))
    moves: "array[int]" = field(default_factory=lambda: array("i"))
    labels: dict[Label, int] = field(default_factory=dict)

    def add(self, mark: int, parent: int, label: Label) -> None:
        """Keep a state."""
        self.index[mark] = len(self.parents)
        self.parents.append(parent)
        self.moves.append(self.labels.setdefault(label, len(self.labels)))

    def story(self, state: int) -> list[Label]:
        """Return the moves that lead to a state."""
        names = list(self.labels)
        labels = []
        while self.parents[state] >= 0:
            labels.append(names[self.moves[state]])
            state = self.parents[state]
        return labels[::-1]


def search(
    moves: Moves,
    *,
    depth: int | None = None,
    states: int | None = None,
    busy: bool = True,
    is_cold: bool = False,
    is_fair: bool = True,
    told: Callable[[str], None] = lambda text: None,
) -> Result:
    """Look at every state, up to a depth or a number of states."""
    began = time.monotonic()
    start = moves.start(busy=busy)
    opening = [] if is_cold else moves.opening(start)
    start = opening[-1].world if opening else start
    result = Result(1, 0, 0, 0, is_complete=False, opening=[m.label for m in opening])
    seen = _Seen()
    seen.add(hash(start), -1, ())
    level = [(0, start)]
    rest = _Rest(moves)
    while level and (depth is None or result.depth < depth):
        following: list[tuple[int, World]] = []
        for number, world in level:
            if is_fair:
                path, wrong = rest.wrong(world)
                if wrong:
                    result.shorten(wrong, [*seen.story(number), *path])
            for move in moves.after(world):
                result.moves += 1
                if move.wrong:
                    result.shorten(move.wrong, [*seen.story(number), move.label])
                    continue
                mark = hash(move.world)
                if mark not in seen.index:
                    seen.add(mark, number, move.label)
                    following.append((len(seen.parents) - 1, move.world))
        result.states = len(seen.parents)
        result.rests = len(rest.rests)
        result.seconds = time.monotonic() - began
        if result.wrong and len(result.story) <= result.depth + 1:
            result.is_shortest = True
            return result
        level = following
        result.depth += bool(level)
        told(
            f"depth {result.depth}: {len(level)} new states, {result.states} in all, "
            f"{result.seconds:.0f} s"
        )
        if states is not None and result.states >= states:
            break
    result.is_complete = not level
    result.is_shortest = bool(result.wrong) and not level
    return result


@dataclass(slots=True)
class _Rest:
    """Where states lead when nothing goes wrong any more."""

    moves: Moves
    well: set[int] = field(default_factory=set)
    """States from which the group comes to rest, and all is well."""
    rests: set[int] = field(default_factory=set)

    def wrong(self, world: World) -> tuple[list[Label], str]:
        """Return the moves that lead from here to what is wrong at rest, and what it is."""
        path: list[Move] = []
        worlds: dict[int, World] = {}
        while True:
            mark = hash(world)
            if mark in self.well:
                break
            move = self.moves.fair(world)
            if move is not None and move.label[0] == "resume":
                # Whoever stands still may do so for ever: the others must do without.
                wrong = self.moves.unread(world)
                if wrong:
                    return [m.label for m in path], f"while one hangs, {wrong}"
            if move is None:
                wrong = self._at_rest(mark, [world])
                if wrong:
                    return [m.label for m in path], wrong
                worlds[mark] = world
                break
            if mark in worlds:
                again = list(worlds).index(mark)
                if not all(m.only_reads for m in path[again:]):
                    return [m.label for m in path], "without any fault, there is never rest"
                wrong = self._at_rest(mark, list(worlds.values())[again:])
                if wrong:
                    return [m.label for m in path], wrong
                break
            worlds[mark] = world
            path.append(move)
            if move.wrong:
                return [m.label for m in path], move.wrong
            world = move.world
        self.well.update(worlds)
        return [], ""

    def _at_rest(self, mark: int, worlds: list[World]) -> str:
        self.rests.add(mark)
        wrong = self.moves.unsettled(worlds)
        return wrong and f"at rest {wrong}"
