"""Every state that some faults lead to is searched, and no guard can be left out."""

import logging
from collections.abc import Iterator

import pytest

from tests.controller import guards
from tests.exhaustive import witnesses
from tests.exhaustive.faults import FAULTS
from tests.exhaustive.moves import Moves
from tests.exhaustive.search import search

LARGE = ("crash", "restart", "pause")
"""With a load that changes too, these take minutes: see docs/exhaustive.md."""
COMPLETE = [
    *({fault: 1} for fault in FAULTS),
    *({fault: 1, "load": 1} for fault in FAULTS if fault not in (*LARGE, "load")),
    {"load": 3},
    {"lose": 1, "late": 1, "repeat": 1},
    {"stranger": 2, "answer": 1, "refuse": 1},
]

REACHED = [guard for guard in guards.GUARDS if guard.name not in witnesses.UNREACHED]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("faults", COMPLETE, ids=",".join)
def test_all_is_well_in_every_state(faults: dict[str, int]) -> None:
    result = search(Moves(faults))
    assert result.wrong == ""
    assert result.is_complete


def test_every_state_before_the_first_rest_is_well() -> None:
    result = search(Moves({}), is_cold=True)
    assert (result.wrong, result.is_complete, result.rests) == ("", True, 1)


def test_a_search_finds_the_same_twice() -> None:
    first, second = (search(Moves({"kill": 1, "load": 1})) for _ in range(2))
    assert (first.states, first.moves, first.depth) == (second.states, second.moves, second.depth)


@pytest.mark.parametrize("other", ["crash", "kill", "stranger", "forget", "late"])
def test_renaming_leaves_no_state_out(other: str) -> None:
    """Where nothing is renamed, the states up to a depth have the same names after renaming."""
    faults, depth = {other: 1, "load": 1}, 5
    renamed, plain = Moves(faults), Moves(faults, is_canonical=False)
    found = []
    for moves in (renamed, plain):
        world = moves.start(busy=True)
        for move in renamed.opening(renamed.start(busy=True)):
            world = moves.make(world, move.label).world
        level, seen = [world], {world}
        for _ in range(depth):
            level = [m.world for w in level for m in moves.after(w)]
            level = [w for w in dict.fromkeys(level) if w not in seen]
            seen.update(level)
        found.append({moves.fingerprint(w) for w in seen})
    assert found[0] == found[1]


@pytest.mark.parametrize("guard", REACHED, ids=lambda guard: guard.name)
def test_a_guard_is_missed_by_a_shortest_story(guard: guards.Guard) -> None:
    result, story = witnesses.find(guard, witnesses.STATES)
    assert result.wrong, f"{result.states} states are well without the guard"
    assert story.splitlines()[-1].startswith("WRONG: ")
    steps = [line for line in story.splitlines() if line[:3].strip().isdigit()]
    assert len(steps) == len(result.story)


def test_every_guard_is_searched_or_has_a_reason() -> None:
    named = {*witnesses.WITNESSES, *witnesses.UNREACHED}
    assert named == {guard.name for guard in guards.GUARDS}
    assert witnesses.WITNESSES.keys().isdisjoint(witnesses.UNREACHED)
