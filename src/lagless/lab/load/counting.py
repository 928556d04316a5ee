"""Count what the lake holds against what the load generator produced.

Every record of the load carries a number that grows by one within its partition (`seq`), so that
the rows of a table can be told apart: what is missing, what is there twice, what is out of order.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lagless.adapters.lake import queries, store
from lagless.adapters.lake.store import Store

Numbers = NDArray[np.int64]
UNKNOWN = -1
"""The version of rows of which the log does not tell when they came."""
Chosen = Callable[[NDArray[np.float64]], NDArray[np.bool_]]
"""Says of each timestamp, in seconds since 1970, whether its record is meant."""
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
    holes: int = 0
    """Numbers that are missing in tables below the highest one of their partition."""
    out_of_order: int = 0
    delays: list[NDArray[np.float64]] = field(default_factory=list, repr=False)
    """Seconds from a record's timestamp to the commit that made it readable."""
    stamps: list[NDArray[np.float64]] = field(default_factory=list, repr=False)
    """The timestamps of the same records, in seconds since 1970."""

    @property
    def lost(self) -> int:
        """How many records are nowhere."""
        return self.produced - self.landed - self.rejected - self.gone

    @property
    def skipped(self) -> int:
        """How many records are nowhere although a later one of their partition landed."""
        return max(0, self.holes - self.rejected - self.gone)

    def delay(self, quantile: float, among: Chosen | None = None) -> float | None:
        """Return a quantile of the delays in seconds, over records of chosen timestamps or all."""
        if not self.delays:
            return None
        delays = np.concatenate(self.delays)
        if among is not None:
            delays = delays[among(np.concatenate(self.stamps))]
        return float(np.quantile(delays, quantile)) if len(delays) else None


def count(lake: Path | Store, tables: Mapping[str, str], produced: Produced) -> Count:
    """Count over all topics; `tables` names each topic's table.

    Delays leave out the rows of files that compaction wrote.
    """
    total = Count(produced=sum(sum(parts.values()) for parts in produced.values()))
    here = _store(lake)
    for topic in produced:
        for version, offset, seq in _partitions(here.inside(tables[topic]), total):
            landed = len(np.unique(seq))
            total.landed += landed
            total.duplicated += len(seq) - landed
            total.holes += int(seq.max()) + 1 - landed
            total.out_of_order += _out_of_order(version, offset, seq)
        rejected = _rows(here.inside(f"{tables[topic]}_rejected"), "_partition", "_offset")
        total.rejected += len({(row["_partition"], row["_offset"]) for row in rejected})
        # What consumers named as deleted by Kafka before it was read. A topic that was deleted has
        # no known end: its caller knows what it held.
        gone = _rows(here.inside(f"{tables[topic]}_gone"), "first", "until")
        total.gone += sum(row["until"] - row["first"] for row in gone if row["until"] is not None)
    return total


def _out_of_order(version: Numbers, offset: Numbers, seq: Numbers) -> int:
    """Count rows whose number does not grow with the offset, or that came after a later offset.

    When a row came is not known of those with the version UNKNOWN.
    """
    wrong = np.zeros(len(seq), bool)
    by_offset = np.lexsort((version, offset))
    numbers = seq[by_offset]
    wrong[by_offset[1:]] = numbers[1:] <= np.maximum.accumulate(numbers)[:-1]
    known = np.flatnonzero(version != UNKNOWN)
    by_commit = known[np.lexsort((offset[known], version[known]))]
    commits = version[by_commit]
    earlier = np.searchsorted(commits, commits)  # rows of earlier commits
    highest = np.maximum.accumulate(np.append(-1, offset[by_commit]))
    wrong[by_commit] |= offset[by_commit] <= highest[earlier]
    return int(wrong.sum())


def _partitions(table: Store, total: Count) -> Iterator[list[Numbers]]:
    """Yield versions, offsets and numbers of each partition's rows."""
    names = ("_partition", "_offset", "seq")
    read: list[list[Numbers]] = []
    for path, (version, at) in _files(table).items():
        with table.open(path) as source:
            rows = pq.read_table(source, columns=[*names, "_timestamp"])
        partition, offset, seq = (rows[name].to_numpy().astype(np.int64) for name in names)
        read.append([partition, np.full(len(rows), version), offset, seq])
        if at is not None:
            stamps = rows["_timestamp"].cast(pa.timestamp("us", tz="UTC")).cast("int64").to_numpy()
            total.delays.append(np.maximum(at - stamps / 1e6, 0.0))
            total.stamps.append(stamps / 1e6)
    if not read:
        return
    partition, *rest = (np.concatenate(parts) for parts in zip(*read, strict=True))
    for number in np.unique(partition):
        yield [column[partition == number] for column in rest]


def _files(table: Store) -> dict[str, tuple[int, float | None]]:
    """Return the table's files with the version and the time at which their rows came.

    A file that compaction wrote has rows of many commits: their versions and times are UNKNOWN and
    None. Old entries of a log are deleted: of a file that was added there the list of files has the
    time, which is that of its rows unless compaction wrote it.
    """
    log = table.inside("_delta_log")
    commits: dict[str, tuple[int, float | None]] = {}
    merges = False
    for entry in (file.name for file in log.files() if file.name.endswith(".json")):
        actions = [json.loads(line) for line in log.read(entry).splitlines() if line.strip()]
        stamp = next((a["commitInfo"]["timestamp"] for a in actions if "commitInfo" in a), 0)
        for added in (action["add"] for action in actions if "add" in action):
            came = (int(entry.removesuffix(".json")), stamp / 1000)
            commits[added["path"]] = came if added["dataChange"] else (UNKNOWN, None)
            merges |= not added["dataChange"]
    paths, moments = _added(table, "path"), _added(table, "modification_time")
    return {
        path: commits.get(path, (UNKNOWN, None if merges else moment / 1000))
        for path, moment in zip(paths, moments, strict=True)
    }


def _rows(table: Store, *columns: str) -> list[dict[str, Any]]:
    """Return columns of all rows; none if there is no table."""
    return queries.read(table.table(), columns).to_pylist() if table.is_table() else []


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
