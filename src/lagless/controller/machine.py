"""The controller without I/O: step(state, event, policy) gives the next state and instructions.

Rules
 1. Time is in the events. The same events give the same instructions.
 2. Every instruction may be lost, and may be given twice without harm: it is given again until
    what it asks for is seen.
 3. Orders carry the generation. Any change of mind is a new generation, persisted with the orders.
 4. An order names the incarnation that it means. An incarnation that is over is never ordered
    anything but to end, and nothing that it says counts but the generation that it knows.
 5. A partition is started only when no other member holds it or has an open order for it.
 6. A start is confirmed by "held under its generation", a stop by "not held" from someone who
    knows its generation: then no older order can undo it.
 7. A message older than the newest from its incarnation only proves that it is alive.
 8. An order without receipt is sent again every `repeat` seconds, in the same generation.
 9. What a member says is the truth. If it is not what was believed, Synchronize: a new generation,
    a report from every member under it, and nothing is moved before all have answered or are lost.
10. Silence counts only while the mailbox is heard: after the controller's own start, pause or
    outage everyone has a full deadline.
11. A consumer that waits for Spark, Kafka or the lake is not lost, however late it is.
12. A number is given to a new consumer only when what ran under it is gone.
13. The group does not scale down on measurements that are stale or missing.
14. A stop is ordered only when the new consumer is ready to start.
15. Consumers are deleted only when they hold nothing and have no open order, or are over.
16. While the group is paused nothing is started or moved; while it drains, nothing that is drained.
    No consumer is deleted for want of work before the group is resumed.
17. Partitions that need one more consumer go to one that is ready, if there is a spare. Another
    spare is asked for in the same step.
18. A group that may scale to zero does so only when all that was written is known to be read.
"""

from collections.abc import Callable
from dataclasses import replace

from lagless import messages
from lagless.controller import (
    decisions,
    management,
    membership,
    modes,
    reassign,
    rest,
    sentinel,
    synchronize,
)
from lagless.controller.events import Deaf, Event, Instruction, Mail, Persist, Provisioned, Turn
from lagless.controller.state import Member, Policy, State
from lagless.errors import GiveUp
from lagless.messages import ControllerState
from lagless.model import Cause, Phase

STRIDE = 1000
"""Generations to go past what consumers know when the own state was lost."""

TRANSITIONS: dict[tuple[Phase, Cause], Phase] = {
    (Phase.SYNCHRONIZE, Cause.SYNCHRONIZED): Phase.SENTINEL,
    (Phase.SENTINEL, Cause.UNREAD): Phase.REASSIGN,
    (Phase.SENTINEL, Cause.READ_TWICE): Phase.REASSIGN,
    (Phase.SENTINEL, Cause.LOST): Phase.REASSIGN,
    (Phase.SENTINEL, Cause.OVERLOAD): Phase.REASSIGN,
    (Phase.SENTINEL, Cause.APPEARED): Phase.REASSIGN,
    (Phase.SENTINEL, Cause.GONE): Phase.REASSIGN,
    (Phase.SENTINEL, Cause.INTERVAL): Phase.REASSIGN,
    (Phase.REASSIGN, Cause.ASSIGNED): Phase.MANAGEMENT,
    (Phase.REASSIGN, Cause.UNCHANGED): Phase.SENTINEL,
    (Phase.SENTINEL, Cause.OPERATED): Phase.REASSIGN,
    (Phase.MANAGEMENT, Cause.OPERATED): Phase.REASSIGN,
    (Phase.MANAGEMENT, Cause.SETTLED): Phase.SENTINEL,
    (Phase.MANAGEMENT, Cause.LOST): Phase.REASSIGN,
    (Phase.MANAGEMENT, Cause.APPEARED): Phase.REASSIGN,
    (Phase.MANAGEMENT, Cause.GONE): Phase.REASSIGN,
    (Phase.SYNCHRONIZE, Cause.CONTRADICTION): Phase.SYNCHRONIZE,
    (Phase.SENTINEL, Cause.CONTRADICTION): Phase.SYNCHRONIZE,
    (Phase.MANAGEMENT, Cause.CONTRADICTION): Phase.SYNCHRONIZE,
}
"""The paper's figure "Controller State Machine"; the diagram in the docs is made from this."""


PHASES: dict[Phase, Callable[[State, Policy], Turn]] = {
    Phase.SYNCHRONIZE: synchronize.turn,
    Phase.SENTINEL: sentinel.turn,
    Phase.REASSIGN: reassign.turn,
    Phase.MANAGEMENT: management.turn,
}


def begin(persisted: ControllerState | None, at: float) -> State:
    """Begin with what was persisted: in Synchronize, with a full deadline for everyone."""
    if persisted is None:
        persisted = ControllerState(group="", generation=0, strangers=True, at=at)
    generation = persisted.generation + 1
    return State(
        phase=Phase.SYNCHRONIZE,
        at=at,
        generation=generation,
        fence=generation,
        began_at=at,
        hearing_since=at,
        synchronizing_since=at,
        knew_nothing=persisted.strangers,
        members={n: Member(n, i, heard_at=at) for n, i in persisted.members.items()},
        ended={i: (n, at) for i, n in persisted.ended.items()},
        team=frozenset(persisted.team),
        target=messages.unnest(persisted.target),
        mode=persisted.mode,
    )


