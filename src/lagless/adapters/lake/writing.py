"""Writing frames and rows as Parquet files of a table that its log does not list yet."""

import os
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from lagless.adapters.lake import statistics
from lagless.adapters.lake.statistics import File


def write(frame: DataFrame, table: Path, files: int = 1, spread: bool = False) -> list[File]:
    """Let Spark write a frame, as few files; those without rows are left out.

    One file is one task: with `spread` only its writing is, and all cores do what comes before. A
    partition's rows stay in order, since one task reads them and hands them on as they come.
    """
    # Neither "_" nor "." in front: vacuum would never find what a crash leaves here.
    folder = table / f"cycle-{uuid.uuid4().hex}"
    try:
        gathered = frame.repartition(1) if spread and files == 1 else frame.coalesce(files)
        gathered.write.parquet(str(folder))
        written = []
        for part in sorted(folder.glob("part-*.parquet")):
            found = statistics.measure(part)
            if found.rows:
                path = table / f"{uuid.uuid4().hex}.parquet"
                os.rename(part, path)
                written.append(File(path, found.size, found.rows, found.statistics, found.schema))
        return written
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_rows(rows: list[dict[str, object]], schema: pa.Schema, table: Path) -> File:
    """Write a few rows without Spark."""
    path = table / f"{uuid.uuid4().hex}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return statistics.measure(path)
