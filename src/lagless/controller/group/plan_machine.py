"""The controller of a group that follows plans, without I/O: step(state, event, policy).

Rules
 1. Time is in the events. The same events give the same instructions.
 2. The group is looked at, not heard: what its coordinator says is the truth, and who is in the
    group is a member. Nothing is planned on a look that is too old.
 3. A plan that changes has a new generation, and is persisted in the transaction that publishes it.
    The same plan is confirmed from time to time, since the assignor ignores one that is too old.
 4. A plan takes effect when Kafka assigns again, so the group is nudged after it, and again after
    growing waits until the members hold what was planned.
 5. A plan that is not followed in time is said to be so, with the likeliest reason; lagless goes on
    trying.
 6. Partitions are placed only on members that are present. Members that come or go together lead
    to one plan. While nobody is there, the plan stands for those who come back.
 7. What a member can read is set or learned. Until it is known, no number of members is asked for;
    while measurements are stale, no smaller one.
 8. Fewer members are asked for only when those to go hold nothing; none at all, where that is
    allowed, only when nothing is written and everything is read.
 9. Without a measurement there is no first plan: the group stays as it was found.
"""

from dataclasses import replace

from lagless import messages
from lagless.controller import decisions, weights
from lagless.controller.events import Measured, Persist
from lagless.controller.group import following, learning, placement, seeing
from lagless.controller.group.group_events import (
    GroupEvent,
    GroupInstruction,
    Looked,
    Nudge,
    Publish,
    Scale,
    Show,
)
from lagless.controller.group.group_state import GroupPolicy, GroupState
from lagless.controller.group.seeing import Step
from lagless.messages import ControllerState
from lagless.model import Cause, Phase
from lagless.packing import scores

NEVER = float("-inf")


def begin(persisted: ControllerState | None, at: float, policy: GroupPolicy) -> GroupState:
    """Begin with what was persisted, under a new generation; the group has yet to be looked at."""
    known = persisted or ControllerState(group="", generation=0, at=at)
    return GroupState(
        phase=Phase.SYNCHRONIZE,
        at=at,
        generation=known.generation + 1,
        began_at=at,
        numbers={name: n for n, name in known.members.items()},
        target=messages.unnest(known.target),
        learning=learning.Learning(prior=known.rate),
        rate=policy.rate if policy.rate is not None else known.rate,
    )


def step(state: GroupState, event: GroupEvent, policy: GroupPolicy) -> Step:
    """Take one event in; give the next state, and the instructions that follow from it."""
    before = state
    state = replace(state, at=max(state.at, event.at))
    state, out = seeing.take(state, event, policy)
    if state.members is None or state.partitions is None:
        return state, out
    if state.phase is Phase.SYNCHRONIZE:
        state, more = _synchronized(state, policy)
        out += more
    if isinstance(event, Looked | Measured):
        state, more = _replan(state, policy)
        out += more
    state, more = _publish(state, policy)
    out += more
    if isinstance(event, Looked):
        state, followed = _follow(state, policy)
        state, scaled = _scale(state, policy)
        out += [*followed, *scaled, Show(following.seen(state, policy))]
    if _must_persist(before, state):
        out.append(Persist(persisted(state, policy.packing.group)))
    return state, out


def _synchronized(state: GroupState, policy: GroupPolicy) -> Step:
    """Leave Synchronize: the group has been looked at."""
    state = replace(state, phase=Phase.SENTINEL, regrouped=True, regrouped_at=state.at)
    reason = f"the group has {seeing.counted(len(state.members or ()))}"
    return state, [decisions.changed(state, policy.packing, Cause.SYNCHRONIZED, reason)]


def why(state: GroupState, policy: GroupPolicy) -> tuple[Cause, str] | None:
    """Return why a new plan is to be made now, or None."""
    packing, rested = policy.packing, state.at - state.planned_at
    if state.at - state.looked_at > policy.blind:  # rule 2
        return None
    never = state.measured_at == NEVER
    if never and state.at - state.began_at < packing.patience:  # rule 9
        return None
    calm = state.at - state.regrouped_at >= policy.settle
    if state.regrouped and (calm or rested >= packing.iteration):  # rule 6
        count = seeing.counted(len(state.members or ()))
        return Cause.REGROUPED, f"{Cause.REGROUPED.value}: {count} now"
    if rested < packing.breath:
        return None
    existing = state.partitions or {}
    new = [
        p
        for p, seen_at in existing.items()
        if p not in state.target and (p in state.speeds or state.at - seen_at >= packing.patience)
    ]
    if new and state.members:
        return Cause.APPEARED, f"{len(new)} partitions are not planned, such as {min(new)}"
    gone = [p for p in state.target if p not in existing]
    if gone:
        return Cause.GONE, f"{len(gone)} partitions were removed, such as {min(gone)}"
    if rested >= packing.pause and (overload := _overload(state, policy)):
        return Cause.OVERLOAD, overload
    is_moving = state.follows is False and state.at - state.changed_at < policy.follow_deadline
    if rested >= (packing.iteration if state.members else packing.pause) and not is_moving:
        return Cause.INTERVAL, f"{rested:.0f} s went by"
    return None


def _overload(state: GroupState, policy: GroupPolicy) -> str:
    """Return which member has more than it can keep up with; "" if none has."""
    limit = placement.capacity(state, policy)
    if limit is None:
        return ""
    weight = weights.weights(placement.view(state, policy), policy.packing)
    load = scores.loads(weight, state.target)
    held = list(state.target.values())
    over = {n: x for n, x in load.items() if x > limit and held.count(n) > 1}
    if not over:
        return ""
    worst = max(over, key=lambda n: over[n])
    return f"{state.names[worst]} has {over[worst]:.0f} B/s of {limit:.0f}"


