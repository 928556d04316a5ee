"""Consumers that read less than C̄ although there is more to read.

A group whose consumers reach less than they are credited with scales too late and falls behind. A
consumer is at full load while its backlog is more than it could read in a few seconds. If it stays
so for minutes and reads less than C̄ on average, people are told which rate was seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lagless.messages import Heartbeat
from lagless.model import Consumer

MINUTES = 3.0
"""Minutes of uninterrupted full load before a rate is trusted: the JVM has to warm up."""
BUSY = 5.0
"""Seconds of reading at C̄ that a backlog must hold for its consumer to count as at full load."""
NEAR = 0.9
"""From this fraction of C̄ on a rate is good enough: batches and measurements vary."""
SILENCE = 600.0
"""Seconds before a warning is repeated."""


@dataclass(frozen=True, slots=True)
class Run:
    """A time of full load of one incarnation: what it read from when to when."""

    incarnation: str
    since: float
    until: float
    read: float = 0.0

    @property
    def seconds(self) -> float:
        """Return how long it has lasted."""
        return self.until - self.since


@dataclass(frozen=True, slots=True)
class Watch:
    """Measurements of the consumers at full load."""

    runs: Mapping[Consumer, Run] = field(default_factory=dict)
    told_at: float = float("-inf")


def look(
    watch: Watch, at: float, heartbeats: Mapping[Consumer, Heartbeat], max_rate: float
) -> tuple[Watch, str]:
    """Take in the last heartbeats; return a warning for people, or no text."""
    runs = {}
    for consumer, beat in heartbeats.items():
        if beat.lag_bytes < BUSY * max_rate or beat.waiting_for or beat.state != "ready":
            continue
        run = watch.runs.get(consumer)
        if run is None or run.incarnation != beat.incarnation:
            run = Run(beat.incarnation, at, at)
        read = run.read + beat.bytes_per_second * (at - run.until)
        runs[consumer] = replace(run, until=at, read=read)
    watch = replace(watch, runs=runs)
    slow = {
        run.read / run.seconds: consumer
        for consumer, run in runs.items()
        if run.seconds >= 60 * MINUTES and run.read < NEAR * max_rate * run.seconds
    }
    if not slow or at - watch.told_at < SILENCE:
        return watch, ""
    rate = min(slow)
    minutes = runs[slow[rate]].seconds / 60
    return replace(watch, told_at=at), (
        f"consumer {slow[rate]} has had a backlog for {minutes:.0f} minutes and reads "
        f"{rate / 1e6:.2g} MB/s, less than C̄ = {max_rate / 1e6:.2g} MB/s, so the group scales too "
        "late: give consumers more cores, or set consumer.calibrated_rate to what "
        "`lagless calibrate` measures"
    )
