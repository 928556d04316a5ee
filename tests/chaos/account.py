"""What was produced, record by record, and what became of it."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lagless.adapters.lake import queries
from lagless.adapters.lake.store import Store

Log = tuple[str, int]
"""A topic's id and a partition."""


@dataclass(slots=True)
class Account:
    """Every confirmed record: by log and offset, its number, or None if it is no JSON."""

    records: dict[Log, dict[int, int | None]] = field(default_factory=lambda: defaultdict(dict))

    def note(self, log: Log, offset: int, seq: int | None) -> None:
        """Note a record that the broker confirmed."""
        self.records[log][offset] = seq

    @property
    def total(self) -> int:
        """Count what was produced."""
        return sum(map(len, self.records.values()))


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, with the version that added it."""

    version: int
    offset: int
    seq: int


def report(account: Account, lake: Store, topics: Mapping[str, list[str]]) -> dict[str, Any]:
    """Compare the lake with the account; `topics` are the ids that each topic has had, in order."""
    found = {
        "produced": account.total,
        "landed": 0,
        "lost": 0,
        "gone": 0,
        "duplicated": 0,
        "out_of_order": 0,
        "rejected": 0,
        "unexpected": 0,
        "gone_and_landed": 0,
    }
    delays: list[float] = []
    for topic, ids in topics.items():
        landed = _rows(lake.inside(topic), delays)
        rejected = _rejected(lake.inside(f"{topic}_rejected"))
        gone = _gone(lake.inside(f"{topic}_gone"))
        for index in ids:
            logs = {log: records for log, records in account.records.items() if log[0] == index}
            for log, records in logs.items():
                _count(found, log, records, landed.pop(log, []), rejected.pop(log, []), gone)
        found["unexpected"] += sum(map(len, landed.values())) + sum(map(len, rejected.values()))
    late = float(np.quantile(delays, 0.99)) if delays else None
    return {**found, "lag_seconds_p99": late}


def _count(
    found: dict[str, int],
    log: Log,
    records: Mapping[int, int | None],
    rows: list[Row],
    rejected: list[int],
    gone: Mapping[Log, list[tuple[int, float]]],
) -> None:
    good = {offset: seq for offset, seq in records.items() if seq is not None}
    offsets = [row.offset for row in rows]
    distinct = set(offsets)
    numbers = {seq: offset for offset, seq in good.items()}
    for row in rows:
        if good.get(row.offset) != row.seq:
            # For whoever looks for the cause: Kafka may have a record twice, or at another offset.
            print(f"unexpected: {log} {row}, which was confirmed at {numbers.get(row.seq)}")
    found["landed"] += len(distinct & set(good))
    found["unexpected"] += len(distinct - set(good))
    found["duplicated"] += len(offsets) - len(distinct) + len(rejected) - len(set(rejected))
    found["unexpected"] += len(set(rejected) - (set(records) - set(good)))
    found["rejected"] += len(set(rejected) & (set(records) - set(good)))
    found["unexpected"] += sum(1 for row in rows if good.get(row.offset, row.seq) != row.seq)
    highest = -1
    for row in sorted(rows, key=lambda row: (row.version, row.offset)):
        if row.offset <= highest:
            found["out_of_order"] += 1
        highest = max(highest, row.offset)
    there = distinct | set(rejected)
    for offset in records:
        named = any(first <= offset < until for first, until in gone.get(log, ()))
        if offset in there:
            found["gone_and_landed"] += named
        elif named:
            found["gone"] += 1
        else:
            found["lost"] += 1


def _rows(table: Store, delays: list[float]) -> dict[Log, list[Row]]:
    rows: dict[Log, list[Row]] = defaultdict(list)
    columns = ["_partition", "_offset", "seq", "run", "_timestamp"]
    for name, version, at in _files(table):
        with table.open(name) as source:
            read = pq.read_table(source, columns=columns)
        for row in read.to_pylist():
            rows[(row["run"], row["_partition"])].append(Row(version, row["_offset"], row["seq"]))
            delays.append(max(0.0, at - row["_timestamp"].timestamp()))
    return rows


def _files(table: Store) -> Iterator[tuple[str, int, float]]:
    if not table.is_table():
        return
    # Data files lie directly in the table's folder.
    listed = {uri.rpartition("/")[2] for uri in table.table().file_uris()}
    log = table.inside("_delta_log")
    for entry in log.files():
        if not entry.name.endswith(".json"):
            continue
        lines = log.read(entry.name).decode().splitlines()
        actions = [json.loads(line) for line in lines if line.strip()]
        at = next((a["commitInfo"]["timestamp"] for a in actions if "commitInfo" in a), 0) / 1000
        for action in actions:
            name = action.get("add", {}).get("path")
            if name in listed:
                yield name, int(entry.name[:20]), at


def _rejected(table: Store) -> dict[Log, list[int]]:
    """Return the rejected offsets; the bytes name the run, since the topic's id is not a column."""
    found: dict[Log, list[int]] = defaultdict(list)
    if table.is_table():
        for row in queries.read(table.table()).to_pylist():
            run = row["_value"].decode().split()[1]
            found[(run, row["_partition"])].append(row["_offset"])
    return found


def _gone(table: Store) -> dict[Log, list[tuple[int, float]]]:
    found: dict[Log, list[tuple[int, float]]] = defaultdict(list)
    if table.is_table():
        for row in queries.read(table.table()).to_pylist():
            until = float("inf") if row["until"] is None else row["until"]
            found[(row["_topic_id"], row["_partition"])].append((row["first"], until))
    return found
