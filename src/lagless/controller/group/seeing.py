"""Take in what was seen of a group, or measured: no plan is made here."""

from collections.abc import Collection
from dataclasses import replace

from lagless import messages
from lagless.controller import decisions
from lagless.controller.events import Listed, Measured
from lagless.controller.group import learning, placement
from lagless.controller.group.group_events import GroupEvent, GroupInstruction, Looked, PlanLost
from lagless.controller.group.group_state import GroupPolicy, GroupState
from lagless.model import TopicPartition

STEP = 0.1
"""How much what was learned has to change, relative to what is used, before it is used."""
NAMED = 5
"""Members that a sentence names."""
Step = tuple[GroupState, list[GroupInstruction]]


def take(state: GroupState, event: GroupEvent, policy: GroupPolicy) -> Step:
    """Return the state that knows of the event, and what has to be said of it."""
    match event:
        case Looked():
            state, out = _look(state, event, policy)
            state, learned = _learn(state, event, policy)
            return state, out + learned
        case Listed():
            known = state.partitions or {}
            listed = [TopicPartition(*pair) for pair in event.partitions]
            return replace(state, partitions={p: known.get(p, event.at) for p in listed}), []
        case Measured():
            return _measured(state, event), []
        case PlanLost():
            state = replace(state, confirmed_at=float("-inf"))
            said = f"the topic of the plans was gone; plan {state.generation} is written again"
            return state, [decisions.warned(state, policy.packing, said)] if state.target else []
    return state, []


def _measured(state: GroupState, event: Measured) -> GroupState:
    speeds = messages.flatten(event.speeds.speeds)
    densities = messages.flatten(event.speeds.bytes_per_offset)
    stale = frozenset(TopicPartition(*p) for p in event.speeds.stale)
    return replace(
        state,
        speeds={**state.speeds, **speeds},
        stale=stale | (state.speeds.keys() - speeds.keys()),
        measured_at=max(state.measured_at, event.speeds.at),
        bytes_per_offset={**state.bytes_per_offset, **densities},
    )


def _look(state: GroupState, event: Looked, policy: GroupPolicy) -> Step:
    """Take in who is there, and what they hold."""
    members = {member.name: member for member in event.group.members}
    before = state.members
    planned = set(state.target.values())
    kept = {name: n for name, n in state.numbers.items() if name in members or n in planned}
    state = replace(
        state,
        numbers=placement.number(kept, members),
        members=members,
        protocol=event.group.protocol,
        assignor=event.group.assignor,
        looked_at=event.at,
        progress=event.progress,
    )
    if before is None or before.keys() == members.keys():
        return state, []
    state = replace(state, regrouped=True, regrouped_at=event.at)
    changes = [
        f"{_listed(names)} {verb}"
        for names, verb in (
            (members.keys() - before.keys(), "joined"),
            (before.keys() - members.keys(), "left"),
        )
        if names
    ]
    reason = f"{', '.join(changes)}: {counted(len(members))} now"
    return state, [decisions.say(messages.Regrouped, state, policy.packing, reason)]


def counted(members: int) -> str:
    """Return a number of members in words."""
    return f"{members} member{'' if members == 1 else 's'}"


def _listed(names: Collection[str]) -> str:
    some = ", ".join(sorted(names)[:NAMED])
    return some + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _learn(state: GroupState, event: Looked, policy: GroupPolicy) -> Step:
    """Take in how far the members are."""
    lag = state.lag()
    committed = {p: it.committed for p, it in event.progress.items() if it.committed is not None}
    looks = {
        name: learning.seen(
            event.at,
            member.held,
            committed,
            lag,
            state.bytes_per_offset,
            state.speeds,
            state.learning.lately.get(name, 0.0),
        )
        for name, member in (state.members or {}).items()
    }
    state = replace(state, learning=learning.look(state.learning, looks))
    learned, known = state.learning.rate, state.rate
    if policy.rate is not None or learned is None or learned <= 0:
        return state, []
    if known is not None and abs(learned - known) <= STEP * known:
        return state, []
    state = replace(state, rate=learned)
    reason = f"a member reads {learned:.0f} B/s, learned from members with a backlog"
    details = {"rate": learned}
    said = decisions.say(messages.Learned, state, policy.packing, reason, details=details)
    return state, [said]
