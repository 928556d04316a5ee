"""Tables and files for tests, without Spark."""

from pathlib import Path

import pyarrow as pa

from lagless.adapters.lake import data_files, queries, schemas, store
from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.store import Store
from lagless.adapters.lake.table import Table
from lagless.model import TopicPartition
from lagless.ports import Topic

TOPIC = Topic("orders", "AAAAAAAAAAAAAAAAAAAAAA")
P = [TopicPartition(TOPIC.name, number) for number in range(8)]
SCHEMA = pa.schema([*schemas.ALWAYS, pa.field("value", pa.string())])


Place = Path | Store
"""Where a table is."""


def home(place: Place) -> Store:
    """Return the store of a place."""
    return store.at(place) if isinstance(place, Path) else place


def table(place: Place, topic: Topic = TOPIC) -> Table:
    """Return a new handle on the table at a place."""
    return Table(home(place), "group", topic, SCHEMA)


def written(
    place: Place, partition: int, first: int, until: int, schema: pa.Schema = SCHEMA
) -> File:
    """Write a file with one row per offset."""
    home(place).prepare()
    offsets = list(range(first, until))
    rows: list[dict[str, object]] = [
        {"_partition": partition, "_offset": o, "_timestamp": o * 1000, "value": str(o)}
        for o in offsets
    ]
    return data_files.write_rows(rows, schema, home(place))


def offsets(place: Place, partition: int = 0) -> list[int]:
    """Return the offsets that the table holds of a partition, in order."""
    found = queries.read(home(place).table(), ["_offset"], f"_partition = {partition}")
    return sorted(found["_offset"].to_pylist())


def claimed(place: Place, generation: int = 1, partitions: tuple[int, ...] = (0,)) -> Table:
    """Return a handle that has claimed partitions, which begin at 0."""
    found = table(place)
    mine = [P[number] for number in partitions]
    found.claim(mine, generation, lambda: dict.fromkeys(mine, 0), {})
    return found
