"""Take each guard out once, and see that some history goes wrong without it.

As a command: python -m tests.controller.guards [NAME…]
"""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lagless.consumer import machine as consumer
from lagless.controller import facts, machine, membership, migration, provisioning, turns
from lagless.simulation import world_lake
from lagless.simulation.world_provisioner import Violation
from tests.controller import histories

COUNT = 2000
"""Histories in which something must go wrong without a guard."""
Patch = tuple[Any, str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Guard:
    """A line that keeps the group safe or alive, and what the code does without it."""

    name: str
    rule: str
    patches: tuple[Patch, ...]


def _older_orders_count(state: consumer.State, order: Any) -> bool:
    return bool(order.consumer == state.consumer and order.incarnation in ("", state.incarnation))


def _other_incarnations_count(state: consumer.State, order: Any) -> bool:
    return bool(order.consumer == state.consumer and order.generation >= state.highest)


def _no_generation(state: facts.State, policy: facts.Policy) -> turns.Turn:
    turn = _reassign(state, policy)
    same = replace(turn.state, generation=state.generation)
    return replace(turn, state=same)


_reassign = turns.repack


_why_lost = membership.why_lost


def _lose_those_who_wait(state: facts.State, member: facts.Member, policy: facts.Policy) -> str:
    return _why_lost(state, replace(member, last=None), policy) or (
        "waits" if member.cycle_age > policy.cycle_deadline else ""
    )


def _send_once(asked: Any, kind: str, state: facts.State, policy: facts.Policy) -> bool:
    return asked is None or asked.kind != kind or asked.generation != state.generation


GUARDS = (
    Guard(
        "a start waits for the stop's receipt",
        "machine 5",
        ((migration, "is_free", lambda others: True),),
    ),
    Guard(
        "a stop is confirmed under its generation",
        "machine 6",
        (
            (
                membership,
                "is_confirmed",
                lambda asked, held, highest: (
                    (held == asked.generation) if asked.kind == "start" else held is None
                ),
            ),
        ),
    ),
    Guard("late news is no news", "machine 7", ((membership, "is_news", lambda m, x: True),)),
    Guard("orders are repeated", "machine 8", ((migration, "_is_due", _send_once),)),
    Guard(
        "a contradiction synchronizes",
        "machine 9",
        ((membership, "contradiction", lambda *_: ""),),
    ),
    Guard(
        "nothing moves before all have reported",
        "machine 9",
        ((turns, "has_reported", lambda member, state: True),),
    ),
    Guard(
        "a change of mind is a new generation",
        "machine 3",
        (),
    ),
    Guard(
        "silence counts only while the mailbox is heard",
        "machine 10",
        ((machine, "is_break", lambda *_: False),),
    ),
    Guard("who waits is not lost", "machine 11", ((membership, "why_lost", _lose_those_who_wait),)),
    Guard(
        "an incarnation that is over is not heard",
        "machine 4",
        ((membership, "is_over", lambda *_: False),),
    ),
    Guard(
        "a consumer with work is not deleted",
        "machine 15",
        ((provisioning, "may_delete", lambda member: True),),
    ),
    Guard(
        "what is decided is persisted",
        "machine 3",
        ((facts, "must_persist", lambda before, after: False),),
    ),
    Guard(
        "who never starts is given up",
        "deadlines",
        ((membership, "why_not_ready", lambda *_: ""),),
    ),
    Guard("older orders are ignored", "consumer 2", ((consumer, "_is_mine", _older_orders_count),)),
    Guard(
        "orders for other incarnations are ignored",
        "consumer 1",
        ((consumer, "_is_mine", _other_incarnations_count),),
    ),
    Guard(
        "the lake compares before it sets",
        "Exactly once 4",
        ((world_lake.MemoryLake, "refuses", lambda *_: False),),
    ),
)


SEEDS = {
    "a start waits for the stop's receipt": 0,
    "a stop is confirmed under its generation": 169,
    "late news is no news": 10,
    "orders are repeated": 44,
    "a contradiction synchronizes": 0,
    "nothing moves before all have reported": 2,
    "a change of mind is a new generation": 123,
    "silence counts only while the mailbox is heard": 19,
    "who waits is not lost": 73,
    "an incarnation that is over is not heard": 13,
    "a consumer with work is not deleted": 70,
    "what is decided is persisted": 2,
    "who never starts is given up": 0,
    "older orders are ignored": 310,
    "orders for other incarnations are ignored": 263,
    "the lake compares before it sets": 62,
}
"""Where a history that goes wrong without a guard was found; looked at first."""


@contextmanager
def without(guard: Guard) -> Iterator[None]:
    """Run the block without a guard."""
    kept = [(place, name, getattr(place, name)) for place, name, _ in guard.patches]
    for place, name, instead in guard.patches:
        setattr(place, name, instead)
    phases = dict(turns.PHASES)
    if not guard.patches:
        turns.PHASES[facts.Phase.REASSIGN] = _no_generation
    try:
        yield
    finally:
        for place, name, before in kept:
            setattr(place, name, before)
        turns.PHASES.update(phases)


def _seeds(guard: Guard, count: int) -> Iterator[int]:
    yield SEEDS.get(guard.name, 0)
    for seed in range(count // 2):
        yield seed
        yield histories.FLAKY + seed


def search(guard: Guard, count: int) -> tuple[int, str]:
    """Look for a history that goes wrong without the guard; give how many it took, and what."""
    with without(guard):
        for tried, seed in enumerate(_seeds(guard, count), start=1):
            try:
                histories.run(histories.draw(seed))
            except Violation as wrong:
                return tried, str(wrong)
    return count, ""


def main(names: Sequence[str]) -> int:
    """Search for every guard, or for those named."""
    logging.disable()
    alone = 0
    for guard in GUARDS:
        if names and guard.name not in names:
            continue
        count, wrong = search(guard, COUNT)
        alone += not wrong
        print(f"{guard.name}: {wrong or 'NOTHING WENT WRONG'} ({count} histories)", flush=True)
    return 1 if alone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
