"""When to leave Sentinel: each exit condition of the paper, and whether it can wait."""

from collections.abc import Mapping
from dataclasses import dataclass

from lagless import messages
from lagless.controller.facts import Policy, State
from lagless.model import LONG_CYCLE, Consumer, TopicPartition

OVER = 1.1
"""How much fuller than packed a consumer may get where there are too few consumers anyway."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A reason to reassign."""

    condition: str
    reason: str
    urgent: bool


def holders(state: State) -> dict[TopicPartition, Consumer]:
    """Give who holds each partition; of several, the one with the highest generation."""
    found: dict[TopicPartition, tuple[int, Consumer]] = {}
    for n, member in state.members.items():
        for partition, generation in member.held.items():
            if partition not in found or found[partition] < (generation, n):
                found[partition] = (generation, n)
    return {partition: n for partition, (_, n) in found.items()}


def weights(state: State, policy: Policy) -> dict[TopicPartition, float]:
    """Give each partition's weight: its speed, and its backlog over `catch_up` seconds.

    A partition that was never measured counts as fast as the others are on average.
    """
    partitions = sorted(state.partitions or ())
    known = [state.speeds[p] for p in partitions if p in state.speeds]
    unknown = sum(known) / len(known) if known else 0.0
    speeds = {p: state.speeds.get(p, unknown) for p in partitions}
    if policy.catch_up <= 0:
        return speeds
    late = backlogs(state, policy, speeds)
    return {p: speed + late.get(p, 0.0) / policy.catch_up for p, speed in speeds.items()}


def backlogs(
    state: State, policy: Policy, speeds: Mapping[TopicPartition, float]
) -> dict[TopicPartition, float]:
    """Give the bytes of each partition that its consumer is late with.

    What is written while a cycle gathers and reads waits always, and is nothing to catch up with;
    a cycle that takes longer than it should is late itself.
    """
    found = dict(state.backlog)
    for member in state.members.values():
        if member.last is not None:
            found.update(dict.fromkeys(member.held, 0.0))
            ordinary = policy.gather + min(member.last.cycle_seconds, LONG_CYCLE)
            for p, waiting in messages.flatten(member.last.backlog).items():
                found[p] = waiting - ordinary * speeds.get(p, 0.0)
    return {p: late for p, late in found.items() if late > 0}


def doubts(state: State, policy: Policy) -> str:
    """Say why the measurements are not good enough to scale down on; "" if they are."""
    age = state.at - state.measured_at
    if age > policy.stale_after:
        return (
            "nothing was ever measured"
            if state.measured_at == float("-inf")
            else f"the last measurement is {age:.0f} s old"
        )
    missing = [p for p in state.partitions or () if p not in state.speeds or p in state.stale]
    if missing:
        return f"{len(missing)} partitions have no fresh speed, {min(missing)} for one"
    return ""


def loads(
    weight: Mapping[TopicPartition, float], holder: Mapping[TopicPartition, Consumer]
) -> dict[Consumer, float]:
    """Give each consumer's load."""
    load: dict[Consumer, float] = {}
    for partition, consumer in holder.items():
        load[consumer] = load.get(consumer, 0.0) + weight.get(partition, 0.0)
    return load


def exits(state: State, policy: Policy) -> list[Exit]:
    """Give the reasons to leave Sentinel now; if some cannot wait, only those."""
    found = [Exit("a consumer is lost", reason, urgent=True) for reason in state.lost]
    holder = holders(state)
    rested = state.at - state.reassigned_at
    if rested >= policy.breath:
        found += _unread(state, policy, holder)
    found += _gone(state)
    found += _twice(state, holder)
    if found:
        return found  # the rest can wait, and is looked at by every packing anyway
    if rested >= policy.pause:
        found += _overload(state, policy, holder)
    if rested >= policy.iteration and not is_too_early(state, policy):
        found.append(Exit("the interval is up", f"{policy.iteration:g} s went by", urgent=False))
    return found


def _unread(state: State, policy: Policy, holder: Mapping[TopicPartition, Consumer]) -> list[Exit]:
    unread = [p for p in state.partitions or () if p not in holder and may_place(state, policy, p)]
    if not unread or not may_try(state):
        return []
    new = [p for p in unread if p not in state.target]
    condition = "partitions appeared" if new else "a partition has no consumer"
    return [Exit(condition, f"{len(unread)} partitions are not read, {min(unread)} for one", True)]


def may_place(state: State, policy: Policy, partition: TopicPartition) -> bool:
    """Say whether a partition can be given to a consumer: measured, or waited for long enough.

    One that its consumer refused is tried again after a while.
    """
    seen_at = (state.partitions or {}).get(partition, state.at)
    if partition not in state.speeds and state.at - seen_at < policy.patience:
        return False
    consumer = state.target.get(partition)
    member = state.members.get(consumer) if consumer is not None else None
    asked = member.asked.get(partition) if member is not None else None
    if asked is not None and asked.refused:
        return state.at - state.reassigned_at >= policy.iteration
    return True


def is_too_early(state: State, policy: Policy) -> bool:
    """Say whether the first measurement may still come: it should create all consumers at once."""
    return state.measured_at == float("-inf") and state.at - state.began_at < policy.patience


def may_try(state: State) -> bool:
    """Say whether a new assignment has anyone to go to."""
    return bool(state.members) or state.at >= state.no_creation_until


def _gone(state: State) -> list[Exit]:
    existing = state.partitions
    if existing is None:
        return []
    gone = [p for m in state.members.values() for p in m.held if p not in existing]
    if not gone:
        return []
    return [Exit("partitions went", f"{len(gone)} partitions went, {min(gone)} for one", True)]


def _twice(state: State, holder: Mapping[TopicPartition, Consumer]) -> list[Exit]:
    twice = [p for n, m in state.members.items() for p in m.held if holder[p] != n]
    if not twice:
        return []
    return [Exit("a partition has two consumers", f"{min(twice)} is held twice", urgent=True)]


def _overload(
    state: State, policy: Policy, holder: Mapping[TopicPartition, Consumer]
) -> list[Exit]:
    weight = weights(state, policy)
    count: dict[Consumer, int] = {}
    for consumer in holder.values():
        count[consumer] = count.get(consumer, 0) + 1
    limit = policy.capacity
    if state.packed_capacity > limit:
        limit = state.packed_capacity * OVER
    over = {n: x for n, x in loads(weight, holder).items() if x > limit and count[n] > 1}
    if not over:
        return []
    worst = max(over, key=lambda n: over[n])
    others = f", and {len(over) - 1} more have too much" if len(over) > 1 else ""
    reason = f"consumer {worst} has {over[worst]:.0f} B/s of {policy.capacity:.0f}{others}"
    return [Exit("a consumer has more than its capacity", reason, urgent=False)]
