"""Cells of the grid: one algorithm on one drawn stream each, the same wherever it is run."""

import hashlib
import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lagless import extras
from lagless.lab.model import replay, streams

with extras.needed("evaluation"):
    import pyarrow as pa

SCHEMA = pa.schema(
    [
        *(("algorithm", "string"), ("parameters", "string"), ("delta", "double")),
        *(("start", "string"), ("seed", "int64"), ("partitions", "int64"), ("iteration", "int64")),
        *(("consumers", "int64"), ("rscore", "double"), ("migrations", "int64")),
        ("seconds", "double"),
    ]
)
"""A row of the grid: one iteration of one cell."""
KEYS = SCHEMA.names[:6]
"""The columns that name a row's cell."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """An algorithm, with its parameters after its name, and the stream that it is run on."""

    algorithm: str
    delta: float
    start: streams.Start
    seed: int
    partitions: int

    @property
    def key(self) -> dict[str, Any]:
        """Return the cell as rows name it: the parameters apart from the algorithm."""
        name, _, parameters = self.algorithm.partition(":")
        return {**asdict(self), "algorithm": name, "parameters": parameters}


@dataclass(frozen=True, slots=True)
class Setting:
    """What all cells of a grid have in common."""

    measurements: int = 500
    capacity: float = 1.0
    clamp: streams.Clamp = "capacity"
    order: replay.Order = "shuffled"


def every(
    algorithms: Sequence[str],
    deltas: Iterable[float] = streams.DELTAS,
    starts: Iterable[streams.Start] = streams.STARTS,
    seeds: Iterable[int] = (0,),
    partitions: Iterable[int] = (200,),
) -> list[Cell]:
    """List the cells of a grid; an algorithm's cells lie apart, so that slices are alike."""
    return [
        Cell(algorithm, float(delta), start, seed, size)
        for size, seed, start, delta, algorithm in itertools.product(
            partitions, seeds, starts, deltas, algorithms
        )
    ]


def seed(cell: Cell) -> int:
    """Derive a seed from all that names the cell's stream, so that no other cell matters to it."""
    name = f"{cell.delta!r} {cell.start} {cell.seed} {cell.partitions}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def stream(cell: Cell, setting: Setting) -> streams.Floats:
    """Draw the cell's stream; cells that differ in the algorithm alone get the same."""
    how = setting.measurements, setting.capacity, np.random.default_rng(seed(cell)), setting.clamp
    return streams.speeds(cell.start, cell.delta, cell.partitions, *how)


def work(cell: Cell, setting: Setting) -> Any:
    """Replay a cell and return its rows as an Arrow record batch."""
    speeds = stream(cell, setting)
    found = replay.run(
        cell.algorithm, speeds, setting.capacity, setting.order, seed(cell), time.perf_counter
    )
    n = setting.measurements
    columns: dict[str, Any] = {key: pa.repeat(value, n) for key, value in cell.key.items()}
    columns |= {"iteration": np.arange(1, n + 1), **asdict(found)}
    return pa.RecordBatch.from_pydict(columns, SCHEMA)
