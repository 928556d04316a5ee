"""Lines over time, thinned to what a screen can show, and how long responses took. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from lagless.dashboard import decisions
from lagless.dashboard.snapshot import Moment
from lagless.dashboard.story import KEPT, Lag, Sample, Story

POINTS = 120
"""Points that a line has at most."""
RAMP = 0.5
"""Share of C by which all speeds together must change for it to count as a change of load."""

CALM = 0.02
"""Share of C below which a change between two measurements is none."""

T = TypeVar("T")


def moments(story: Story, silence: float) -> tuple[Moment, ...]:
    """Give the measurements with how many consumers there were at each.

    A consumer counts from its first word until `silence` seconds after its last.
    """
    lives = [(member.first, member.last + silence) for member in story.members.values()]
    return tuple(
        Moment(
            sample.at,
            sample.speeds,
            sum(first <= sample.at <= last for first, last in lives),
            sample.plain_kafka,
            sample.bound,
        )
        for sample in _spread(story.samples, lambda sample: sample.at)
    )


def thinned(lags: Iterable[Lag]) -> tuple[Lag, ...]:
    """Give a line of lags with no more points than can be seen."""
    return tuple(_spread(sorted(lags, key=lambda lag: lag.at), lambda lag: lag.at))


def timings(
    samples: Sequence[Sample], done: Sequence[decisions.Reassignment]
) -> tuple[decisions.Timing, ...]:
    """Give Δt1 … Δt4 as the paper names them, section "Kafka Consumer Group Autoscaler
    Evaluation"."""
    return (
        decisions.timing(
            "Δt1",
            "a change of load until speeds show it whole, estimated from the speeds",
            ramps(samples),
        ),
        decisions.timing(
            "Δt2",
            "a measurement until new consumers are requested",
            [one.dt2 for one in done if one.dt2 is not None],
        ),
        decisions.timing(
            "Δt3",
            "the request until the new consumers are ready",
            [one.dt3 for one in done if one.dt3 is not None],
        ),
        decisions.timing(
            "Δt4",
            "the first order until the last receipt",
            [one.dt4 for one in done if one.dt4 is not None],
        ),
    )


def ramps(samples: Sequence[Sample]) -> list[float]:
    """Estimate how long changes of load took to show, in seconds, oldest first.

    The page does not see the load itself. But a speed averaged over a window turns a sudden change
    into a ramp as long as the window, so a run of measurements in which the sum of all speeds only
    goes up or only down, by half of C or more, is one change, and its length is what is given.
    """
    lengths: list[float] = []
    start, last = 0, 0
    for place in range(1, len(samples)):
        step = samples[place].bound - samples[place - 1].bound
        before = samples[last].bound - samples[start].bound
        if abs(step) < CALM or (before and (step > 0) != (before > 0)):
            _end(samples, start, last, lengths)
            start = place if abs(step) < CALM else place - 1
        last = place
    return lengths


def _end(samples: Sequence[Sample], start: int, last: int, lengths: list[float]) -> None:
    if last > start and abs(samples[last].bound - samples[start].bound) >= RAMP:
        lengths.append(samples[last].at - samples[start].at)


def _spread(values: Sequence[T], at: Callable[[T], float]) -> list[T]:
    """Keep the last value of each of the steps that time is cut into, so that lines lie still."""
    step = KEPT / POINTS
    kept = {int(at(value) // step): value for value in values}
    return list(kept.values())
