"""Take each guard out once, and see that some history goes wrong without it.

As a command: python -m tests.controller.guards [NAME…]
"""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lagless.consumer import batches, cycle, orders
from lagless.consumer import order_machine as consumer
from lagless.controller import machine, management, membership, reassign, synchronize
from lagless.controller.events import Turn
from lagless.controller.state import Member, Policy, State
from lagless.lab.world import simulated_tables
from lagless.lab.world.simulated_tables import Violation
from lagless.model import Phase, TopicPartition
from lagless.ports import Position, Topic
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


def _no_generation(state: State, policy: Policy) -> Turn:
    turn = _reassign(state, policy)
    same = replace(turn.state, generation=state.generation)
    return replace(turn, state=same)


_reassign = reassign.turn


_why_lost = membership.why_lost


def _lose_those_who_wait(state: State, member: Member, policy: Policy) -> str:
    last = member.last and member.last.model_copy(update={"waiting_for": ""})
    return _why_lost(state, replace(member, last=last, waited_at=0.0), policy)


def _send_once(asked: Any, kind: str, state: State, policy: Policy) -> bool:
    return asked is None or asked.kind != kind or asked.generation != state.generation


_take_order, _begin, _take_topic = (consumer._take, consumer.begin, cycle.Cycle._take)


def _keep_older_wants(state: consumer.State, order: Any) -> consumer.State:
    after = _take_order(state, order)
    return after if after.ending else replace(after, wanted={**state.wanted, **after.wanted})


def _claim_nothing(
    self: orders.Claims, topic: str, partitions: Any, generation: int
) -> dict[Any, int]:
    self.topics[topic], _ = self.offsets.topics([topic])[topic]
    return dict.fromkeys(partitions, generation)


def _answer_then_persist(self: orders.Orders) -> bool:
    mailbox, now = self.mailbox, self.clock.now()
    assert mailbox is not None
    after, receipts = consumer.settle(self.state, now)
    for receipt in receipts:
        mailbox.send(receipt)
    if receipts or after.revision != self.persisted:
        mailbox.persist(consumer.persisted(after, now))
        self.persisted = after.revision
    self.state = after
    return bool(receipts)


def _hold_what_was_held(*of: Any) -> consumer.State:
    state, recalled = _begin(*of), of[3] if len(of) > 3 else None
    held = {TopicPartition(t, p): g for t, p, g in recalled.held} if recalled else {}
    return replace(state, held=held)


