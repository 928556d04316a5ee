"""Count what the lake holds against what the load generator produced.

Every record of the load carries a number that grows by one within its partition (`seq`), so that
the rows of a table can be told apart: what is missing, what is there twice, what is out of order.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lagless.adapters.lake import store
from lagless.adapters.lake.store import Store

Numbers = NDArray[np.int64]
Produced = Mapping[str, Mapping[int, int]]
"""How many records were produced, by topic and partition; their numbers are 0, 1, 2, …"""


@dataclass(slots=True)
class Count:
    """What became of the records."""

    produced: int = 0
    landed: int = 0
    rejected: int = 0
    gone: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    delays: list[NDArray[np.float64]] = field(default_factory=list, repr=False)
    """Seconds from a record's timestamp to the commit that made it readable."""
    stamps: list[NDArray[np.float64]] = field(default_factory=list, repr=False)
    """The timestamps of the same records, in seconds since 1970."""

    @property
    def lost(self) -> int:
        """How many records are nowhere."""
        return self.produced - self.landed - self.rejected - self.gone

    def delay(self, quantile: float) -> float | None:
        """Return a quantile of the delays in seconds."""
        if not self.delays:
            return None
        return float(np.quantile(np.concatenate(self.delays), quantile))


def count(lake: Path | Store, tables: Mapping[str, str], produced: Produced) -> Count:
    """Count over all topics; `tables` names each topic's table."""
    total = Count(produced=sum(sum(parts.values()) for parts in produced.values()))
    here = _store(lake)
    for topic in produced:
        for version, offset, seq in _partitions(here.inside(tables[topic]), total):
            landed = len(np.unique(seq))
            total.landed += landed
            total.duplicated += len(seq) - landed
            total.out_of_order += _out_of_order(version, offset, seq)
        rejected = _rows(here.inside(f"{tables[topic]}_rejected"), "_partition", "_offset")
        total.rejected += len({(row["_partition"], row["_offset"]) for row in rejected})
        # What consumers named as deleted by Kafka before it was read. A topic that was deleted has
        # no known end: its caller knows what it held.
        gone = _rows(here.inside(f"{tables[topic]}_gone"), "first", "until")
        total.gone += sum(row["until"] - row["first"] for row in gone if row["until"] is not None)
    return total


def _out_of_order(version: Numbers, offset: Numbers, seq: Numbers) -> int:
    """Count rows whose number or offset is not above all those of earlier rows."""
    numbers = seq[1:] <= np.maximum.accumulate(seq)[:-1]
    offsets = offset[1:] <= np.maximum.accumulate(offset)[:-1]
    return int((numbers | (offsets & (version[1:] > version[:-1]))).sum())


def _partitions(table: Store, total: Count) -> Iterator[list[Numbers]]:
    """Yield versions, offsets and numbers of each partition's rows.

    The rows are in the order of commits, and of offsets within a commit.
    """
    names = ("_partition", "_offset", "seq")
    read: list[list[Numbers]] = []
    for path, (version, at) in _files(table).items():
        with table.open(path) as source:
            rows = pq.read_table(source, columns=[*names, "_timestamp"])
        partition, offset, seq = (rows[name].to_numpy().astype(np.int64) for name in names)
        read.append([partition, np.full(len(rows), version), offset, seq])
        stamps = rows["_timestamp"].cast(pa.timestamp("us", tz="UTC")).cast("int64").to_numpy()
        total.delays.append(np.maximum(at - stamps / 1e6, 0.0))
        total.stamps.append(stamps / 1e6)
    if not read:
        return
    partition, *rest = (np.concatenate(parts) for parts in zip(*read, strict=True))
    order = np.lexsort((rest[1], rest[0], partition))
    ordered = partition[order]
    for number in np.unique(ordered):
        of_partition = order[ordered == number]
        yield [column[of_partition] for column in rest]


def _files(table: Store) -> dict[str, tuple[int, float]]:
    """Return the table's files with the version and the time of the commit that added each.

    A file that compaction wrote counts as of its commit: its rows keep their order by offset.
    """
    present = set(_added(table, "path"))
    added: dict[str, tuple[int, float]] = {}
    log = table.inside("_delta_log")
    for entry in (file.name for file in log.files() if file.name.endswith(".json")):
        actions = [json.loads(line) for line in log.read(entry).splitlines() if line.strip()]
        stamp = next((a["commitInfo"]["timestamp"] for a in actions if "commitInfo" in a), 0)
        for action in actions:
            path = action.get("add", {}).get("path")
            if path is not None and path in present:
                added[path] = (int(entry.removesuffix(".json")), stamp / 1000)
    return added


def _rows(table: Store, *columns: str) -> Iterator[dict[str, int]]:
    """Read columns file by file: a dataset's threads may still run when the process ends."""
    for name in _added(table, "path"):
        with table.open(name) as source:
            yield from pq.read_table(source, columns=list(columns), use_threads=False).to_pylist()


def _added(table: Store, column: str) -> list[Any]:
    """Return a column of the table's list of files, which is empty if there is no table."""
    if not table.is_table():
        return []
    actions = pa.table(table.table().get_add_actions(flatten=True))
    return list(actions[column].to_pylist())


def arrived(lake: Path | Store, tables: Iterable[str]) -> int:
    """Count the rows of tables and their rejected records by the tables' logs alone."""
    here = _store(lake)
    names = (name for table in tables for name in (table, f"{table}_rejected"))
    return sum(sum(_added(here.inside(name), "num_records")) for name in names)


def _store(lake: Path | Store) -> Store:
    return store.at(lake) if isinstance(lake, Path) else lake
