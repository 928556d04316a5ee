"""From messages to a snapshot: consumers and what they hold, lines over time, problems. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeVar

from lagless.dashboard import members, text
from lagless.dashboard.costing import Costing, Replay
from lagless.dashboard.observations import KEPT, Lag, Member, Observations, Sample, Source
from lagless.dashboard.snapshot import Bin, Block, Condition, Level, Line, Link, Snapshot, Timing
from lagless.history import History, Reassignment
from lagless.messages import AnyDecision, PhaseChanged, Timed
from lagless.model import Consumer, TopicPartition, capacity
from lagless.ports import Clock
from lagless.settings import Settings

BEATS = 3
"""Missed heartbeats after which a consumer shows as silent."""
POINTS = 120
"""Most points that a line has."""
RAMP = 0.5
"""Fraction of C by which the total speed must change to count as a change of load."""
CALM = 0.02
"""Fraction of C below which a difference between two measurements counts as no change."""
_LEVELS: Mapping[str, Level] = {"lost": "bad", "warning": "warn"}
_SHOWN = {"lag_seconds", "lag_bytes", "lag_records", "bytes_per_second", "waiting_for", "trouble"}
"""Fields of a heartbeat that a bin shows unchanged."""
_UNMEASURED = Sample(at=0, speeds={}, stale=frozenset(), plain_kafka=0, bound=0)
Point = TypeVar("Point", Sample, Lag)


class Feed:
    """Keep the newest snapshot, which all visitors share."""

    def __init__(
        self, source: Source, settings: Settings, clock: Clock, replay: Replay | None = None
    ) -> None:
        self.settings = settings
        self._costing = Costing(replay)
        self.source = source
        self._clock = clock
        known = not settings.of_others or settings.members.rate is not None
        self._observations = Observations(settings.group, settings.capacity if known else 0.0)
        self.messages = 0
        """Number of messages read."""
        self.snapshot = self.update()

    def update(self) -> Snapshot:
        """Read what has arrived and compute a new snapshot."""
        for message in self.source.read():
            self._observations.take(message)
            self.messages += 1
        seen = self._observations.seen
        if seen is not None and seen.rate is not None:
            tuned = self.settings.controller
            self._observations.capacity = capacity(seen.rate, tuned.iteration, tuned.rebalance)
        link = Link(self.source.heard, self.source.trouble)
        now, samples = self._clock.now(), self._observations.samples
        known = look(self._observations, self.settings, now, link)
        costs = self._costing.offer(samples, known.max_rate if known.capacity else 0.0, now)
        self.snapshot = replace(known, costs=costs)
        return self.snapshot

    def visit(self) -> None:
        """Take note that somebody looks at the page."""
        self._costing.look(self._clock.now())


def look(observations: Observations, settings: Settings, now: float, link: Link) -> Snapshot:
    """Return what is known at the time `now`."""
    history, samples = observations.history, observations.samples
    sample = samples[-1] if samples else _UNMEASURED
    speeds, age = sample.speeds, now - sample.at if samples else None
    present = {
        consumer: member
        for consumer, member in sorted(observations.newest().items())
        if not gone(member, history, settings, now)
    }
    owners = _owners(present.values())
    bins = tuple(
        _bin(member, owners, sample, history, settings, now) for member in present.values()
    )
    seen = observations.seen
    if seen is not None:
        bins = members.bins(seen, sample, history.target, now)
        owners = members.owners(seen)
    unassigned = tuple(
        Block(partition, speed, target=history.target.get(partition))
        for partition, speed in speeds.items()
        if partition not in owners
    )
    heard = history.heard_at
    reassignments = tuple(history.timed([sample.at for sample in samples]))
    snapshot = Snapshot(
        now=now,
        group=observations.group,
        capacity=observations.capacity,
        max_rate=settings.max_rate if seen is None else seen.rate or 0.0,
        limit=observations.capacity * (1 + settings.controller.dead_band),
        algorithm=settings.controller.algorithm,
        link=link,
        speeds=speeds,
        speeds_age=age,
        speeds_stale=age is not None and age > settings.controller.stale_after / 2,
        phase=history.phase or "",
        mode=history.mode.details.state if history.mode else "running",
        mode_by=history.mode.details.who if history.mode else "",
        phase_age=now - history.phase_at if history.phase else None,
        controller_age=None if heard is None else max(0.0, now - heard),
        controller_stale=heard is not None and now - heard > quiet(settings),
        bins=bins,
        unassigned=unassigned,
        plain_kafka=sample.plain_kafka,
        reassignments=reassignments,
        lines=tuple(_line(decision) for decision in history.decisions),
        timings=timings(samples, reassignments),
        notices=(),
        moments=moments(observations, silent_after(settings)),
        lags={
            consumer: tuple(_spread(sorted(lags, key=lambda lag: lag.at)))
            for consumer, lags in sorted(observations.lags.items())
        },
        follows=seen.follows if seen is not None else None,
    )
    return replace(snapshot, notices=tuple(text.notices(snapshot)))


def quiet(settings: Settings) -> float:
    """Return the seconds of silence after which the controller shows as silent."""
    return max(60.0, 3 * settings.controller.iteration)


def silent_after(settings: Settings) -> float:
    """Return the seconds of silence after which a consumer shows as silent."""
    return min(BEATS * settings.consumer.heartbeat, settings.consumer.lost_after)


def condition(
    member: Member, settings: Settings, now: float, spares: Collection[Consumer] = ()
) -> Condition:
    """Return the state that a consumer shows."""
    silence = now - member.last
    if silence > settings.consumer.lost_after:
        return "lost"
    if silence > silent_after(settings):
        return "silent"
    beat = member.heartbeat
    if beat is None:
        return "starting"
    if beat.state == "ready" and beat.waiting_for:
        return "waiting"
    if beat.state == "ready" and member.consumer in spares and not member.held:
        return "spare"
    return beat.state


def gone(member: Member, history: History, settings: Settings, now: float) -> bool:
    """Return whether a consumer has ended: by its own or the controller's word, or by silence."""
    silence = now - member.last
    ending = member.heartbeat is not None and member.heartbeat.state == "ending"
    deleted_at = history.deleted_at.get(member.consumer, 0.0)
    ended = deleted_at >= member.last - settings.consumer.heartbeat
    return (
        (ending and silence > silent_after(settings))
        or (ended and silence > settings.consumer.heartbeat)
        or silence > 3 * settings.consumer.lost_after
    )


