"""What the machine knows after an event: mail, measurements, topics, instances. No I/O."""

from dataclasses import replace

from lagless import messages
from lagless.controller import membership
from lagless.controller.events import Event, Listed, Mail, Measured, NotCreated, Provisioned
from lagless.controller.facts import Policy, State
from lagless.model import Consumer, TopicPartition


def learn(state: State, event: Event, policy: Policy) -> State:
    """Take in what an event says, and decide nothing yet."""
    if isinstance(event, Mail):
        return membership.hear(state, event.messages)
    if isinstance(event, Measured):
        return _measured(state, event)
    if isinstance(event, Listed):
        known = state.partitions or {}
        names = [TopicPartition(*pair) for pair in event.partitions]
        if known.keys() == set(names):
            return state if state.partitions is not None else replace(state, partitions={})
        return replace(state, partitions={p: known.get(p, state.at) for p in names})
    if isinstance(event, Provisioned):
        return membership.listed(state, event.instances)
    if isinstance(event, NotCreated):
        return _not_created(state, event, policy)
    return state


def _measured(state: State, event: Measured) -> State:
    fresh = messages.flatten(event.speeds.speeds)
    stale = frozenset(TopicPartition(*pair) for pair in event.speeds.stale)
    existing = state.partitions if state.partitions is not None else state.speeds
    known = {p: s for p, s in state.speeds.items() if p in existing}
    return replace(
        state,
        speeds={**known, **fresh},
        stale=stale | (known.keys() - fresh.keys()),
        measured_at=min(state.at, event.speeds.at),
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
        state = membership.end(state, consumer)
    pause = min(policy.backoff, 2.0 ** min(state.failures, 20))
    return replace(
        state,
        team=state.team - {consumer},
        requests={n: r for n, r in state.requests.items() if n != consumer},
        lost=(*state.lost, reason),
        failures=state.failures + 1,
        no_creation_until=state.at + pause,
    )