def _replan(state: GroupState, policy: GroupPolicy) -> Step:
    """Make a new plan if there is a reason to."""
    reason = why(state, policy)
    if reason is None:
        return state, []
    placing = placement.place(state, policy)
    plan, packing = placing.plan, policy.packing
    out: list[GroupInstruction] = []
    if plan.warnings != state.warnings:
        out += [decisions.warned(state, packing, warning) for warning in plan.warnings]
    state = replace(
        state, planned_at=state.at, regrouped=False, wanted=placing.wanted, warnings=plan.warnings
    )
    if not state.members or plan.assignment == state.target:  # rule 6
        return state, out
    state = replace(state, phase=Phase.REASSIGN)
    if reason[0] is not Cause.INTERVAL:
        out.append(decisions.changed(state, packing, *reason))
    state = replace(
        state,
        generation=state.generation + 1,
        target=plan.assignment,
        changed_at=state.at,
        confirmed_at=NEVER,
        nudges=0,
        nudged_at=NEVER,
        follows=False,
    )
    out.append(decisions.assigned(state, packing, plan))
    state = replace(state, phase=Phase.MANAGEMENT)
    out.append(decisions.changed(state, packing, Cause.ASSIGNED, ""))
    return state, out


def _publish(state: GroupState, policy: GroupPolicy) -> Step:
    """Publish a plan that is new, or that has to be confirmed."""
    if not state.target or state.at - state.confirmed_at < policy.confirm:
        return state, []
    state = replace(state, confirmed_at=state.at)
    out: list[GroupInstruction] = [Publish(following.plan(state, policy))]
    if following.strays(state):
        state = following.nudged(state)
        out.append(Nudge())
    return state, out


def _follow(state: GroupState, policy: GroupPolicy) -> Step:
    """Compare what members hold with the plan; nudge them, and say so where they do not follow."""
    if not state.target:
        return replace(state, follows=None), []
    packing = policy.packing
    out: list[GroupInstruction] = []
    strays = following.strays(state)
    if not strays and not following.is_followed(state):
        return replace(state, follows=False), out  # who left is planned for until a new plan
    if not strays:
        if state.phase is Phase.MANAGEMENT:
            took = state.at - state.changed_at
            out.append(decisions.timed(state, packing, "the plan is followed", dt4=took))
            state = replace(state, phase=Phase.SENTINEL)
            out.append(decisions.changed(state, packing, Cause.SETTLED, ""))
        return replace(state, follows=True, nudges=0, warned_at=NEVER), out
    if state.phase is Phase.SENTINEL:
        # Nothing was planned: who moved, or came back, may get there without a nudge.
        state = replace(
            state, phase=Phase.MANAGEMENT, changed_at=state.at, nudges=1, nudged_at=state.at
        )
        reason = f"{len(strays)} partitions are not where they are planned, such as {min(strays)}"
        out.append(decisions.changed(state, packing, Cause.CONTRADICTION, reason))
    state = replace(state, follows=False)
    late = state.at - state.changed_at >= policy.follow_deadline
    if late and state.at - state.warned_at >= policy.again:  # rule 5
        state = replace(state, warned_at=state.at)
        out.append(decisions.warned(state, packing, following.why_not(state)))
    if following.is_due(state, policy):  # rule 4
        state = following.nudged(state)
        out.append(Nudge())
    return state, out


def _scale(state: GroupState, policy: GroupPolicy) -> Step:
    """Ask for the number of members that is wanted (rules 7 and 8)."""
    if not policy.scales or state.wanted is None:
        return state, []
    present = state.present
    busy = set(state.target.values())
    idle = [m for n, m in present.items() if n not in busy and not m.held]
    if state.wanted == 0:
        idle = list(present.values())
    size = state.wanted
    if 0 < size < len(present):
        free = len(idle) if state.follows or not state.target else 0
        size = max(size, len(present) - free)
    if weights.doubts(placement.view(state, policy), policy.packing):
        size = max(size, len(present) if state.asked is None else state.asked)
    out: list[GroupInstruction] = []
    if size != state.asked:
        if state.asked is not None or size != len(present):
            reason = f"{seeing.counted(size)} wanted, {len(present)} there"
            details = {"wanted": size, "present": len(present)}
            say = decisions.say(messages.Scaled, state, policy.packing, reason, details=details)
            out.append(say)
    elif state.at - state.asked_at < policy.repeat:
        return state, []
    out.append(Scale(size, tuple(idle)))
    return replace(state, asked=size, asked_at=state.at), out


def persisted(state: GroupState, group: str) -> ControllerState:
    """Return what has to be persisted with the plan of this state."""
    return ControllerState(
        group=group,
        generation=state.generation,
        members=state.names,
        team=tuple(sorted(set(state.target.values()))),
        target=messages.nest(state.target),
        rate=state.rate,
        at=state.at,
    )


def _must_persist(before: GroupState, after: GroupState) -> bool:
    """Return whether a restart that knows only `before` could be wrong about `after`."""
    return (
        before.phase is Phase.SYNCHRONIZE
        or before.generation != after.generation
        or before.target is not after.target
        or before.numbers != after.numbers
        or before.rate != after.rate
    )
