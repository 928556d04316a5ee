"""How fast each partition is written to, over time."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lagless.errors import WrongInput
from lagless.lab.model import streams
from lagless.lab.model.streams import Floats
from lagless.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Flow:
    """Speeds in bytes/s: a column per partition, and a row for every `step` seconds."""

    partitions: tuple[TopicPartition, ...]
    speeds: Floats
    step: float = 1.0

    def __post_init__(self) -> None:
        if self.speeds.ndim != 2 or self.speeds.shape[1] != len(self.partitions):
            raise WrongInput(
                f"a flow over {len(self.partitions)} partitions has as many columns, "
                f"not the shape {self.speeds.shape}"
            )
        if not self.speeds.size or not np.isfinite(self.speeds).all() or (self.speeds < 0).any():
            raise WrongInput("a flow has at least one row of speeds, each a number of 0 or more")
        if not self.step > 0:
            raise WrongInput(f"a row of a flow lasts more than 0 seconds, not {self.step:g}")

    def at(self, seconds: float) -> Floats:
        """Return the speeds at a time after the start; after the last row comes the first."""
        row: Floats = self.speeds[int(seconds / self.step) % len(self.speeds)]
        return row

    def save(self, path: Path) -> None:
        """Write the speeds as CSV, in whole bytes/s; `replay` reads them."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([f"{part.topic}:{part.partition}" for part in self.partitions])
            writer.writerows([f"{speed:.0f}" for speed in row] for row in self.speeds.tolist())

    @property
    def topics(self) -> dict[str, int]:
        """How many partitions each topic must have at least."""
        # In this order the highest number of a topic comes last, and stays.
        return {part.topic: part.partition + 1 for part in sorted(self.partitions)}


def spread(topics: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """Return all partitions of topics that are given with their number of partitions."""
    return tuple(TopicPartition(name, j) for name, count in topics.items() for j in range(count))


def steady(partitions: Sequence[TopicPartition], speed: float) -> Flow:
    """Write to every partition at the same speed."""
    return Flow(tuple(partitions), np.full((1, len(partitions)), float(speed)))


def walk(
    partitions: Sequence[TopicPartition],
    capacity: float,
    delta: float,
    rows: int,
    rng: np.random.Generator,
    *,
    step: float = 10.0,
    start: streams.Start = "random",
) -> Flow:
    """Let every speed walk by up to δ percent of the capacity, as the paper's streams do."""
    drawn = streams.speeds(start, delta, len(partitions), rows, capacity, rng)
    return Flow(tuple(partitions), drawn, step)


def replay(path: Path, step: float = 1.0) -> Flow:
    """Follow a CSV file: its header names partitions as TOPIC:NUMBER, its rows are bytes/s."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = (row for row in csv.reader(file) if row)
        speeds = np.array([[float(cell) for cell in row] for row in rows])
    except OSError as error:
        raise WrongInput(f"the flow's file {path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise WrongInput(
            f"{path} is not a flow ({error}): its header names partitions as TOPIC:NUMBER and "
            "every row has a number of bytes/s for each"
        ) from error
    return Flow(tuple(_partition(name, path) for name in header), speeds, step)


def _partition(name: str, path: Path) -> TopicPartition:
    topic, _, number = name.strip().rpartition(":")
    if not topic or not number.isdigit():
        raise WrongInput(f"{path} names the partition {name!r}: write TOPIC:NUMBER")
    return TopicPartition(topic, int(number))
