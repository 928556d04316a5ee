"""What each phase does when it is its turn: stay, or name the cause to leave for. No I/O.

The rules that the comments name are those at the head of `machine.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lagless.controller import facts, membership, migration, reassign, sentinel, wording
from lagless.controller.events import Instruction
from lagless.controller.facts import Phase, Policy, State


@dataclass(frozen=True, slots=True)
class Turn:
    """What a phase decided: a cause to leave it for, or None to stay."""

    state: State
    out: list[Instruction]
    cause: str | None = None
    reason: str = ""


def synchronize(state: State, policy: Policy) -> Turn:
    """Ask every member what it holds, until the truth is known (rule 9)."""
    if is_synchronized(state, policy):
        holder = sentinel.holders(state)
        coming = {p: n for p, n in state.target.items() if n in state.team}
        state = replace(
            state,
            target={**coming, **holder},
            team=state.team | set(holder.values()),
            knew_nothing=False,
        )
        return Turn(state, [], "all have reported or are lost")
    out: list[Instruction] = []
    members = dict(state.members)
    for n, member in state.members.items():
        due = state.at - member.reported_at >= policy.repeat
        if not has_reported(member, state) and due:
            members[n] = replace(member, reported_at=state.at)
            out.append(wording.order(state, policy, "report", n, member.incarnation))
    return Turn(replace(state, members=members) if out else state, out)


def has_reported(member: facts.Member, state: State) -> bool:
    """Say whether a member has answered this Synchronize (rule 9).

    Who is still starting takes no orders yet, and was never given any: orders wait for "ready".
    """
    return member.highest >= state.fence or membership.is_starting(member, state)


def is_synchronized(state: State, policy: Policy) -> bool:
    """Say whether the truth about every consumer that may hold something is known."""
    if state.partitions is None or not all(has_reported(m, state) for m in state.members.values()):
        return False
    waited = state.at - state.hearing_since > policy.lost_after
    if state.instances is None:
        return waited
    strangers = state.knew_nothing and state.instances.keys() - state.members.keys()
    return not strangers or waited


def watch(state: State, policy: Policy) -> Turn:
    """Stay in Sentinel until one of its exits is open."""
    found = sentinel.exits(state, policy)
    if not found:
        return Turn(state, [])
    return Turn(state, [], found[0].condition, "; ".join(exit.reason for exit in found[:3]))


def repack(state: State, policy: Policy) -> Turn:
    """Make a new assignment, under a new generation unless it is the old one (rule 3)."""
    plan = reassign.plan(state, policy)
    unchanged = (
        plan.assignment == state.target and plan.team == state.team and migration.is_settled(state)
    )
    out: list[Instruction] = []
    if plan.warnings and plan.warnings != state.warnings:
        out += [wording.say(state, policy, "warning", warning) for warning in plan.warnings]
    state = replace(
        state,
        lost=(),
        warnings=plan.warnings,
        reassigned_at=state.at,
        packed_capacity=plan.capacity,
    )
    if unchanged:
        return Turn(state, out, "nothing to change")
    state = replace(
        state,
        generation=state.generation + 1,
        target=plan.assignment,
        team=plan.team,
        backlog={p: b for p, b in state.backlog.items() if p not in plan.previous},
        first_order_at=None,
    )
    out.append(
        wording.say(
            state,
            policy,
            "assignment",
            wording.summary(plan, policy),
            **wording.details(plan, policy),
        )
    )
    return Turn(state, out, "a new assignment")


def manage(state: State, policy: Policy) -> Turn:
    """Give orders until everyone holds what it should."""
    if state.lost:
        return Turn(state, [], "a consumer is lost", "; ".join(state.lost[:3]))
    if state.at - state.reassigned_at >= policy.breath and sentinel.may_try(state):
        existing = state.partitions or {}
        if any(p not in existing for p in state.target):
            return Turn(state, [], "partitions went")
        if any(p not in state.target and sentinel.may_place(state, policy, p) for p in existing):
            return Turn(state, [], "partitions appeared")
    if migration.is_settled(state):
        out: list[Instruction] = []
        if state.first_order_at is not None:
            seconds = state.at - state.first_order_at
            out = [wording.say(state, policy, "timing", "last receipt", dt4=seconds)]
        return Turn(replace(state, first_order_at=None), out, "everyone holds what it should")
    state, orders = migration.orders(state, policy)
    if orders and state.first_order_at is None:
        state = replace(state, first_order_at=state.at)
    return Turn(state, list(orders))


PHASES: dict[Phase, Callable[[State, Policy], Turn]] = {
    Phase.SYNCHRONIZE: synchronize,
    Phase.SENTINEL: watch,
    Phase.REASSIGN: repack,
    Phase.MANAGEMENT: manage,
}
