"""Synchronize: ask every member what it holds, until the truth is known.

The rules in brackets are those at the head of `machine.py`.
"""

from dataclasses import replace

from lagless.controller import decisions, membership
from lagless.controller.events import Instruction, Turn
from lagless.controller.state import Member, Policy, State
from lagless.model import Cause


def turn(state: State, policy: Policy) -> Turn:
    """Ask every member what it holds, until the truth is known (rule 9)."""
    if is_synchronized(state, policy):
        team = state.team | set(state.holders().values())
        state = replace(state, target=state.readers(), team=team, knew_nothing=False)
        return Turn(state, [], Cause.SYNCHRONIZED)
    out: list[Instruction] = []
    members = dict(state.members)
    for n, member in state.members.items():
        due = state.at - member.reported_at >= policy.repeat
        if not has_reported(member, state) and due:
            members[n] = replace(member, reported_at=state.at)
            out.append(decisions.order(state, policy, "report", n, member.incarnation))
    return Turn(replace(state, members=members) if out else state, out)


def has_reported(member: Member, state: State) -> bool:
    """Return whether a member has answered this Synchronize (rule 9).

    A member that is still starting holds nothing: orders wait until it is ready.
    """
    return member.highest >= state.fence or membership.is_starting(member, state)


def is_synchronized(state: State, policy: Policy) -> bool:
    """Return whether the truth about every consumer that may hold something is known."""
    if state.partitions is None or not all(has_reported(m, state) for m in state.members.values()):
        return False
    waited = state.at - state.hearing_since > policy.lost_after
    if state.instances is None:
        return waited
    strangers = state.knew_nothing and state.instances.keys() - state.members.keys()
    return not strangers or waited
