"""The members of the group: what they report, which are lost, which incarnations have ended.

The numbers in brackets are the rules at the head of machine.py.
"""

from collections.abc import Iterable
from dataclasses import replace

from lagless import messages
from lagless.controller import calm, modes
from lagless.controller.events import (
    Event,
    Listed,
    Mail,
    Measured,
    NotCreated,
    Operated,
    Provisioned,
)
from lagless.controller.state import Asked, Member, Policy, Request, State
from lagless.messages import Heartbeat, Receipt
from lagless.model import Consumer, Phase, TopicPartition
from lagless.ports import Instance


def hear(state: State, mail: Iterable[Receipt | Heartbeat]) -> State:
    """Take mail in: members' words become facts, those of others are sorted out."""
    members = dict(state.members)
    retired = dict(state.retired)
    contradictions = [state.contradiction]
    known = state.known
    for message in mail:
        known = max(known, message.highest)
        member = members.get(message.consumer)
        if is_over(state, message.incarnation):
            retired[message.incarnation] = message.consumer
            # It obeys nobody who knows less, not even to end.
            contradictions.append(ahead(message.consumer, message.highest, state))
            continue
        if member is None:
            member = Member(message.consumer, message.incarnation, heard_at=state.at)
        elif member.incarnation != message.incarnation:
            members[member.consumer] = replace(member, successor=message.incarnation)
            continue
        members[member.consumer], doubt = listen(member, message, state)
        contradictions.append(doubt)
    return replace(
        state,
        members=members,
        retired=retired,
        known=known,
        contradiction="; ".join([doubt for doubt in contradictions if doubt][:3]),
    )


def is_over(state: State, incarnation: str) -> bool:
    """Return whether an incarnation has ended: nothing that it says counts (rule 4)."""
    return incarnation in state.ended


def listen(member: Member, message: Receipt | Heartbeat, state: State) -> tuple[Member, str]:
    """Return the member after its message, and what contradicts what was believed of it."""
    after = replace(member, heard_at=state.at)
    if not is_news(member, message):
        return after, ""
    if isinstance(message, Heartbeat):
        after = replace(after, last=message, ready=message.state == "ready")
        if message.waiting_for:
            after = replace(after, waited_at=state.at)
    held = {TopicPartition(topic, number): g for topic, number, g in message.held}
    doubt = contradiction(member, message.highest, held, state)
    asked = {
        p: asked
        for p, asked in member.asked.items()
        if not is_confirmed(asked, held.get(p), message.highest)
        and not is_void(asked, held.get(p), message.highest)
    }
    if isinstance(message, Receipt) and message.kind == "start":
        for topic, number, reason in message.refused:
            p = TopicPartition(topic, number)
            if p in asked and asked[p].generation == message.generation:
                asked[p] = replace(asked[p], refused=reason)
    after = replace(
        after, held=held, highest=message.highest, revision=message.revision, asked=asked
    )
    return after, doubt


def is_news(member: Member, message: Receipt | Heartbeat) -> bool:
    """Return whether a message is not older than what is known (rule 7)."""
    return message.revision >= member.revision


def is_confirmed(asked: Asked, held: int | None, highest: int) -> bool:
    """Return whether an order is carried out for good (rule 6)."""
    if asked.kind == "start":
        return held == asked.generation
    return held is None and highest >= asked.generation


def is_void(asked: Asked, held: int | None, highest: int) -> bool:
    """Return whether an order to stop never came and is older than what its consumer obeys now.

    It was not given again while the new consumer was not ready; once it is, its deadline restarts.
    """
    return asked.kind == "stop" and held is not None and highest > asked.generation


def contradiction(
    member: Member, highest: int, held: dict[TopicPartition, int], state: State
) -> str:
    """Return what a member's word contradicts; "" if nothing (rule 9)."""
    name = f"consumer {member.consumer}"
    beyond = ahead(member.consumer, highest, state)
    if beyond:
        return beyond
    if state.phase is Phase.SYNCHRONIZE:
        return ""
    for p in held:
        if not member.reads(p):
            return f"{name} holds {p}, which it was not ordered to"
    for p in member.held:
        if p not in held and p not in member.asked:
            return f"{name} does not hold {p} any more, which nobody ordered"
    return ""


def ahead(consumer: Consumer, highest: int, state: State) -> str:
    """Say that a consumer knows a later generation than the controller; "" if it does not."""
    if highest <= state.generation:
        return ""
    return f"consumer {consumer} knows generation {highest}, the controller {state.generation}"


def listed(state: State, instances: Iterable[Instance]) -> State:
    """Take in what the provisioner sees: whose process is gone is lost at once."""
    state = replace(state, instances={i.consumer: i for i in instances})
    for n, member in list(state.members.items()):
        trouble = why_gone(state, member)
        if trouble:
            state = lose(state, n, trouble)
        elif is_stray(state, member):
            over = {**state.ended, member.successor: (n, state.at)}
            state = replace(state.with_member(replace(member, successor="")), ended=over)
    return state


def is_stray(state: State, member: Member) -> bool:
    """Return whether another incarnation of the number speaks that was not started last."""
    instance = (state.instances or {}).get(member.consumer)
    births = messages.birth(member.incarnation), messages.birth(member.successor)
    return (
        bool(member.successor) and instance is not None and births[1] != instance.birth == births[0]
    )


def why_gone(state: State, member: Member) -> str:
    """Return why a member cannot be alive by what the provisioner sees; "" if it can."""
    birth = messages.birth(member.incarnation)
    instance = (state.instances or {}).get(member.consumer)
    if not birth:
        return ""  # started by hand: no provisioner knows it
    if instance is None or instance.birth != birth:
        return "its instance is gone"
    if instance.phase == "failed":
        return f"its instance failed: {instance.trouble or 'it ended by itself'}"
    return ""


