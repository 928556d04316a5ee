"""Which consumers have to be created, deleted and told to end.

The numbers in brackets are the rules at the head of machine.py.
"""

from dataclasses import replace

from lagless import messages
from lagless.controller import facts, membership, wording
from lagless.controller.events import Create, Delete, Instruction
from lagless.controller.facts import Policy, Request, State
from lagless.model import Consumer


def manage(state: State, policy: Policy) -> tuple[State, list[Instruction]]:
    """Bring about the consumers that should be, and end those that should not."""
    out: list[Instruction] = []
    for n in sorted(state.members.keys() - state.team):
        if may_delete(state.members[n]):
            state = membership.end(state, n)
            out.append(
                wording.say(state, policy, "deleted", f"consumer {n} has no work", consumer=n)
            )
    state = membership.forget(state, policy)
    ready = {n for n in state.requests if n in state.members and state.members[n].ready}
    for n in sorted(ready & state.team):
        seconds = state.at - state.requests[n].since
        out.append(
            wording.say(state, policy, "timing", f"consumer {n} is ready", consumer=n, dt3=seconds)
        )
        state = replace(state, failures=0)
    missing = {n for n in state.team if n not in state.members or not state.members[n].ready}
    if missing != state.requests.keys():
        wanted = {n: state.requests.get(n, Request(state.at)) for n in missing}
        state = replace(state, requests=wanted)
    state, created = _create(state, policy)
    state, deleted = _delete(state, policy)
    return state, out + created + deleted


def may_delete(member: facts.Member) -> bool:
    """Say whether a member can go without anyone missing it (rule 15)."""
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
    names = ", ".join(str(n) for n in due)
    reason = f"consumer {names} is missing" if len(due) == 1 else f"consumers {names} are missing"
    said = wording.say(state, policy, "created", reason, consumers=list(due))
    return replace(state, requests=requests), [Create(due), said]


def _delete(state: State, policy: Policy) -> tuple[State, list[Instruction]]:
    over = {messages.birth(i): i for i in state.ended if messages.birth(i)}
    doomed: dict[Consumer, str] = {}
    for n, instance in (state.instances or {}).items():
        if instance.phase == "deleting":
            continue
        member = state.members.get(n)
        wanted = (
            facts.is_of(member, instance)
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
    if not state.retired:
        return state, []
    out: list[Instruction] = [
        wording.order(state, policy, "retire", n, incarnation)
        for incarnation, n in state.retired.items()
    ]
    return replace(state, retired={}), out
