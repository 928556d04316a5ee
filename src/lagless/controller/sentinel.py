"""Sentinel: watch the group until one of the paper's exit conditions holds."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lagless.controller import calm, modes, rest, weights
from lagless.controller.events import Turn
from lagless.controller.state import Policy, State
from lagless.model import Cause, Consumer, TopicPartition
from lagless.packing import scores

OVER = 1.1
"""How much fuller than packed a consumer may get where there are too few consumers anyway."""


class Exit(NamedTuple):
    """A reason to reassign."""

    cause: Cause
    reason: str


def turn(state: State, policy: Policy) -> Turn:
    """Stay in Sentinel until one of its exits is open."""
    reasons = exits(state, policy)
    cause = reasons[0].cause if reasons else None
    return Turn(state, [], cause, "; ".join(exit.reason for exit in reasons[:3]))


def exits(state: State, policy: Policy) -> list[Exit]:
    """Return the reasons to leave Sentinel now; if some cannot wait, only those."""
    found = [Exit(Cause.LOST, reason) for reason in state.lost]
    holder = state.holders()
    rested = state.at - state.reassigned_at
    if rested >= policy.breath:
        found += _unread(state, policy, holder)
    found += _gone(state)
    found += _twice(state, holder)
    found += _operated(state)
    if found:
        return found  # the rest can wait, and is looked at by every packing anyway
    if rested >= policy.pause:
        found += _overload(state, policy, holder)
    elif rested >= policy.breath:
        behind = weights.unable(state, policy, holder)
        mine = {p: n for p, n in holder.items() if n in behind}
        found += _overload(state, policy, mine, "its backlog would outlast the pause of")
    if rested >= policy.iteration and not is_too_early(state, policy):
        found.append(Exit(Cause.INTERVAL, f"{policy.iteration:g} s went by"))
    return found


def _unread(
    state: State, policy: Policy, holder: Mapping[TopicPartition, Consumer]
) -> Iterator[Exit]:
    unread = [p for p in state.partitions or () if p not in holder and may_place(state, policy, p)]
    if unread and may_try(state):
        new = any(p not in state.target for p in unread)
        cause = Cause.APPEARED if new else Cause.UNREAD
        yield Exit(cause, f"{len(unread)} partitions are not read, such as {min(unread)}")


def may_place(state: State, policy: Policy, partition: TopicPartition) -> bool:
    """Return whether a partition can be given to a consumer: measured, or waited for long enough.

    One that its consumer refused is tried again after a while.
    """
    if not modes.may_read(state, partition) or rest.is_at_rest(state, policy):  # rules 16 and 18
        return False
    seen_at = (state.partitions or {}).get(partition, state.at)
    if partition not in state.speeds and state.at - seen_at < policy.patience:
        return False
    waited = state.at - state.reassigned_at >= policy.iteration
    return waited or not is_refused(state, partition)


def is_refused(state: State, partition: TopicPartition) -> bool:
    """Return whether a partition's consumer has refused to read it."""
    member = state.members.get(state.target.get(partition, 0))
    asked = member.asked.get(partition) if member is not None else None
    return asked is not None and asked.refused != ""


def is_too_early(state: State, policy: Policy) -> bool:
    """Return whether to wait for the first measurement, which creates all consumers at once.

    The first ones do not wait: whatever is measured, they will be needed.
    """
    if len(state.team) < policy.early_consumers:
        return False
    return state.measured_at == float("-inf") and state.at - state.began_at < policy.patience


def may_try(state: State) -> bool:
    """Return whether a new assignment has anyone to go to."""
    return bool(state.members) or state.at >= state.no_creation_until


def _gone(state: State) -> Iterator[Exit]:
    held = [p for m in state.members.values() for p in m.held]
    gone = [p for p in held if state.partitions is not None and p not in state.partitions]
    if gone:
        yield Exit(Cause.GONE, f"{len(gone)} partitions were removed, such as {min(gone)}")


def _twice(state: State, holder: Mapping[TopicPartition, Consumer]) -> Iterator[Exit]:
    twice = [p for n, m in state.members.items() for p in m.held if holder[p] != n]
    if twice:
        yield Exit(Cause.READ_TWICE, f"{min(twice)} is held twice")


def _operated(state: State) -> Iterator[Exit]:
    stopping = modes.to_stop(state)
    if stopping:
        yield Exit(Cause.OPERATED, f"{len(stopping)} partitions are {modes.why(state)}")


def _overload(
    state: State, policy: Policy, holder: Mapping[TopicPartition, Consumer], urgent: str = ""
) -> Iterator[Exit]:
    weight = weights.weights(state, policy)
    count = Counter(holder.values())
    limit = calm.limit(policy, state.unrest)
    if state.packed_capacity > policy.capacity:
        limit = max(limit, state.packed_capacity * OVER)
    over = {n: x for n, x in scores.loads(weight, holder).items() if x > limit and count[n] > 1}
    if over:
        worst = max(over, key=lambda n: over[n])
        others = f", and {len(over) - 1} more have too much" if len(over) > 1 else ""
        reason = f"consumer {worst} has {over[worst]:.0f} B/s of {policy.capacity:.0f}{others}"
        if policy.delay > 0:
            reason += f" ({_part(state, policy, holder, worst, limit, urgent)})"
        yield Exit(Cause.OVERLOAD, reason)


def _part(
    state: State,
    policy: Policy,
    holder: Mapping[TopicPartition, Consumer],
    consumer: Consumer,
    limit: float,
    urgent: str,
) -> str:
    """Return which part of the target for the delay forced a decision."""
    target = f"for a delay of {policy.delay:g} s"
    if urgent:
        return f"{target}, {urgent} {policy.pause:g} s"
    if scores.loads(weights.speeds(state), holder)[consumer] > limit:
        return f"{target}, its speed alone needs room"
    return f"{target}, its backlog has to be read within {policy.catch_up:g} s"