def why_lost(state: State, member: Member, policy: Policy) -> str:
    """Return why a member counts as lost by now; "" if it does not (rules 10 and 11)."""
    silence = state.at - max(member.heard_at, state.hearing_since)
    if silence > policy.lost_after:
        return f"silent for {silence:.0f} s"
    if member.is_waiting:
        return ""
    since = max(state.hearing_since, member.waited_at)  # then its deadlines restart
    cycle = min(member.cycle_age, state.at - since)
    if cycle > policy.cycle_deadline:
        return f"its cycle has not ended for {cycle:.0f} s"
    patience = policy.order_deadline + min(member.cycle_age, policy.cycle_deadline)
    for p, asked in member.asked.items():
        overdue = state.at - max(asked.since, since)
        if overdue > patience and not asked.refused:
            return f"order to {asked.kind} {p} without receipt for {overdue:.0f} s"
    answers = member.highest >= state.fence or is_starting(member, state)
    if state.phase is Phase.SYNCHRONIZE and not answers:
        overdue = state.at - max(state.synchronizing_since, since)
        if overdue > patience:
            return f"no report for {overdue:.0f} s"
    return ""


def is_starting(member: Member, state: State) -> bool:
    """Return whether a member has said since this Synchronize began that it is not ready yet."""
    last = member.last
    if last is None or last.state != "starting":
        return False
    return not last.held and last.at >= state.synchronizing_since


def why_not_ready(state: State, consumer: Consumer, request: Request, policy: Policy) -> str:
    """Return why a consumer that was asked for counts as never started; "" if it does not."""
    member = state.members.get(consumer)
    if member is not None and member.is_waiting:
        return ""
    waited_at = member.waited_at if member is not None else request.since
    waited = state.at - max(request.since, state.hearing_since, waited_at)
    if waited > policy.start_deadline:
        return f"not ready after {waited:.0f} s"
    instance = (state.instances or {}).get(consumer)
    if instance is None or instance.phase != "failed" or request.created_at > instance.created_at:
        return ""
    return f"its instance failed: {instance.trouble or 'it ended by itself'}"


def lose(state: State, consumer: Consumer, reason: str) -> State:
    """End a member's incarnation: what it held has no consumer any more."""
    member = state.members[consumer]
    state = end(state, consumer)
    if member.last is not None:
        left = messages.flatten(member.last.backlog)
        state = replace(state, backlog={**state.backlog, **left})
    if member.successor and not is_over(state, member.successor):
        state = state.with_member(Member(consumer, member.successor, heard_at=state.at))
    return replace(
        state,
        team=state.team - {consumer},
        requests={n: r for n, r in state.requests.items() if n != consumer},
        lost=(*state.lost, f"consumer {consumer} is lost: {reason}"),
    )


def end(state: State, consumer: Consumer) -> State:
    """End a member's incarnation, for whatever reason (rule 4)."""
    incarnation = state.members[consumer].incarnation
    return replace(
        state,
        members={n: m for n, m in state.members.items() if n != consumer},
        ended={**state.ended, incarnation: (consumer, state.at)},
    )


def forget(state: State, policy: Policy) -> State:
    """Forget incarnations that have been over for long."""
    limit = state.at - policy.remember
    if all(at >= limit for _, at in state.ended.values()):
        return state
    return replace(state, ended={i: (n, at) for i, (n, at) in state.ended.items() if at >= limit})


def learn(state: State, event: Event, policy: Policy) -> State:
    """Take in what an event says, and decide nothing yet."""
    if isinstance(event, Mail):
        return hear(state, event.messages)
    if isinstance(event, Measured):
        return _measured(state, event, policy)
    if isinstance(event, Listed):
        known = state.partitions or {}
        names = [TopicPartition(*pair) for pair in event.partitions]
        return replace(state, partitions={p: known.get(p, state.at) for p in names})
    if isinstance(event, Provisioned):
        return listed(state, event.instances)
    if isinstance(event, NotCreated):
        return _not_created(state, event, policy)
    if isinstance(event, Operated):
        return modes.take(state, event.operation)
    return state


def _measured(state: State, event: Measured, policy: Policy) -> State:
    fresh = messages.flatten(event.speeds.speeds)
    stale = frozenset(TopicPartition(*pair) for pair in event.speeds.stale)
    existing = state.partitions if state.partitions is not None else state.speeds
    known = {p: s for p, s in state.speeds.items() if p in existing}
    return replace(
        state,
        speeds={**known, **fresh},
        stale=stale | (known.keys() - fresh.keys()),
        measured_at=min(state.at, event.speeds.at),
        unrest=calm.unrest(state, fresh, min(state.at, event.speeds.at), policy),
    )


def _not_created(state: State, event: NotCreated, policy: Policy) -> State:
    instances = state.instances or {}
    for n, trouble in event.troubles.items():
        going = n in instances and instances[n].phase == "deleting"
        if n in state.team and n not in state.members and not going:
            state = fail(state, n, f"consumer {n} could not be started: {trouble}", policy)
    return state


def fail(state: State, consumer: Consumer, reason: str, policy: Policy) -> State:
    """Give up on a consumer that did not become ready, and wait longer each time."""
    if consumer in state.members:
        state = end(state, consumer)
    pause = min(policy.backoff, 2.0 ** min(state.failures, 20))
    return replace(
        state,
        team=state.team - {consumer},
        requests={n: r for n, r in state.requests.items() if n != consumer},
        lost=(*state.lost, reason),
        failures=state.failures + 1,
        no_creation_until=state.at + pause,
    )
