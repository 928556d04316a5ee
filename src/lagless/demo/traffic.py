"""The demo's load: 24 partitions of 3 topics, skewed, walking, with a spike every few minutes."""

from dataclasses import dataclass

import numpy as np

from lagless.embedded import flows
from lagless.embedded.flows import Flow

TOPICS = {"orders": 8, "payments": 8, "clicks": 8}
STEP = 5.0
"""Seconds for which speeds stay as they are."""
HOURS = 2
"""After this much time the same load begins again."""
FIRST_SPIKE, BETWEEN_SPIKES, SPIKE, FACTOR = 60, 150, 50, 3.0
"""Seconds to the first spike, from one to the next, of a spike; how many times as fast."""


@dataclass(frozen=True, slots=True)
class Spike:
    """One topic is written to faster for a while; seconds count from the load's start."""

    topic: str
    begin: float
    end: float


def spikes(seconds: float = HOURS * 3600) -> list[Spike]:
    """List the spikes, which take turns among the topics."""
    names = list(TOPICS)
    begins = np.arange(FIRST_SPIKE, seconds, BETWEEN_SPIKES)
    return [Spike(names[i % len(names)], at, at + SPIKE) for i, at in enumerate(begins.tolist())]


def flow(total: float, capacity: float, seed: int) -> Flow:
    """Share `total` bytes/s out by Zipf's law, and let every share walk.

    No partition comes near the capacity on its own, so that packing has a choice.
    """
    rng = np.random.default_rng(seed)
    partitions = flows.spread(TOPICS)
    count, rows = len(partitions), int(HOURS * 3600 / STEP)
    weights = rng.permutation(1.0 / np.arange(1, count + 1) ** 0.7)
    walk = np.cumsum(rng.normal(0, 0.06, (rows, count)), axis=0)
    # Pulled back to its share, so that the total stays what the machine can do.
    walk -= np.linspace(0, 1, rows)[:, None] * walk[-1]
    shares = weights * np.exp(np.clip(walk, -1.0, 1.0))
    speeds = total * shares / shares.sum(axis=1, keepdims=True)
    for spike in spikes():
        rows_of = slice(int(spike.begin / STEP), int(spike.end / STEP))
        columns = [j for j, partition in enumerate(partitions) if partition.topic == spike.topic]
        speeds[rows_of, columns] *= FACTOR
    return Flow(partitions, np.minimum(speeds, 0.8 * capacity), STEP)