def step(state: State, event: Event, policy: Policy) -> tuple[State, list[Instruction]]:
    """Take one event in; give the next state, and the instructions that follow from it."""
    before = state
    at = max(state.at, event.at)
    hearing_since = at if is_break(state, event, policy) else state.hearing_since
    state = replace(state, at=at, hearing_since=hearing_since)
    state = modes.progress(membership.learn(state, event, policy))
    state = rest.watch(before, state, event, policy)
    if isinstance(event, Mail) and _is_quiet(before, state):
        return state, []
    state, out = _judge(state, policy, len(before.lost))
    if before.mode.taken != state.mode.taken or before.mode.name != state.mode.name:
        out.insert(0, decisions.operated(state, policy))
    if isinstance(event, Provisioned):
        out += _troubles(before, state, policy)
    state, moved = _run(state, policy)
    out += moved
    if state.phase is not Phase.SYNCHRONIZE:
        state, managed = management.staff(state, policy)
        out += managed
    state, farewells = management.retire(state, policy)
    out += farewells
    if must_persist(before, state) or before.at == before.began_at:
        out.append(Persist(persisted(state, policy.group)))
    return state, out


def is_break(state: State, event: Event, policy: Policy) -> bool:
    """Return whether the controller did not hear the mailbox for a while (rule 10)."""
    return isinstance(event, Deaf) or event.at - state.at > policy.max_gap


def _is_quiet(before: State, after: State) -> bool:
    """Return whether mail brought signs of life only, so that there is nothing to decide."""
    if after.contradiction or after.retired or before.mode is not after.mode:
        return False
    if before.members.keys() != after.members.keys():
        return False
    return all(
        b.revision == a.revision and b.ready == a.ready and b.asked == a.asked
        for b, a in zip(before.members.values(), after.members.values(), strict=True)
        if b is not a
    )


def _judge(state: State, policy: Policy, known: int) -> tuple[State, list[Instruction]]:
    """Find who is lost and who never started; `known` of them were told before."""
    for n, member in list(state.members.items()):
        reason = membership.why_lost(state, member, policy)
        if reason:
            state = membership.lose(state, n, reason)
    for n, request in list(state.requests.items()):
        reason = membership.why_not_ready(state, n, request, policy)
        if reason and state.phase is not Phase.SYNCHRONIZE:
            state = membership.fail(state, n, f"consumer {n} did not start: {reason}", policy)
    return state, [decisions.lost(state, policy, reason) for reason in state.lost[known:]]


def _troubles(before: State, after: State, policy: Policy) -> list[Instruction]:
    """Return what keeps instances from starting that may still start, a pod without room say."""
    known = {n: instance.trouble for n, instance in (before.instances or {}).items()}
    return [
        decisions.warned(after, policy, f"consumer {n} does not start: {instance.trouble}", n)
        for n, instance in (after.instances or {}).items()
        if instance.phase == "starting" and instance.trouble not in ("", known.get(n))
    ]


def _run(state: State, policy: Policy) -> tuple[State, list[Instruction]]:
    """Go through phases until one stays; at most once around."""
    out: list[Instruction] = []
    rested = False
    while not rested:
        if state.contradiction:
            turn = Turn(state, [], Cause.CONTRADICTION, state.contradiction)
        else:
            turn = PHASES[state.phase](state, policy)
        state = turn.state
        out += turn.out
        if turn.cause is None:
            return state, out
        after = move(state, turn.cause)
        rested = after.phase is Phase.SENTINEL
        if turn.cause not in (Cause.UNCHANGED, Cause.INTERVAL):
            out.append(decisions.changed(after, policy, turn.cause, turn.reason))
        state = after
    return state, out


def move(state: State, cause: Cause) -> State:
    """Go to the phase that the cause leads to; a cause that is not in the table is a mistake."""
    phase = TRANSITIONS.get((state.phase, cause))
    if phase is None:
        raise GiveUp(
            f"the controller cannot leave {state.phase.value} because {cause.value!r} "
            f"(generation {state.generation}, members {sorted(state.members)})"
        )
    if phase is not Phase.SYNCHRONIZE:
        return replace(state, phase=phase)
    highest = max(state.generation, state.known)
    # What was lost with the state may have been ahead of what consumers have heard of.
    generation = highest + (STRIDE if state.knew_nothing else 1)
    return replace(
        state,
        phase=phase,
        generation=generation,
        fence=generation,
        synchronizing_since=state.at,
        contradiction="",
        members={
            n: replace(m, asked={}, reported_at=float("-inf")) for n, m in state.members.items()
        },
    )


def persisted(state: State, group: str) -> ControllerState:
    """Return what has to be persisted with the orders of this state."""
    return ControllerState(
        group=group,
        generation=state.generation,
        members={n: member.incarnation for n, member in state.members.items()},
        team=tuple(sorted(state.team)),
        ended={i: n for i, (n, _) in state.ended.items()},
        target=messages.nest(state.target),
        mode=state.mode,
        strangers=state.knew_nothing,
        at=state.at,
    )


def must_persist(before: State, after: State) -> bool:
    """Return whether a restart that knows only `before` could be wrong about `after`."""
    return (
        before.generation != after.generation
        or before.team != after.team
        or before.knew_nothing != after.knew_nothing
        or before.mode is not after.mode
        or before.ended is not after.ended
        or before.target is not after.target
        or (
            before.members is not after.members
            and {n: m.incarnation for n, m in before.members.items()}
            != {n: m.incarnation for n, m in after.members.items()}
        )
    )
