"""The consumer's side of the protocol: orders in; claims, state and receipts out. No I/O.

Rules
 1. An order for another incarnation is ignored; a report order for "" is for whoever is there.
 2. An order older than the highest generation known is ignored; a report is always answered.
 3. A newer order raises the highest generation, and what older orders wanted and did not get yet
    is dropped: the controller orders it again. So "highest ≥ g and not held" is a promise that no
    order older than g can make it held any more.
 4. A partition is held from the moment that the lake has accepted its claim under the order's
    generation, never before. A stopped partition is not held from this moment on: so orders are
    taken between cycles only, when nothing is in flight.
 5. The same order twice changes nothing and is answered twice.
 6. A receipt is due when nothing that its order named is still to be claimed. Persist first, send
    then; if persisting fails keep the old state, and the same receipts are due again.
 7. A claim found with a higher generation drops the partition and raises the highest generation.
 8. A new incarnation holds nothing until ordered. It is drawn as "birth.random", where birth is
    the variable LAGLESS_BIRTH that the provisioner set, or nothing (messages.incarnation).
 9. Each change of what is held or of the highest generation is a new revision; heartbeats and
    receipts carry it, so that a late one is not taken for news.

Between two cycles `orders.Orders` goes through receive, to_claim, then claimed, refused or nothing
(to be claimed again), then settle, persisted, and the sending of the receipts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lagless.messages import ConsumerState, Heartbeat, Order, Receipt
from lagless.model import Consumer, TopicPartition


@dataclass(frozen=True, slots=True)
class State:
    """A consumer's knowledge of its orders."""

    group: str
    consumer: Consumer
    incarnation: str
    highest: int = 0
    """The highest generation that it or one of its tables knows of."""
    revision: int = 0
    held: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The partitions that it reads, and the generation under which it claimed each."""
    wanted: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partitions that it was ordered to read and has not claimed yet."""
    owed: tuple[Order, ...] = ()
    """The orders that have no receipt yet."""
    refusals: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that it could not claim, until the receipt reports them."""
    ending: bool = False


def begin(
    group: str, consumer: Consumer, incarnation: str, recalled: ConsumerState | None = None
) -> State:
    """Begin as a new incarnation, which knows its number's highest generation and holds nothing."""
    highest = recalled.highest if recalled is not None else 0
    return State(group, consumer, incarnation, highest)


def receive(state: State, orders: Iterable[Order]) -> State:
    """Take orders, in the order of their arrival, between two cycles."""
    for order in orders:
        if _is_mine(state, order):
            state = _take(state, order)
    return state


def to_claim(state: State) -> dict[int, frozenset[TopicPartition]]:
    """Return what has to be claimed in the lake now, by generation."""
    return {
        generation: frozenset(p for p, wanted in state.wanted.items() if wanted == generation)
        for generation in state.wanted.values()
    }


def claimed(state: State, partitions: Collection[TopicPartition]) -> State:
    """Hold partitions whose claim the lake has accepted."""
    accepted = {p: state.wanted[p] for p in partitions if p in state.wanted}
    return _changed(
        state,
        held={**state.held, **accepted},
        wanted={p: g for p, g in state.wanted.items() if p not in accepted},
    )


def refused(state: State, reasons: Mapping[TopicPartition, str], owner: int = 0) -> State:
    """Give up claims that cannot succeed; `owner` is the highest generation found in the table."""
    return _changed(
        state,
        highest=max(state.highest, owner),
        held={p: g for p, g in state.held.items() if p not in reasons},
        wanted={p: g for p, g in state.wanted.items() if p not in reasons},
        refusals={**state.refusals, **{p: r for p, r in reasons.items() if p in state.wanted}},
    )


def lost(state: State, partitions: Collection[TopicPartition], owner: int = 0) -> State:
    """Drop partitions that a look or a commit found claimed by another under generation `owner`."""
    return refused(state, dict.fromkeys(partitions, "claimed by another consumer"), owner)


def settle(state: State, at: float) -> tuple[State, tuple[Receipt, ...]]:
    """Return the receipts that are due, and the state after they are sent."""
    receipts = tuple(_receipt(state, o, at) for o in state.owed if not _is_open(state, o))
    rest = tuple(order for order in state.owed if _is_open(state, order))
    return replace(state, owed=rest, refusals={} if not rest else state.refusals), receipts


def persisted(state: State, at: float) -> ConsumerState:
    """Return what has to be persisted before receipts are sent."""
    return ConsumerState(**_standing(state, at))


def heartbeat(state: State, at: float, *, ready: bool, **measured: Any) -> Heartbeat:
    """Return a heartbeat; `measured` are the fields that only the service knows."""
    return Heartbeat(
        **_standing(state, at),
        state="ending" if state.ending else "ready" if ready else "starting",
        **measured,
    )


def _is_mine(state: State, order: Order) -> bool:
    if order.group != state.group or order.consumer != state.consumer:
        return False
    if order.kind == "report":  # rules 1 and 2
        return order.incarnation in ("", state.incarnation)
    return order.incarnation == state.incarnation and order.generation >= state.highest


def _take(state: State, order: Order) -> State:
    if order.generation > state.highest:  # rule 3
        state = _changed(state, highest=order.generation, wanted={}, owed=(), refusals={})
    named = {TopicPartition(*pair) for pair in order.partitions}
    held, wanted = state.held, state.wanted
    if order.kind == "start" and not state.ending:
        new = {p: order.generation for p in named if held.get(p, -1) < order.generation}
        wanted = {**wanted, **new}
    elif order.kind == "stop":
        held = {p: g for p, g in held.items() if p not in named}
        wanted = {p: g for p, g in wanted.items() if p not in named}
    elif order.kind == "retire":
        held, wanted = {}, {}
    return _changed(
        state,
        held=held,
        wanted=wanted,
        owed=(*(o for o in state.owed if o != order), order),
        ending=state.ending or order.kind == "retire",
    )


def _changed(state: State, **fields: Any) -> State:
    """Replace fields, and count a new revision if others have to know (rule 9)."""
    after = replace(state, **fields)
    if after.held != state.held or after.highest != state.highest:
        after = replace(after, revision=state.revision + 1)
    return after


def _is_open(state: State, order: Order) -> bool:
    return order.kind == "start" and any(
        TopicPartition(*pair) in state.wanted for pair in order.partitions
    )


def _receipt(state: State, order: Order, at: float) -> Receipt:
    pairs = [(TopicPartition(*pair), pair) for pair in order.partitions]
    return Receipt(
        **_standing(state, at),
        kind=order.kind,
        generation=order.generation,
        partitions=tuple(pair for p, pair in pairs if (p in state.held) == (order.kind == "start")),
        refused=tuple(
            (p.topic, p.partition, state.refusals.get(p, "not held any more"))
            for p, _ in pairs
            if order.kind == "start" and p not in state.held
        ),
    )


def _standing(state: State, at: float) -> dict[str, Any]:
    """Return the fields that every message of a consumer has."""
    own = ("group", "consumer", "incarnation", "highest", "revision")
    held = tuple((p.topic, p.partition, g) for p, g in state.held.items())
    return {**{name: getattr(state, name) for name in own}, "held": held, "at": at}
