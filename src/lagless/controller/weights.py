"""The weight of each partition, the load of each consumer, and whether measurements are fresh.

With speeds alone, a consumer that is full but behind would stay behind for ever.
"""

from collections.abc import Mapping

from lagless import messages
from lagless.controller.state import Policy, State
from lagless.model import LONG_CYCLE, Consumer, TopicPartition
from lagless.packing import scores


def speeds(state: State) -> dict[TopicPartition, float]:
    """Return each partition's speed; one that was never measured gets the mean of the others."""
    partitions = sorted(state.partitions or ())
    known = [state.speeds[p] for p in partitions if p in state.speeds]
    unknown = sum(known) / len(known) if known else 0.0
    return {p: state.speeds.get(p, unknown) for p in partitions}


def weights(state: State, policy: Policy) -> dict[TopicPartition, float]:
    """Return each partition's weight: its speed, and its backlog over `catch_up` seconds."""
    rates = speeds(state)
    if policy.catch_up <= 0:
        return rates
    late = backlogs(state, policy, rates)
    return {p: speed + late.get(p, 0.0) / policy.catch_up for p, speed in rates.items()}


def backlogs(
    state: State, policy: Policy, rates: Mapping[TopicPartition, float]
) -> dict[TopicPartition, float]:
    """Return the bytes of each partition that its consumer is late with.

    Bytes written while a cycle gathers and reads always wait, and are not a backlog; a cycle that
    takes longer than it should is late itself.
    """
    late = dict(state.backlog)
    for member in state.members.values():
        if member.last is not None:
            late.update(dict.fromkeys(member.held, 0.0))
            ordinary = policy.gather + min(member.last.cycle_seconds, LONG_CYCLE)
            for p, waiting in messages.flatten(member.last.backlog).items():
                late[p] = waiting - ordinary * rates.get(p, 0.0)
    return {p: size for p, size in late.items() if size > 0}


def unable(
    state: State, policy: Policy, holder: Mapping[TopicPartition, Consumer]
) -> frozenset[Consumer]:
    """Return who cannot read within the pause, at C̄, what is written and what it is late with.

    A consumer with more than C can still keep up, and waits for the end of the pause; one that
    cannot falls further behind with every second.
    """
    if policy.max_rate <= 0:
        return frozenset()
    rates = speeds(state)
    late = backlogs(state, policy, rates)
    horizon = max(policy.pause, policy.breath)
    needed = {p: rate + late.get(p, 0.0) / horizon for p, rate in rates.items()}
    loads = scores.loads(needed, holder)
    return frozenset(n for n, load in loads.items() if load > policy.max_rate)


def doubts(state: State, policy: Policy) -> str:
    """Return why the measurements are not good enough to scale down on; "" if they are."""
    age = state.at - state.measured_at
    if age > policy.stale_after:
        return (
            "nothing was ever measured"
            if state.measured_at == float("-inf")
            else f"the last measurement is {age:.0f} s old"
        )
    missing = [p for p in state.partitions or () if p not in state.speeds or p in state.stale]
    if missing:
        return f"{len(missing)} partitions have no fresh speed, for example {min(missing)}"
    return ""
