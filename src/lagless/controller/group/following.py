"""Whether members hold what was planned, and what is said and done while they do not."""

from collections.abc import Mapping
from dataclasses import replace

from lagless import messages
from lagless.controller.group.group_state import GroupPolicy, GroupState
from lagless.group_ports import GroupMember
from lagless.messages import Plan, SeenGroup, SeenMember
from lagless.model import Consumer, TopicPartition


def strays(state: GroupState) -> dict[TopicPartition, tuple[Consumer, Consumer | None]]:
    """Return the planned partitions that another member holds, or none: planned, and holder.

    What is planned for members that are gone counts for nothing.
    """
    present, holders = state.present, state.holders()
    return {
        p: (n, holders.get(p))
        for p, n in state.target.items()
        if n in present and holders.get(p) != n
    }


def is_followed(state: GroupState) -> bool:
    """Return whether all that is planned is held as planned, and nobody who is planned for left."""
    return not strays(state) and set(state.target.values()) <= state.present.keys()


def is_due(state: GroupState, policy: GroupPolicy) -> bool:
    """Return whether to nudge again: after 2, 4, 8, … s, and then every `retry` seconds."""
    wait = min(policy.retry, policy.first_retry * 2.0 ** min(state.nudges - 1, 10))
    return state.at - state.nudged_at >= wait


def nudged(state: GroupState) -> GroupState:
    """Return the state with one more nudge in it."""
    return replace(state, nudges=state.nudges + 1, nudged_at=state.at)


def why_not(state: GroupState) -> str:
    """Return in a sentence how the plan is not followed, and what most likely has to be changed."""
    said = f"plan {state.generation} is not followed"
    if state.protocol == "classic":
        return (
            f"{said}: the members use the classic protocol; set group.protocol=consumer on them, "
            "or lagless's ClientPlanAssignor as partition.assignment.strategy"
        )
    if state.assignor not in ("", "lagless"):
        return (
            f"{said}: the brokers place this group's members with the assignor {state.assignor}; "
            "set group.remote.assignor=lagless on the members"
        )
    lost = strays(state)
    names = state.names
    partition = min(lost)
    planned, holder = lost[partition]
    instead = f"which {names[holder]} reads" if holder is not None else "which nobody reads"
    more = f", and {len(lost) - 1} more partitions are elsewhere" if len(lost) > 1 else ""
    return (
        f"{said}: {names[planned]} should read {partition}, {instead}{more}; the member may not "
        f"subscribe to {partition.topic}, or the brokers may not read the plan: see their logs"
    )


def plan(state: GroupState, policy: GroupPolicy) -> Plan:
    """Return the plan as the assignor reads it, made or confirmed now."""
    members: dict[str, dict[str, list[int]]] = {}
    names = state.names
    for p, n in sorted(state.target.items()):
        members.setdefault(names[n], {}).setdefault(p.topic, []).append(p.partition)
    return Plan(
        group=policy.packing.group,
        generation=state.generation,
        at=state.at,
        members={
            name: {topic: tuple(them) for topic, them in topics.items()}
            for name, topics in sorted(members.items())
        },
    )


def seen(state: GroupState, policy: GroupPolicy) -> SeenGroup:
    """Return how the group is seen; what is not known is None."""
    lag = state.lag()
    return SeenGroup(
        group=policy.packing.group,
        at=state.looked_at,
        members=tuple(_member(state, n, it, lag) for n, it in state.present.items()),
        rate=state.rate,
        wanted=state.wanted,
        follows=state.follows,
    )


def _member(
    state: GroupState, number: Consumer, member: GroupMember, lag: Mapping[TopicPartition, float]
) -> SeenMember:
    held: dict[str, list[int]] = {}
    for p in sorted(member.held):
        held.setdefault(p.topic, []).append(p.partition)
    behind = [
        max(0, it.end - it.committed)
        for p in member.held
        if (it := state.progress.get(p)) is not None and it.committed is not None
    ]
    backlog = {p: lag[p] for p in sorted(member.held) if p in lag}
    return SeenMember(
        consumer=number,
        name=member.name,
        client=member.client,
        host=member.host,
        held={topic: tuple(them) for topic, them in held.items()},
        lag_records=sum(behind) if behind or not member.held else None,
        lag_bytes=sum(backlog.values()) if backlog or not member.held else None,
        backlog=messages.nest(backlog),
        bytes_per_second=state.learning.lately.get(member.name),
        max_rate=state.learning.of(member.name),
    )
