"""Pause, drain and resume: what operators ask of the group, and who may be read meanwhile.

A pause takes every partition from its consumer, through orders to stop like any others. A drain
does so as soon as a partition's consumer has read to the offset that was the log's end when the
drain was asked for. Consumers stay, without work, until the group is resumed.

The mode is part of what the controller persists. A command has an id, and may arrive any number of
times: the last few ids are remembered, so that a late copy of an earlier command changes nothing.
Taking a command is a change of mind, so it is a new generation (rule 3 of machine.py).
"""

from dataclasses import replace

from lagless import messages
from lagless.controller.state import State
from lagless.messages import Mode, Operation
from lagless.model import TopicPartition

REMEMBERED = 20
"""Commands whose copies are recognised."""


def take(state: State, operation: Operation) -> State:
    """Take a command, unless it is a copy of one that was taken."""
    if operation.id in state.mode.taken:
        return state
    mode = Mode(
        operation=operation.operation,
        who=operation.who,
        at=state.at,
        until=operation.until if operation.operation == "drain" else {},
        taken=(*state.mode.taken, operation.id)[-REMEMBERED:],
    )
    return replace(state, mode=mode, generation=state.generation + 1)


def progress(state: State) -> State:
    """Note which partitions a drain is done with: read to its offset, or deleted."""
    if state.mode.operation != "drain":
        return state
    drained = {TopicPartition(*pair) for pair in state.mode.drained}
    reached = messages.unnest(state.mode.until)
    for member in state.members.values():
        if member.last is None:
            continue
        for p, position in messages.unnest(member.last.positions).items():
            if p in member.held and position >= reached.get(p, position + 1):
                drained.add(p)
    if state.partitions is not None:
        drained |= reached.keys() - state.partitions.keys()
    if len(drained) == len(state.mode.drained):
        return state
    pairs = tuple((p.topic, p.partition) for p in sorted(drained))
    return replace(state, mode=state.mode.model_copy(update={"drained": pairs}))


def may_read(state: State, partition: TopicPartition) -> bool:
    """Return whether a partition may have a consumer."""
    mode = state.mode
    if mode.operation == "drain":
        wanted = partition.partition in mode.until.get(partition.topic, {})
        return wanted and (partition.topic, partition.partition) not in mode.drained
    return mode.operation == "resume"


def to_stop(state: State) -> list[TopicPartition]:
    """Return the partitions that someone reads, or is to read, and may not."""
    if state.mode.operation == "resume":
        return []
    read = {p for member in state.members.values() for p in member.held} | state.target.keys()
    return sorted(p for p in read if not may_read(state, p))


def why(state: State) -> str:
    """Return who asked for the mode, and what for."""
    asked = {"pause": "paused", "drain": "drained", "resume": "resumed"}
    return f"{asked[state.mode.operation]} by {state.mode.who}"
