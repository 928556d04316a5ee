"""The latency experiment: kd_1 … kd_32, MWF, sticky and KEDA on streams of 32 partitions."""

from collections.abc import Sequence
from dataclasses import dataclass

from lagless.evaluation import cells, experiments
from lagless.simulation import latency

PARTITIONS = 32
MODEL = latency.Model(max_rate=133.0)
SETTING = cells.Setting(measurements=100, capacity=100.0)
DELTA = 5.0
COUNTED = tuple(f"kd_{n}" for n in range(1, PARTITIONS + 1))


@dataclass(frozen=True, slots=True)
class Wait:
    """What one stream's bytes waited under one algorithm."""

    seed: int
    algorithm: str
    consumers: float
    bytes: float
    late_bytes: float
    p50: float
    p90: float
    p99: float
    max: float


def on(seed: int, algorithms: Sequence[str]) -> dict[str, latency.Latency]:
    """Run the experiment on the stream of one seed."""
    cell = cells.Cell("", DELTA, "random", seed, PARTITIONS)
    speeds = cells.stream(cell, SETTING)
    return {
        name: experiments.waited(
            name, speeds, SETTING.capacity, MODEL, SETTING.order, cells.seed(cell)
        )
        for name in algorithms
    }


def over(seeds: Sequence[int], algorithms: Sequence[str]) -> list[Wait]:
    """Run the experiment on many streams: one stream says little about kd_n."""
    found: list[Wait] = []
    for seed in seeds:
        for name, one in on(seed, algorithms).items():
            waits = experiments.summary(one)
            found.append(
                Wait(
                    seed,
                    name,
                    waits.consumers,
                    waits.bytes,
                    waits.late_bytes,
                    waits.p50,
                    waits.p90,
                    waits.p99,
                    waits.max,
                )
            )
    return found


def typical(found: Sequence[Wait], name: str = "kd_27") -> int:
    """Give the seed of the stream in which an algorithm has the median of late bytes."""
    ordered = sorted((one.late_bytes, one.seed) for one in found if one.algorithm == name)
    return ordered[len(ordered) // 2][1]
