"""The experiments that are not grids, on Spark: each task's rows are those of one process.

A row is a dataclass of numbers and texts. It crosses Spark as JSON, which keeps floats exactly.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lagless import extras
from lagless.lab.paper import cells, experiments, gaps, grid
from lagless.lab.paper.experiments import Wait

with extras.needed("evaluation"):
    import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Row = TypeVar("Row")
Told = Callable[[grid.Progress], None]


def waits(spark: "SparkSession", streams: int, names: Sequence[str], told: Told) -> list[Wait]:
    """Run the latency experiment on many streams, one task for each."""
    work = partial(_waits, names=list(names))
    return [Wait(*row) for row in run(spark, range(streams), work, told)]


def apart(
    spark: "SparkSession",
    wanted: Sequence[cells.Cell],
    setting: cells.Setting,
    seconds: float,
    told: Told,
) -> list[gaps.Gap]:
    """Compare every cell's algorithm with the solver's bounds, one task for each."""
    work = partial(_gaps, setting=setting, seconds=seconds)
    return [gaps.Gap(*row) for row in run(spark, wanted, work, told)]


def run(
    spark: "SparkSession",
    tasks: Sequence[Task],
    work: Callable[[Task], Sequence[Row]],
    told: Told = lambda _: None,
) -> list[list[Any]]:
    """Work through the tasks, as many at a time as there are cores; rows in the tasks' order."""
    told(grid.Progress(0, 0, len(tasks)))
    width = grid.cores(spark) if tasks else 1
    rows: list[list[Any]] = []
    for first in range(0, len(tasks), width):
        some = list(tasks[first : first + width])
        frame = spark.createDataFrame([(index,) for index in range(len(some))], "task bigint")
        found = frame.mapInArrow(partial(_work, some, work), "task bigint, rows string").toArrow()
        for row in sorted(found.to_pylist(), key=lambda row: int(row["task"])):
            rows += json.loads(row["rows"])
        told(grid.Progress(first + len(some), 0, len(tasks)))
    return rows


def _work(
    tasks: Sequence[Task], work: Callable[[Task], Sequence[Row]], batches: Iterable[Any]
) -> Iterator[Any]:
    """Run on an executor: the rows of each task in the batches."""
    for batch in batches:
        for index in batch.column(0).to_pylist():
            rows = [astuple(row) for row in work(tasks[index])]  # type: ignore[call-overload]
            names = ["task", "rows"]
            yield pa.RecordBatch.from_arrays(
                [pa.array([index]), pa.array([json.dumps(rows)])], names
            )


def _waits(seed: int, names: Sequence[str]) -> list[Wait]:
    return experiments.over([seed], names)


def _gaps(cell: cells.Cell, setting: cells.Setting, seconds: float) -> list[gaps.Gap]:
    return gaps.over([cell], setting, seconds)
