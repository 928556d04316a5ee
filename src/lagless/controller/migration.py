"""From an assignment to orders: stop → receipt → start → receipt, partitions side by side.

Level-based: each call looks at what should be, what was asked and what is held, and gives the
orders that are due now. The numbers in brackets are the rules at the head of machine.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from lagless.controller.facts import Asked, Member, Policy, State
from lagless.messages import Order
from lagless.model import Consumer, TopicPartition

Kind = Literal["start", "stop"]


def orders(state: State, policy: Policy) -> tuple[State, list[Order]]:
    """Give the orders that are due, and the state that knows that they were asked."""
    readers = _readers(state)
    due: dict[tuple[Consumer, Kind], list[TopicPartition]] = {}
    for partition, consumer in state.target.items():
        owner = state.members.get(consumer)
        others = [m for m in readers.get(partition, ()) if m.consumer != consumer]
        if owner is None or not owner.ready:
            continue  # what is read stays where it is until the new consumer can take it
        for other in others:
            if _is_due(other.asked.get(partition), "stop", state, policy):
                due.setdefault((other.consumer, "stop"), []).append(partition)
        if partition in owner.held and partition not in owner.asked:
            continue
        if is_free(others) and _is_due(owner.asked.get(partition), "start", state, policy):
            due.setdefault((consumer, "start"), []).append(partition)
    for partition, members in readers.items():
        if partition not in state.target:
            for member in members:
                if _is_due(member.asked.get(partition), "stop", state, policy):
                    due.setdefault((member.consumer, "stop"), []).append(partition)
    return _ask(state, policy, due)


def is_free(others: list[Member]) -> bool:
    """Say whether nobody else reads a partition or may be about to (rule 5)."""
    return not others


def is_settled(state: State) -> bool:
    """Say whether everybody holds what it should, and nothing else."""
    for partition, consumer in state.target.items():
        member = state.members.get(consumer)
        if member is None or not _has(member, partition):
            return False
    return all(
        state.target.get(p) == member.consumer
        for member in state.members.values()
        for p in (*member.held, *member.asked)
    )


def _has(member: Member, partition: TopicPartition) -> bool:
    asked = member.asked.get(partition)
    if asked is not None:
        return asked.kind == "start" and asked.refused != ""
    return partition in member.held


def _readers(state: State) -> dict[TopicPartition, list[Member]]:
    found: dict[TopicPartition, list[Member]] = {}
    for member in state.members.values():
        for partition in member.held:
            found.setdefault(partition, []).append(member)
        for partition in member.asked:
            if partition not in member.held:
                found.setdefault(partition, []).append(member)
    return found


def _is_due(asked: Asked | None, kind: Kind, state: State, policy: Policy) -> bool:
    if asked is None or asked.kind != kind or asked.generation != state.generation:
        return True
    return state.at - asked.sent_at >= policy.repeat and not asked.refused  # rule 8


def _ask(
    state: State,
    policy: Policy,
    due: Mapping[tuple[Consumer, Kind], list[TopicPartition]],
) -> tuple[State, list[Order]]:
    members = dict(state.members)
    given = []
    for (consumer, kind), partitions in due.items():
        member = members[consumer]
        asked = dict(member.asked)
        for p in partitions:
            before = asked.get(p)
            same = before is not None and before.kind == kind and not before.refused
            since = before.since if same and before is not None else state.at
            asked[p] = Asked(kind, state.generation, since, state.at)
        members[consumer] = replace(member, asked=asked)
        given.append(
            Order(
                group=policy.group,
                kind=kind,
                consumer=consumer,
                incarnation=member.incarnation,
                generation=state.generation,
                partitions=tuple((p.topic, p.partition) for p in partitions),
                at=state.at,
            )
        )
    if not given:
        return state, []
    return replace(state, members=members), given
