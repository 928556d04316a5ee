"""The grid on Spark: cells as a DataFrame, worked through `mapInArrow`, rows kept as Parquet.

1. Cells go out in chunks, a few at a time, so that no core waits for the slowest cell of a chunk.
2. A chunk's rows come back to this process, which writes them as one file under a name that says
   which cells it holds: first beside it, then moved, so that a file is complete or absent.
   The executors need no shared file system, and Spark Connect works like the rest.
"""

import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lagless import extras, packing
from lagless.adapters.spark import sessions as embedded
from lagless.errors import WrongInput
from lagless.lab.paper import cells

with extras.needed("evaluation"):
    import pyarrow as pa
    import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_FLIGHT = 2
CHUNK_WORK = 5_000_000
"""Partitions times measurements in a chunk: a second or so of one core."""

CELL_DDL = (
    "cell bigint, algorithm string, delta double, start string, seed bigint, partitions bigint"
)
ROW_DDL = (
    "cell bigint, iteration bigint, consumers bigint, rscore double, migrations bigint, "
    "seconds double"
)
"""What crosses Spark: a row's cell by its place in the chunk, since texts in rows cost the most."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How many cells are done, how many of them were found done, and how many there are."""

    done: int
    found: int
    total: int


def run(
    spark: "SparkSession",
    wanted: Sequence[cells.Cell],
    setting: cells.Setting,
    folder: Path,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Any:
    """Work through the cells that the folder does not have yet, and return the rows of all."""
    _claim(folder, setting)
    ready = done(folder)
    missing = [cell for cell in wanted if cell not in ready]
    found = finished = len(wanted) - len(missing)
    progress(Progress(finished, found, len(wanted)))
    pending: set[Future[tuple[list[cells.Cell], Any]]] = set()
    waiting = iter(chunks(missing, setting, cores(spark) if missing else 1))
    # Leaving the block waits for what was handed in: after an error nothing runs on unseen.
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        while True:
            while len(pending) < IN_FLIGHT and (chunk := next(waiting, None)):
                pending.add(pool.submit(collect, spark, chunk, setting))
            if not pending:
                break
            over, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in over:
                chunk, table = future.result()
                keep(folder, chunk, table)
                finished += len(chunk)
                progress(Progress(finished, found, len(wanted)))
    return rows(folder, wanted)


def cores(spark: "SparkSession") -> int:
    """Ask Spark how many slices it makes by default, which also works through Connect."""
    from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

    slices = spark.range(1 << 16).select(F.spark_partition_id().alias("slice")).distinct()
    return int(slices.count())


def chunks(
    wanted: Sequence[cells.Cell], setting: cells.Setting, cores: int
) -> Iterator[list[cells.Cell]]:
    """Cut the list where a chunk has enough work and at least a cell for each core."""
    chunk: list[cells.Cell] = []
    size = 0
    for cell in wanted:
        chunk.append(cell)
        size += cell.partitions * setting.measurements
        if size >= CHUNK_WORK and len(chunk) >= cores:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def done(folder: Path) -> dict[cells.Cell, Path]:
    """Find the cells that the folder has, and the file of each."""
    return {
        cells.Cell(*values): file
        for file in sorted((folder / "rows").glob("*.parquet"))
        for values in json.loads((pq.read_schema(file).metadata or {}).get(b"cells", b"[]"))
    }


def rows(folder: Path, wanted: Iterable[cells.Cell]) -> Any:
    """Read the rows of the cells, in the order of their names whatever order they were run in."""
    files = done(folder)
    needed = sorted({files[cell] for cell in wanted})
    if not needed:
        return cells.SCHEMA.empty_table()
    table = pa.concat_tables([pq.ParquetFile(file).read() for file in needed])
    table = table.replace_schema_metadata(None)
    kept = pa.Table.from_pylist([cell.key for cell in wanted], cells.SCHEMA).select(cells.KEYS)
    table = table.join(kept, cells.KEYS, join_type="left semi")
    keys = [*cells.KEYS, "iteration"]
    return table.sort_by([(key, "ascending") for key in keys]).combine_chunks()


def collect(
    spark: "SparkSession", chunk: list[cells.Cell], setting: cells.Setting
) -> tuple[list[cells.Cell], Any]:
    """Work through some cells on Spark and bring their rows here."""
    numbered = [(index, *astuple(cell)) for index, cell in enumerate(chunk)]
    frame = spark.createDataFrame(numbered, CELL_DDL)
    return chunk, named(chunk, frame.mapInArrow(partial(_work, setting), ROW_DDL).toArrow())


def named(chunk: Sequence[cells.Cell], table: Any) -> Any:
    """Put the cells' names back in place of their places in the chunk."""
    names = pa.Table.from_pylist([cell.key for cell in chunk], schema=cells.SCHEMA)
    names = names.select(cells.KEYS).take(table.column("cell"))
    measured = table.select(cells.SCHEMA.names[len(cells.KEYS) :])
    return pa.Table.from_arrays([*names.columns, *measured.columns], schema=cells.SCHEMA)


def _work(setting: cells.Setting, batches: Iterable[Any]) -> Iterator[Any]:
    """Run on an executor: the rows of each cell in the batches."""
    for batch in batches:
        for values in batch.to_pylist():
            index = values.pop("cell")
            rows = cells.work(cells.Cell(**values), setting).drop_columns(cells.KEYS)
            yield rows.add_column(0, "cell", pa.repeat(pa.scalar(index, pa.int64()), len(rows)))


def keep(folder: Path, chunk: Sequence[cells.Cell], table: Any) -> None:
    """Write the rows of some cells as one file, whole or not at all."""
    names = json.dumps([astuple(cell) for cell in chunk])
    file = folder / "rows" / f"{hashlib.sha256(names.encode()).hexdigest()[:24]}.parquet"
    unfinished = file.with_suffix(".unfinished")
    pq.write_table(table.cast(cells.SCHEMA).replace_schema_metadata({"cells": names}), unfinished)
    unfinished.replace(file)


def _claim(folder: Path, setting: cells.Setting) -> None:
    """Write down the settings of the folder's rows, or compare them with those that are there."""
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    file = folder / "json"
    mine = asdict(setting)
    if not file.exists():
        file.write_text(json.dumps(mine, indent=2) + "\n", "utf-8")
    theirs = json.loads(file.read_text("utf-8"))
    if theirs != mine:
        other = ", ".join(f"{key} {value}" for key, value in theirs.items() if mine[key] != value)
        raise WrongInput(
            f"{folder} holds rows of a run with other settings ({other}): choose another folder"
        )


PLAIN = {
    "spark.sql.extensions": "",
    "spark.sql.catalog.spark_catalog": "builtin",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "1g",
    # A run is over before the second compiler pays: with it the JVM takes twice the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@contextmanager
def opened(
    master: str, algorithms: Sequence[str] = (), conf: Mapping[str, str] | None = None
) -> "Iterator[SparkSession]":
    """Open a session on any master and stop it at the end; `conf` adds to Spark's options.

    While Spark starts, the algorithms are compiled here, so that its workers find them on disk.
    """
    compiling = threading.Thread(target=_compile, args=(algorithms,), daemon=True)
    compiling.start()
    if embedded.is_here(master):
        # Else Spark's workers are whatever python3 the path has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    plain = {} if master.startswith("sc://") else PLAIN
    session = embedded.session(master, {**plain, **(conf or {})}, jars=())
    try:
        compiling.join()
        yield session
    finally:
        session.stop()


def settings(words: Iterable[str]) -> dict[str, str]:
    """Return options for Spark from words such as "spark.executor.cores=2"."""
    found = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key.startswith("spark."):
            raise WrongInput(f"--conf takes spark.KEY=VALUE, not {word!r}")
        found[key] = value
    return found


def _compile(algorithms: Sequence[str]) -> None:
    speeds, previous = np.full(2, 0.5), np.ones(2, dtype=np.int64)
    for name in algorithms:
        packing.packer(name)(speeds, 1.0, previous)
