"""From an assignment to orders: stop → receipt → start → receipt, partitions side by side.

Level-based: each call looks at what should be, what was asked and what is held, and gives the
orders that are due now. The numbers in brackets are the rules at the head of machine.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from lagless import messages
from lagless.controller import decisions, membership, modes, sentinel
from lagless.controller.events import Create, Delete, Instruction, Turn
from lagless.controller.state import Asked, Member, Policy, Request, State
from lagless.messages import Order
from lagless.model import Cause, Consumer, TopicPartition

Kind = Literal["start", "stop"]


def turn(state: State, policy: Policy) -> Turn:
    """Send orders until every consumer holds what it should."""
    if state.lost:
        return Turn(state, [], Cause.LOST, "; ".join(state.lost[:3]))
    if state.at - state.reassigned_at >= policy.breath and sentinel.may_try(state):
        existing = state.partitions or {}
        if any(p not in existing for p in state.target):
            return Turn(state, [], Cause.GONE)
        if any(p not in state.target and sentinel.may_place(state, policy, p) for p in existing):
            return Turn(state, [], Cause.APPEARED)
    if any(not modes.may_read(state, p) for p in state.target):
        return Turn(state, [], Cause.OPERATED, modes.why(state))
    if is_settled(state):
        out: list[Instruction] = []
        if state.first_order_at is not None:
            took = state.at - state.first_order_at
            out = [decisions.timed(state, policy, "last receipt", dt4=took)]
        return Turn(replace(state, first_order_at=None), out, Cause.SETTLED)
    state, due = orders(state, policy)
    if due and state.first_order_at is None:
        state = replace(state, first_order_at=state.at)
    return Turn(state, list(due))


def orders(state: State, policy: Policy) -> tuple[State, list[Order]]:
    """Return the orders that are due, and the state that knows that they were asked."""
    readers = _readers(state)
    due: dict[tuple[Consumer, Kind], list[TopicPartition]] = {}
    for partition, consumer in state.target.items():
        owner = state.members.get(consumer)
        others = [m for m in readers.get(partition, ()) if m.consumer != consumer]
        ready = owner is not None and owner.ready
        for other in others:
            # What is read stays where it is until the new consumer can take it. An order that
            # has no receipt yet cannot be left alone, though: its deadline runs, and it may be
            # lost, or void since a higher generation was ordered.
            asked = other.asked.get(partition)
            if (ready or asked is not None) and _is_due(asked, "stop", state, policy):
                due.setdefault((other.consumer, "stop"), []).append(partition)
        if owner is None or not owner.ready:
            continue
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
    """Return whether nobody else reads a partition or may be about to (rule 5)."""
    return not others


def is_settled(state: State) -> bool:
    """Return whether everybody holds what it should, and nothing else."""
    for partition, consumer in state.target.items():
        member = state.members.get(consumer)
        if member is None or not _has(member, partition, state.generation):
            return False
    return all(
        state.target.get(p) == member.consumer
        for member in state.members.values()
        for p in (*member.held, *member.asked)
    )


def _has(member: Member, partition: TopicPartition, generation: int) -> bool:
    """Return whether a partition is held, or refused under this generation: the next asks again."""
    asked = member.asked.get(partition)
    if asked is not None:
        return asked.kind == "start" and asked.refused != "" and asked.generation == generation
    return partition in member.held


def _readers(state: State) -> dict[TopicPartition, list[Member]]:
    found: dict[TopicPartition, list[Member]] = {}
    for member in state.members.values():
        for partition in {**member.held, **member.asked}:
            found.setdefault(partition, []).append(member)
    return found


def _is_due(asked: Asked | None, kind: Kind, state: State, policy: Policy) -> bool:
    if asked is None or asked.kind != kind or asked.generation != state.generation:
        return True
    return state.at - asked.sent_at >= policy.repeat and not asked.refused  # rule 8


def _ask(
    state: State, policy: Policy, due: Mapping[tuple[Consumer, Kind], list[TopicPartition]]
) -> tuple[State, list[Order]]:
    members = dict(state.members)
    issued = []
    for (consumer, kind), partitions in due.items():
        member = members[consumer]
        asked = dict(member.asked)
        for p in partitions:
            before = asked.get(p)
            same = before is not None and before.kind == kind and not before.refused
            since = before.since if same and before is not None else state.at
            asked[p] = Asked(kind, state.generation, since, state.at)
        members[consumer] = replace(member, asked=asked)
        issued.append(
            decisions.order(state, policy, kind, consumer, member.incarnation, partitions)
        )
    if not issued:
        return state, []
    return replace(state, members=members), issued


def staff(state: State, policy: Policy) -> tuple[State, list[Instruction]]:
    """Bring about the consumers that should be, and end those that should not."""
    out: list[Instruction] = []
    for n in sorted(state.members.keys() - state.team):
        if may_delete(state.members[n]):
            state = membership.end(state, n)
            out.append(decisions.deleted(state, policy, n))
    state = membership.forget(state, policy)
    ready = {n for n in state.requests if n in state.members and state.members[n].ready}
    for n in sorted(ready & state.team):
        took = state.at - state.requests[n].since
        out.append(decisions.timed(state, policy, f"consumer {n} is ready", n, dt3=took))
        state = replace(state, failures=0)
    missing = {n for n in state.team if n not in state.members or not state.members[n].ready}
    if missing != state.requests.keys():
        wanted = {n: state.requests.get(n, Request(state.at)) for n in missing}
        state = replace(state, requests=wanted)
    state, created = _create(state, policy)
    state, deleted = _delete(state, policy)
    return state, out + created + deleted


def may_delete(member: Member) -> bool:
    """Return whether a member can go without anyone missing it (rule 15)."""
    return not member.held and not member.asked


def _create(state: State, policy: Policy) -> tuple[State, list[Instruction]]:
    if state.instances is None or state.at < state.no_creation_until:
        return state, []
    due = tuple(
        n
        for n, request in sorted(state.requests.items())
        if n not in state.members
        and n not in state.instances
        and state.at - request.created_at >= policy.repeat
    )
    if not due:
        return state, []
    requests = {
        n: replace(r, created_at=state.at) if n in due else r for n, r in state.requests.items()
    }
    return replace(state, requests=requests), [Create(due), decisions.created(state, policy, due)]


def _delete(state: State, policy: Policy) -> tuple[State, list[Instruction]]:
    over = {messages.birth(i): i for i in state.ended if messages.birth(i)}
    doomed: dict[Consumer, str] = {}
    for n, instance in (state.instances or {}).items():
        if instance.phase == "deleting":
            continue
        member = state.members.get(n)
        wanted = (
            member.is_of(instance)
            if member is not None
            else n in state.team and instance.phase != "failed" and instance.birth not in over
        )
        if not wanted and state.at - state.deleted_at.get(n, float("-inf")) >= policy.repeat:
            doomed[n] = over.get(instance.birth, instance.birth)
    if not doomed:
        return state, []
    deleted_at = {**state.deleted_at, **dict.fromkeys(doomed, state.at)}
    return replace(state, deleted_at=deleted_at), [Delete(doomed)]


def retire(state: State, policy: Policy) -> tuple[State, list[Instruction]]:
    """Tell incarnations that are over and still speak to end."""
    out: list[Instruction] = [
        decisions.order(state, policy, "retire", n, incarnation)
        for incarnation, n in state.retired.items()
    ]
    return replace(state, retired={}), out
