"""A stream under the controller's own rules, and under KEDA's: who reads what at each measurement.

Nothing is simulated but the group. What is measured goes through the controller's phases Sentinel
and Reassign, and consumers hold what was decided at once: starts, orders and receipts take no time.
A move costs the seconds of a rebalance (`queues`). A decision is made from a measurement, and what
is written until the next one counts: nobody knows the future but the clairvoyant, who is given the
next measurement in place of the last.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from lagless.controller import calm, machine, reassign, sentinel
from lagless.controller.state import Member, Policy, State
from lagless.errors import WrongInput
from lagless.lab.model import keda, latency, queues
from lagless.lab.model.distribution import Distribution, gather
from lagless.lab.model.keda import Keda
from lagless.lab.model.streams import Floats, Numbers
from lagless.model import Cause, Phase, TopicPartition


class Group(Protocol):
    """Decides who reads what."""

    @property
    def size(self) -> int:
        """Return the number of consumers that run."""

    def decide(self, at: float, measured: Floats, backlog: Floats) -> Numbers:
        """Return the consumer of each partition from now on, a number from 1."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a stream cost under one group."""

    seconds: float
    bytes: float
    late: Distribution
    consumer_seconds: float
    reassignments: int
    """Decisions by which at least one partition changed its consumer."""
    moves: int
    """Partitions that changed their consumer."""
    moved_bytes: float
    """What was written to partitions while they moved."""
    backlog: float
    """Bytes unread at the end."""

    def delay(self, share: float) -> float:
        """Return the seconds of delay that this share of all bytes does not exceed."""
        beyond = (1 - share) * self.bytes
        late = self.late.total
        return self.late.quantile(1 - beyond / late) if late > beyond else 0.0


def follow(
    group: Group,
    model: latency.Model,
    speeds: Floats,
    foreseen: bool = False,
    told: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Follow a stream, a row per measurement; `told` hears how many rows are done."""
    rows, columns = speeds.shape
    if rows < 2:
        raise WrongInput(f"a replay needs two measurements or more, not {rows}")
    backlog = np.zeros(columns)
    previous = np.zeros(columns, np.int64)
    lines: list[queues.Lines] = []
    consumer_seconds, reassignments, moves, moved_rate = 0.0, 0, 0, 0.0
    for k in range(rows - 1):
        written = speeds[k + 1]
        known = written if foreseen else speeds[k]
        current = group.decide(k * model.iteration, known, backlog)
        moved = (current != previous) & (previous > 0)
        line, backlog = queues.step(model, written, current, moved, backlog)
        lines.append(line)
        consumer_seconds += group.size * model.iteration
        reassignments += bool(moved.any())
        moves += int(moved.sum())
        moved_rate += float(written[moved].sum())
        previous = current
        told(k + 1)
    return Outcome(
        seconds=(rows - 1) * model.iteration,
        bytes=float(speeds[1:].sum()) * model.iteration,
        late=gather(lines),
        consumer_seconds=consumer_seconds,
        reassignments=reassignments,
        moves=moves,
        moved_bytes=moved_rate * model.rebalance,
        backlog=float(backlog.sum()),
    )


@dataclass(slots=True)
class Controlled:
    """A group under the controller's rules."""

    policy: Policy
    partitions: Sequence[TopicPartition]
    state: State = field(init=False)
    _column: dict[TopicPartition, int] = field(init=False)

    def __post_init__(self) -> None:
        begun = machine.begin(None, 0.0)
        listed = dict.fromkeys(self.partitions, -math.inf)
        # What was persisted is of no account: the group begins with nobody.
        self.state = replace(begun, phase=Phase.SENTINEL, knew_nothing=False, partitions=listed)
        self._column = {p: j for j, p in enumerate(self.partitions)}

    @property
    def size(self) -> int:
        """Return the number of consumers that run."""
        return len(self.state.team)

    def decide(self, at: float, measured: Floats, backlog: Floats) -> Numbers:
        """Let the controller look at a measurement, and return who reads what."""
        partitions = self.partitions
        speeds = dict(zip(partitions, measured.tolist(), strict=True))
        state = replace(
            self.state,
            at=at,
            measured_at=at,
            speeds=speeds,
            unrest=calm.unrest(self.state, speeds, at, self.policy),
            backlog={partitions[j]: float(backlog[j]) for j in np.flatnonzero(backlog).tolist()},
        )
        turn = sentinel.turn(state, self.policy)
        if turn.cause is not None:
            turn = reassign.turn(turn.state, self.policy)
            if turn.cause is Cause.ASSIGNED:
                turn = replace(turn, state=_settled(turn.state))
        self.state = turn.state
        return np.array([self.state.target[p] for p in partitions], np.int64)


def _settled(state: State) -> State:
    """Return the state in which everybody holds what it should."""
    held: dict[int, dict[TopicPartition, int]] = {n: {} for n in state.team}
    for p, n in state.target.items():
        held[n][p] = state.generation
    members = {
        n: Member(n, f".{n}", heard_at=state.at, ready=True, held=held[n]) for n in sorted(held)
    }
    return replace(state, members=members)


@dataclass(slots=True)
class Scaled:
    """A group that KEDA scales by its lag; Kafka's assignor spreads partitions by their number."""

    settings: Keda
    max_rate: float
    columns: int
    first: int
    """Consumers at the beginning."""
    _scaler: keda.Scaler = field(init=False)
    _current: Numbers = field(init=False)
    _polled_at: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        size = min(max(1, self.first), self.columns)
        threshold = self.settings.threshold * self.max_rate
        self._scaler = keda.Scaler(size, threshold, self.columns, self.settings.cooldown)
        self._current = keda.range_assignment(self.columns, size)

    @property
    def size(self) -> int:
        """Return the number of consumers that run."""
        return self._scaler.size

    def decide(self, at: float, measured: Floats, backlog: Floats) -> Numbers:
        """Ask for consumers by the lag, and rebalance if their number changes."""
        if at - self._polled_at < self.settings.polling:
            return self._current
        self._polled_at = at
        before = self._scaler.size
        if self._scaler.look(at, float(backlog.sum())) != before:
            self._current = (
                keda.range_assignment(self.columns, self.size)
                if self.settings.assignor == "range"
                else keda.sticky_assignment(self._current, self.size)
            )
        return self._current
