"""Scale to zero: when a group without traffic may do without consumers. Pure.

With `min_consumers = 0` a group is at rest once everything that was ever written is known to be
read. That takes two kinds of evidence, in this order. The monitor measures every partition, and
nothing is written. Then each partition's consumer says that nothing is left to read, late enough
that its last look at Kafka came after the last record: a cycle's deadline after it.

Whatever could hide a record ends the rest, and the evidence has to be gathered again by consumers:
a gap in the measurements, a partition that is new, a controller that was deaf or has just begun.
"""

from dataclasses import replace

from lagless.controller import weights
from lagless.controller.events import Event, Listed, Measured
from lagless.controller.state import Policy, State


def watch(before: State, state: State, event: Event, policy: Policy) -> State:
    """Take in what an event says about traffic; `before` is what was known without it."""
    if policy.min_consumers > 0:
        return state
    if is_busy(before, state, event, policy):
        return replace(state, quiet_since=state.at, read_out=False)
    if not state.read_out and is_read_out(state, policy):
        return replace(state, read_out=True)
    return state


def is_busy(before: State, state: State, event: Event, policy: Policy) -> bool:
    """Return whether something is written, or could have been without being seen."""
    if state.hearing_since != before.hearing_since:
        return True
    if isinstance(event, Listed):
        return (state.partitions or {}).keys() > (before.partitions or {}).keys()
    if isinstance(event, Measured):
        existing = state.partitions or {}
        gap = weights.doubts(replace(before, at=state.at), policy)
        flows = any(state.speeds.get(p, 0.0) > 0 for p in existing)
        return bool(gap or flows or weights.doubts(state, policy))
    return False


def is_read_out(state: State, policy: Policy) -> bool:
    """Return whether every partition's consumer has said since that nothing is left to read."""
    quiet_since = max(state.quiet_since, state.hearing_since)
    if state.measured_at <= quiet_since or not state.partitions or weights.doubts(state, policy):
        return False
    proven = quiet_since + policy.cycle_deadline
    read = {
        p
        for member in state.members.values()
        if member.last is not None
        and min(member.heard_at, member.last.at) > proven
        and not (member.last.waiting_for or member.last.lag_records or member.last.lag_bytes)
        for p in member.held
        if p not in member.asked
    }
    return read >= state.partitions.keys()


def is_at_rest(state: State, policy: Policy) -> bool:
    """Return whether no consumer is needed now."""
    return policy.min_consumers == 0 and state.read_out and not weights.doubts(state, policy)