def _owners(members: Iterable[Member]) -> dict[TopicPartition, Consumer]:
    """Return the consumer of each partition; if two claim one, the newer order decides."""
    best: dict[TopicPartition, tuple[int, float, Consumer]] = {}
    for member in members:
        for partition, generation in member.held.items():
            claim = (generation, member.held_at, member.consumer)
            best[partition] = max(best.get(partition, claim), claim)
    return {partition: consumer for partition, (_, _, consumer) in best.items()}


def _bin(
    member: Member,
    owners: Mapping[TopicPartition, Consumer],
    sample: Sample,
    history: History,
    settings: Settings,
    now: float,
) -> Bin:
    beat = member.heartbeat
    backlog = beat.backlog if beat else {}
    blocks = tuple(
        Block(
            partition,
            sample.speeds.get(partition, 0.0),
            measured=partition in sample.speeds,
            stale=partition in sample.stale,
            backlog=backlog.get(partition.topic, {}).get(partition.partition),
            target=aim if (aim := history.target.get(partition)) != member.consumer else None,
        )
        for partition in sorted(member.held)
        if owners[partition] == member.consumer
    )
    return Bin(
        consumer=member.consumer,
        condition=condition(member, settings, now, history.spares),
        blocks=blocks,
        load=sum(block.speed for block in blocks),
        silence=max(0.0, now - member.last),
        **(beat.model_dump(include=_SHOWN) if beat else {}),
    )


def moments(observations: Observations, silence: float) -> tuple[Sample, ...]:
    """Return the measurements with the number of consumers at each.

    A consumer counts from its first message until `silence` seconds after its last.
    """
    lives = [(member.first, member.last + silence) for member in observations.members.values()]
    if observations.seen is not None:
        return tuple(
            replace(sample, consumers=members.count(observations.counts, sample.at))
            for sample in _spread(observations.samples)
        )
    return tuple(
        replace(sample, consumers=sum(first <= sample.at <= last for first, last in lives))
        for sample in _spread(observations.samples)
    )


def timings(samples: Sequence[Sample], moves: Sequence[Reassignment]) -> tuple[Timing, ...]:
    """Return Δt1 … Δt4 of the paper's section "Kafka Consumer Group Autoscaler Evaluation"."""
    change = "from a change in load until the speeds show all of it, estimated from the speeds"
    steps: tuple[tuple[str, str, Sequence[float | None]], ...] = (
        ("Δt1", change, ramps(samples)),
        ("Δt2", "from a measurement to the request for consumers", [m.dt2 for m in moves]),
        ("Δt3", "from the request until the consumers are ready", [m.dt3 for m in moves]),
        ("Δt4", "from the first order to the last receipt", [m.dt4 for m in moves]),
    )
    timings = []
    for name, meaning, values in steps:
        known = [seconds for seconds in values if seconds is not None]
        last, middle = (known[-1], median(known)) if known else (None, None)
        timings.append(Timing(name, meaning, last, middle, len(known)))
    return tuple(timings)


def _line(decision: AnyDecision) -> Line:
    """Return a decision as a line of the log, with the times that were measured."""
    why = decision.reason
    if isinstance(decision, PhaseChanged):
        why = f"{decision.phase}: {why}"
    elif isinstance(decision, Timed):
        times = (("Δt3", decision.details.dt3), ("Δt4", decision.details.dt4))
        known = [f"{name} {text.duration(dt)}" for name, dt in times if dt is not None]
        why = ", ".join([why, *known])
    return Line(decision.at, decision.decision, why, _LEVELS.get(decision.decision, "note"))


def ramps(samples: Sequence[Sample]) -> list[float]:
    """Estimate how long each change of load took to show in full, in seconds, oldest first.

    The page does not see the load itself. A speed averaged over a window turns a sudden change
    into a ramp as long as the window. A run of measurements in which the total only rises or only
    falls, by at least `RAMP`, is therefore one change, and the length of the run is its Δt1.
    """
    changes = []
    start, last = 0, 0
    for index in range(1, len(samples)):
        step = samples[index].bound - samples[index - 1].bound
        before = samples[last].bound - samples[start].bound
        if abs(step) < CALM or (before and (step > 0) != (before > 0)):
            changes.append((samples[start], samples[last]))
            start = index if abs(step) < CALM else index - 1
        last = index
    return [end.at - begin.at for begin, end in changes if abs(end.bound - begin.bound) >= RAMP]


def _spread(points: Sequence[Point]) -> list[Point]:
    """Keep the last point of each fixed time step, so that points do not jump on redraws."""
    kept = {int(point.at // (KEPT / POINTS)): point for point in points}
    return list(kept.values())