class _Remembers:
    """Tables whose look tells the offsets that the consumer remembers."""

    def __init__(self, cycle: cycle.Cycle) -> None:
        self._tables, self._positions = cycle.tables, dict(cycle.positions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def look(self, topic: Topic, generations: Any) -> dict[TopicPartition, Position]:
        positions = self._tables.look(topic, generations)
        return {
            p: replace(at, offset=self._positions.get(p, at.offset)) for p, at in positions.items()
        }


def _carry_offsets_over(self: cycle.Cycle, *of: Any) -> cycle.Taken:
    tables, self.tables = self.tables, _Remembers(self)
    try:
        return _take_topic(self, *of)
    finally:
        self.tables = tables


GUARDS = (
    Guard(
        "a start waits for the stop's receipt",
        "machine 5",
        ((management, "is_free", lambda others: True),),
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
    Guard("late news is ignored", "machine 7", ((membership, "is_news", lambda m, x: True),)),
    Guard("orders are repeated", "machine 8", ((management, "_is_due", _send_once),)),
    Guard(
        "a contradiction synchronizes", "machine 9", ((membership, "contradiction", lambda *_: ""),)
    ),
    Guard(
        "nothing moves before all have reported",
        "machine 9",
        ((synchronize, "has_reported", lambda member, state: True),),
    ),
    Guard("a change of mind is a new generation", "machine 3", ()),
    Guard(
        "silence counts only while the mailbox is heard",
        "machine 10",
        ((machine, "is_break", lambda *_: False),),
    ),
    Guard(
        "a consumer that waits is not lost",
        "machine 11",
        ((membership, "why_lost", _lose_those_who_wait),),
    ),
    Guard(
        "an incarnation that is over is not heard",
        "machine 4",
        ((membership, "is_over", lambda *_: False),),
    ),
    Guard(
        "a consumer with work is not deleted",
        "machine 15",
        ((management, "may_delete", lambda member: True),),
    ),
    Guard("a spare is kept", "machine 17", ((reassign, "spares", lambda policy, limit: 0),)),
    Guard(
        "what is decided is persisted",
        "machine 3",
        ((machine, "must_persist", lambda before, after: False),),
    ),
    Guard(
        "a consumer that never starts is given up",
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
        "a newer order drops what older ones wanted",
        "consumer 3",
        ((consumer, "_take", _keep_older_wants),),
    ),
    Guard(
        "a partition is claimed before it is read",
        "consumer 4",
        ((orders.Claims, "claim", _claim_nothing),),
    ),
    Guard(
        "a receipt waits for the claims", "consumer 6", ((consumer, "_is_open", lambda *_: False),)
    ),
    Guard(
        "the state is persisted before the receipt",
        "consumer 6",
        ((orders.Orders, "_settle", _answer_then_persist),),
    ),
    Guard(
        "a partition that another claimed is dropped",
        "consumer 7",
        ((orders.Orders, "lose", lambda *_: None),),
    ),
    Guard(
        "a new incarnation holds nothing", "consumer 8", ((consumer, "begin", _hold_what_was_held),)
    ),
    Guard("each change is a new revision", "consumer 9", ((consumer, "_changed", replace),)),
    Guard(
        "no offset is carried over from cycle to cycle",
        "Exactly once 1",
        ((cycle.Cycle, "_take", _carry_offsets_over),),
    ),
    Guard(
        "what was begun ahead is read only if it fits",
        "Exactly once 1",
        ((batches, "follow", lambda begun, available: dict(begun)),),
    ),
    Guard(
        "a look tells that another owns the partition",
        "Exactly once 3",
        ((simulated_tables, "check_owners", lambda *_: None),),
    ),
    Guard(
        "a claim is refused if the owner is newer",
        "Exactly once 3",
        (
            (
                simulated_tables,
                "claimed",
                lambda now, generation: {
                    p: Position(at.offset, generation) for p, at in now.items()
                },
            ),
        ),
    ),
    Guard(
        "the lake compares before it sets",
        "Exactly once 4",
        ((simulated_tables, "lands", lambda *_: True),),
    ),
)


SEEDS = {
    "a start waits for the stop's receipt": 0,
    "a stop is confirmed under its generation": 169,
    "late news is ignored": 10,
    "orders are repeated": 44,
    "a contradiction synchronizes": 5,
    "nothing moves before all have reported": 2,
    "a change of mind is a new generation": 123,
    "silence counts only while the mailbox is heard": 19,
    "a consumer that waits is not lost": 73,
    "an incarnation that is over is not heard": 13,
    "a consumer with work is not deleted": 70,
    "a spare is kept": 7,
    "what is decided is persisted": 2,
    "a consumer that never starts is given up": 0,
    "older orders are ignored": 90,
    "orders for other incarnations are ignored": 10000013,
    "a newer order drops what older ones wanted": 10000030,
    "a partition is claimed before it is read": 0,
    "a receipt waits for the claims": 10000000,
    "the state is persisted before the receipt": 0,
    "a partition that another claimed is dropped": 6,
    "a new incarnation holds nothing": 4,
    "each change is a new revision": 10000001,
    "no offset is carried over from cycle to cycle": 1,
    "what was begun ahead is read only if it fits": 0,
    "a look tells that another owns the partition": 10000014,
    "a claim is refused if the owner is newer": 10000015,
    "the lake compares before it sets": 62,
}
"""Where a history that goes wrong without a guard was found; looked at first."""


@contextmanager
def without(guard: Guard) -> Iterator[None]:
    """Run the block without a guard."""
    kept = [(place, name, getattr(place, name)) for place, name, _ in guard.patches]
    for place, name, instead in guard.patches:
        setattr(place, name, instead)
    phases = dict(machine.PHASES)
    if not guard.patches:
        machine.PHASES[Phase.REASSIGN] = _no_generation
    try:
        yield
    finally:
        for place, name, before in kept:
            setattr(place, name, before)
        machine.PHASES.update(phases)


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
