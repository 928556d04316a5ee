"""Streams of the kinds that groups meet, drawn from a seed: at rest, walks, steps, ramps, …

Speeds are what the monitor publishes: the true speed, and the noise that a window of 30 s leaves.
Sizes are those of a topic with uneven keys: log-normal, a few partitions with most of the bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lagless.errors import WrongInput
from lagless.lab.model import streams
from lagless.lab.model.streams import Floats

STEP = 5.0
"""Seconds between two measurements of every kind but the walk."""
WALK_STEP = 30.0
"""Seconds between two measurements of the paper's random walk."""
WINDOW = 30.0
"""Seconds of the window that speeds are averaged over: their noise lasts that long."""
BUSIEST = 0.5
"""Of the capacity of a consumer: the most that a partition brings in the mean."""
HIGHEST = 0.95
"""Of the capacity of a consumer: the most that a partition ever brings. More is always late."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a stream is drawn for: its size, and the capacity of a consumer in bytes per second."""

    partitions: int = 60
    hours: float = 4.0
    capacity: float = 1.0
    consumers: float = 10.0
    """The consumers' worth of load in the mean."""

    def __post_init__(self) -> None:
        if self.partitions < 1 or not self.hours * 3600 >= 2 * WALK_STEP:
            raise WrongInput(
                f"a stream has a partition and a minute at least, not {self.partitions} partitions"
                f" and {self.hours:g} hours"
            )
        if not 0 < self.capacity < np.inf or not 0 < self.consumers < np.inf:
            raise WrongInput("the capacity and the load of a stream are numbers above 0")


Draw = Callable[[Shape, np.random.Generator], Floats]


def draw(kind: str, shape: Shape, seed: int) -> tuple[Floats, float]:
    """Return a stream of a kind, and the seconds between two of its rows."""
    if kind not in KINDS:
        raise WrongInput(f'unknown kind "{kind}": choose from {", ".join(KINDS)}')
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    return KINDS[kind](shape, rng), WALK_STEP if kind == "walk" else STEP


def rest(shape: Shape, rng: np.random.Generator) -> Floats:
    """Return speeds that do not change but for noise."""
    return _measured(np.ones((_rows(shape), shape.partitions)), shape, rng)


def walk(shape: Shape, rng: np.random.Generator) -> Floats:
    """Return the paper's stream: every speed changes by up to δ % of the capacity each time."""
    rows = int(shape.hours * 3600 / WALK_STEP)
    delta = float(rng.choice(streams.DELTAS[1:]))
    top = min(shape.capacity, 2 * shape.consumers * shape.capacity / shape.partitions)
    return streams.speeds("random", delta, shape.partitions, rows, top, rng)


def steps(shape: Shape, rng: np.random.Generator) -> Floats:
    """Return speeds of which some change at once, up or down by 1.5 to 4, and back later."""
    factors = np.ones((_rows(shape), shape.partitions))
    for _ in range(max(1, round(2 * shape.hours))):
        hit = rng.random(shape.partitions) < rng.uniform(0.1, 1.0)
        factor = rng.uniform(1.5, 4.0) ** rng.choice([-1.0, 1.0])
        factors[_stretch(len(factors), rng, 120, 1800)] *= np.where(hit, factor, 1.0)
    return _measured(factors, shape, rng)


def ramps(shape: Shape, rng: np.random.Generator) -> Floats:
    """Return speeds that rise to up to four times within minutes, stay there, and fall again."""
    at = np.arange(_rows(shape)) * STEP
    factors = np.ones(len(at))
    for _ in range(max(1, round(shape.hours))):
        begin, rise, stay = at[-1] * rng.random(), rng.uniform(300, 1200), rng.uniform(300, 1200)
        knots = begin + np.cumsum([0.0, rise, stay, rise])
        top = rng.uniform(1.5, 4.0)
        factors *= np.interp(at, knots, [1.0, top, top, 1.0])
    return _measured(_all(np.minimum(factors, 5.0), shape), shape, rng)


