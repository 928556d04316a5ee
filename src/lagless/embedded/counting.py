"""Count what the lake holds against what the load generator produced.

Every record of the load carries a number that grows by one within its partition (`seq`), so that
the rows of a table can be told apart: what is missing, what is there twice, what is out of order.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from numpy.typing import NDArray

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
        """Give a quantile of the delays in seconds."""
        if not self.delays:
            return None
        return float(np.quantile(np.concatenate(self.delays), quantile))


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one partition in the order of commits, and of offsets within a commit."""

    version: NDArray[np.int64]
    offset: NDArray[np.int64]
    seq: NDArray[np.int64]


def count(lake: Path, tables: Mapping[str, str], produced: Produced) -> Count:
    """Count over all topics; `tables` names each topic's table."""
    total = Count(produced=sum(sum(parts.values()) for parts in produced.values()))
    for topic in produced:
        for rows in _partitions(lake / tables[topic], total):
            numbers, repeats = np.unique(rows.seq, return_counts=True)
            total.landed += len(numbers)
            total.duplicated += int((repeats - 1).sum())
            total.out_of_order += _out_of_order(rows)
        total.rejected += _rejected(lake / f"{tables[topic]}_rejected")
        total.gone += _gone(lake / f"{tables[topic]}_gone")
    return total


def _out_of_order(rows: Rows) -> int:
    """Count rows whose number or offset is not above all those of earlier rows."""
    if len(rows.seq) < 2:
        return 0
    numbers = rows.seq[1:] <= np.maximum.accumulate(rows.seq)[:-1]
    earlier = np.maximum.accumulate(rows.offset)[:-1]
    offsets = (rows.offset[1:] <= earlier) & (rows.version[1:] > rows.version[:-1])
    return int((numbers | offsets).sum())


def _partitions(table: Path, total: Count) -> Iterator[Rows]:
    if not DeltaTable.is_deltatable(str(table)):
        return
    names = ("_partition", "_offset", "seq")
    columns: dict[str, list[NDArray[np.int64]]] = {name: [] for name in (*names, "version")}
    for path, (version, at) in _files(table).items():
        rows = pq.read_table(table / path, columns=[*names, "_timestamp"])
        for name in names:
            columns[name].append(rows[name].to_numpy().astype(np.int64))
        columns["version"].append(np.full(len(rows), version))
        stamps = rows["_timestamp"].cast(pa.timestamp("us", tz="UTC")).cast("int64").to_numpy()
        total.delays.append(np.maximum(at - stamps / 1e6, 0.0))
        total.stamps.append(stamps / 1e6)
    if not columns["seq"]:
        return
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.lexsort((joined["_offset"], joined["version"], joined["_partition"]))
    partition = joined["_partition"][order]
    for number in np.unique(partition):
        of_partition = order[partition == number]
        yield Rows(
            joined["version"][of_partition],
            joined["_offset"][of_partition],
            joined["seq"][of_partition],
        )


def _files(table: Path) -> dict[str, tuple[int, float]]:
    """Give the table's files with the version and the time of the commit that added each.

    A file that compaction wrote counts as of its commit: its rows keep their order by offset.
    """
    listed = set(DeltaTable(str(table)).file_uris())
    present = {Path(uri.removeprefix("file://")).resolve() for uri in listed}
    added: dict[str, tuple[int, float]] = {}
    for log in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
        stamp = next((a["commitInfo"]["timestamp"] for a in actions if "commitInfo" in a), 0)
        for action in actions:
            path = action.get("add", {}).get("path")
            if path is not None and (table / path).resolve() in present:
                added[path] = (int(log.stem), stamp / 1000)
    return added


def _rejected(table: Path) -> int:
    if not DeltaTable.is_deltatable(str(table)):
        return 0
    return len(
        {(row["_partition"], row["_offset"]) for row in _rows(table, "_partition", "_offset")}
    )


def _gone(table: Path) -> int:
    """Sum the ranges that consumers named as deleted by Kafka before they were read."""
    if not DeltaTable.is_deltatable(str(table)):
        return 0
    # A topic that was deleted has no known end: its caller knows what it held.
    return sum(
        row["until"] - row["first"]
        for row in _rows(table, "first", "until")
        if row["until"] is not None
    )


def _rows(table: Path, *columns: str) -> Iterator[dict[str, int]]:
    """Read columns file by file: a dataset's threads may still run when the process ends."""
    for uri in DeltaTable(str(table)).file_uris():
        file = uri.removeprefix("file://")
        yield from pq.read_table(file, columns=list(columns), use_threads=False).to_pylist()


def arrived(lake: Path, tables: Iterable[str]) -> int:
    """Count the rows of tables and their rejected records by the tables' logs alone."""
    total = 0
    for name in tables:
        for path in (lake / name, lake / f"{name}_rejected"):
            if DeltaTable.is_deltatable(str(path)):
                actions = DeltaTable(str(path)).get_add_actions(flatten=True)
                total += sum(actions.column("num_records").to_pylist())
    return total
