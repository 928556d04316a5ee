"""The grid on Spark: cells as a DataFrame, worked through `mapInArrow`, rows kept as Parquet.

1. Cells go out in chunks, a few at a time, so that no core waits for the slowest cell of a chunk.
2. A chunk's rows come back to this process, which writes them as one file under a name that says
   which cells it holds: first beside it, then moved, so that a file is there whole or not at all.
   No file system has to be shared with the executors, and Spark Connect works like the rest.
3. A later run with the same settings leaves out the cells that it finds in those files.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagless import extras
from lagless.errors import WrongInput
from lagless.evaluation import cells

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
    found: dict[cells.Cell, Path] = {}
    for file in sorted((folder / "rows").glob("*.parquet")):
        metadata = pq.read_schema(file).metadata or {}
        for values in json.loads(metadata.get(b"cells", b"[]")):
            found[cells.Cell(*values)] = file
    return found


def rows(folder: Path, wanted: Iterable[cells.Cell]) -> Any:
    """Read the rows of the cells, in the order of their names whatever order they were run in."""
    files = done(folder)
    needed = sorted({files[cell] for cell in wanted})
    if not needed:
        return cells.SCHEMA.empty_table()
    table = pa.concat_tables([pq.ParquetFile(file).read() for file in needed])
    table = table.replace_schema_metadata(None)
    keys = ["algorithm", "parameters", "delta", "start", "seed", "partitions"]
    kept = pa.Table.from_pylist(
        [_key(cell) for cell in wanted], cells.SCHEMA.empty_table().select(keys).schema
    )
    table = table.join(kept, keys, join_type="left semi")
    return table.sort_by([(key, "ascending") for key in [*keys, "iteration"]]).combine_chunks()


def _key(cell: cells.Cell) -> dict[str, Any]:
    name, _, parameters = cell.algorithm.partition(":")
    return {**asdict(cell), "algorithm": name, "parameters": parameters}


def collect(
    spark: "SparkSession", chunk: list[cells.Cell], setting: cells.Setting
) -> tuple[list[cells.Cell], Any]:
    """Work through some cells on Spark and bring their rows here."""
    numbered = [(place, *astuple(cell)) for place, cell in enumerate(chunk)]
    frame = spark.createDataFrame(numbered, CELL_DDL)
    return chunk, named(chunk, frame.mapInArrow(partial(_work, setting), ROW_DDL).toArrow())


def named(chunk: Sequence[cells.Cell], table: Any) -> Any:
    """Put the cells' names back in place of their places in the chunk."""
    names = pa.Table.from_pylist([_key(cell) for cell in chunk], schema=cells.SCHEMA)
    repeated = names.take(table.column("cell"))
    columns = [
        table.column(name) if name in table.column_names else repeated.column(name)
        for name in cells.SCHEMA.names
    ]
    return pa.Table.from_arrays(columns, schema=cells.SCHEMA)


def _work(setting: cells.Setting, batches: Iterable[Any]) -> Iterator[Any]:
    """Run on an executor: the rows of each cell in the batches."""
    for batch in batches:
        for values in batch.to_pylist():
            place = values.pop("cell")
            rows = cells.work(cells.Cell(**values), setting)
            places = pa.repeat(pa.scalar(place, pa.int64()), rows.num_rows)
            kept = ["iteration", "consumers", "rscore", "migrations", "seconds"]
            columns = [places, *(rows.column(name) for name in kept)]
            yield pa.RecordBatch.from_arrays(columns, names=["cell", *kept])


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
    file = folder / "grid.json"
    mine = asdict(setting)
    if not file.exists():
        file.write_text(json.dumps(mine, indent=2) + "\n", "utf-8")
    theirs = json.loads(file.read_text("utf-8"))
    if theirs != mine:
        other = ", ".join(f"{key} {value}" for key, value in theirs.items() if mine[key] != value)
        raise WrongInput(
            f"{folder} holds rows of a run with other settings ({other}): choose another folder"
        )