def days(shape: Shape, rng: np.random.Generator) -> Floats:
    """Return speeds that swing between half and one and a half in the stream's time."""
    phase = np.linspace(0, 2 * np.pi, _rows(shape)) + rng.uniform(0, 2 * np.pi)
    own = rng.uniform(-0.5, 0.5, shape.partitions)
    return _measured(1 + 0.5 * np.sin(phase[:, None] + own), shape, rng)


def bursts(shape: Shape, rng: np.random.Generator) -> Floats:
    """Return speeds with bursts of half a minute to three minutes, each of a few partitions."""
    factors = np.ones((_rows(shape), shape.partitions))
    for _ in range(max(1, round(12 * shape.hours))):
        hit = rng.random(shape.partitions) < rng.uniform(0.05, 0.3)
        factors[_stretch(len(factors), rng, 30, 180)] *= np.where(hit, rng.uniform(2, 6), 1.0)
    return _measured(np.minimum(factors, 8.0), shape, rng)


def dead(shape: Shape, rng: np.random.Generator) -> Floats:
    """Return speeds of which a third stops for minutes, now and then, and comes back with more."""
    factors = np.ones((_rows(shape), shape.partitions))
    third = rng.random(shape.partitions) < 1 / 3
    third[0] = True
    for _ in range(max(1, round(shape.hours))):
        gone = _stretch(len(factors), rng, 120, 1200)
        factors[gone, :] = np.where(third, 0.0, factors[gone, :])
        after = slice(gone.stop, gone.stop + (gone.stop - gone.start) // 2)
        factors[after, :] = np.where(third, 2.0, factors[after, :])
    return _measured(factors, shape, rng)


def hot(shape: Shape, rng: np.random.Generator) -> Floats:
    """Return speeds of which one at a time grows to nearly what a consumer can be given."""
    rows = _rows(shape)
    speeds = rest(shape, rng)
    begin = 0
    while begin < rows:
        long = int(rng.uniform(600, 2400) / STEP)
        level = np.interp(np.arange(long), [0, min(60, long / 4), long - 1], [0.1, 1.0, 1.0])
        chosen, end = int(rng.integers(shape.partitions)), min(rows, begin + long)
        top = rng.uniform(0.6, 0.95) * shape.capacity
        grown = (level * top)[: end - begin]
        speeds[begin:end, chosen] = np.maximum(speeds[begin:end, chosen], grown)
        begin = end
    return speeds


KINDS: dict[str, Draw] = {
    "rest": rest,
    "walk": walk,
    "steps": steps,
    "ramps": ramps,
    "days": days,
    "bursts": bursts,
    "dead": dead,
    "hot": hot,
}
"""The kinds by name; a seed gives another stream for each."""


def _rows(shape: Shape) -> int:
    return int(shape.hours * 3600 / STEP)


def _all(factors: Floats, shape: Shape) -> Floats:
    return np.repeat(factors[:, None], shape.partitions, axis=1)


def _stretch(rows: int, rng: np.random.Generator, least: float, most: float) -> slice:
    """Return a stretch of rows that lasts between so many seconds."""
    long = max(1, int(rng.uniform(least, most) / STEP))
    begin = int(rng.integers(max(1, rows - long)))
    return slice(begin, begin + long)


def _measured(factors: Floats, shape: Shape, rng: np.random.Generator) -> Floats:
    """Return the speeds of a topic whose partitions are so many times as fast as usual."""
    sizes = rng.lognormal(0.0, 1.0, shape.partitions)
    sizes *= shape.consumers * shape.capacity / sizes.sum()
    base = np.minimum(sizes, BUSIEST * shape.capacity)
    level = rng.uniform(0.02, 0.08, shape.partitions)
    kept = float(np.exp(-STEP / WINDOW))
    shocks = rng.standard_normal(factors.shape) * np.sqrt(1 - kept * kept)
    noise = np.empty_like(factors)
    noise[0] = rng.standard_normal(shape.partitions)
    for k in range(1, len(noise)):
        noise[k] = kept * noise[k - 1] + shocks[k]
    speeds = base * factors * (1 + level * noise)
    return np.asarray(np.clip(speeds, 0.0, HIGHEST * shape.capacity))
