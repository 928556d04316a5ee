"""Tables and files for tests, without Spark."""

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from lagless.adapters.lake import columns, statistics
from lagless.adapters.lake.statistics import File
from lagless.adapters.lake.table import Table
from lagless.ports import Topic

TOPIC = Topic("orders", "AAAAAAAAAAAAAAAAAAAAAA")
SCHEMA = pa.schema([*columns.ALWAYS, pa.field("value", pa.string())])


def table(path: Path, topic: Topic = TOPIC) -> Table:
    """Give a new handle on the table at a path."""
    return Table(path, "group", topic, SCHEMA)


def written(path: Path, partition: int, first: int, until: int, schema: pa.Schema = SCHEMA) -> File:
    """Write a file with one row per offset."""
    path.mkdir(parents=True, exist_ok=True)
    offsets = list(range(first, until))
    rows = [
        {"_partition": partition, "_offset": o, "_timestamp": o * 1000, "value": str(o)}
        for o in offsets
    ]
    file = path / f"{uuid.uuid4().hex}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
    return statistics.measure(file)


def offsets(path: Path, partition: int = 0) -> list[int]:
    """Give the offsets that the table holds of a partition, in order."""
    rows = DeltaTable(str(path)).to_pyarrow_table(columns=["_partition", "_offset"]).to_pylist()
    return sorted(row["_offset"] for row in rows if row["_partition"] == partition)


def claimed(path: Path, generation: int = 1, partitions: tuple[int, ...] = (0,)) -> Table:
    """Give a handle that has claimed partitions, which begin at 0."""
    found = table(path)
    found.claim(partitions, generation, lambda: dict.fromkeys(partitions, 0), {})
    return found
