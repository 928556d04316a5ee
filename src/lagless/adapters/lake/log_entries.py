"""The entries of a table's log, one by one: what they say of app transactions, and how one is made.

delta-rs lists the log and reads each new entry twice to bring a handle up to date, and once more to
commit. In a folder that costs little; in a bucket each request takes time and money. An entry has a
number, and they have no gaps: so the next one is there or it is the newest that is known.
"""

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import quote

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pydantic import BaseModel, Field, StrictInt, ValidationError

from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.store import Store
from lagless.errors import GiveUp

AT_ONCE = 32
"""Entries that are asked for at the same time, at most."""
FAR = 50
"""Entries; half of the fewest that are kept before a checkpoint (`lake.log_entries`)."""
LAST_CHECKPOINT = "_last_checkpoint"
WRITER = 2
"""The newest version of Delta's protocol for writers of which an entry here says everything."""
_TABLE = re.compile(rb'\{"(metaData|protocol)"')


class _Transaction(BaseModel):
    name: str = Field(alias="appId")
    version: StrictInt = Field(ge=-(2**63), lt=2**63)


class _Line(BaseModel):
    txn: _Transaction


class _Checkpoint(BaseModel):
    version: StrictInt = Field(ge=0, lt=2**63)


def name_of(version: int) -> str:
    """Return the name of an entry."""
    return f"{version:020}.json"


class Entries:
    """The app transactions of a log, as of at least a given version.

    delta-rs can be asked for one id at a time, and replays the log for each; with hundreds of ids
    that takes longer than a cycle. Entries that are newer than a handle do no harm: the handle's
    commit is refused. Older ones would, so after a gap everything is read again.
    """

    def __init__(self, table: Store) -> None:
        self._log = table.inside("_delta_log")
        self._version = -1
        self._versions: dict[str, int] = {}
        self._touched: dict[str, int] = {}
        self._changed = -1
        self._usual = 1

    @property
    def version(self) -> int:
        """Return the newest entry that was read; -1 before the first."""
        return self._version

    @property
    def changed(self) -> int:
        """Return the newest entry that changed the table itself, its columns or properties."""
        return self._changed

    @property
    def known(self) -> Mapping[str, int]:
        """Return every id with its newest number, as far as the log was read."""
        return self._versions

    def touched(self, names: Collection[str], after: int) -> bool:
        """Return whether an entry after this one has one of these ids, whatever its number."""
        return any(self._touched.get(name, -1) > after for name in names)

    def as_of(self, version: int) -> Mapping[str, int]:
        """Return every id with its newest number, read up to this version of the table."""
        try:
            self._read(version)
        except FileNotFoundError:
            # Shortened in between: the checkpoint has what is missing.
            self._begin()
            self._read(version)
        return self._versions

    def follow(self) -> bool:
        """Read what is newer, up to the first entry that is not there; False if that may mislead.

        Entries far before a checkpoint are deleted, and one that was deleted looks like one that
        was never written. So with a checkpoint that is FAR ahead of what is known, or ahead of what
        is found, nothing is.
        """
        began = self._version
        newest = -1
        while True:
            # As many as there were the last time, and the one behind them.
            asked = range(self._version + 1, self._version + 1 + min(self._usual + 1, AT_ONCE))
            found = self._log.read_present([LAST_CHECKPOINT, *map(name_of, asked)])
            if LAST_CHECKPOINT in found:
                newest = _parsed_checkpoint(found[LAST_CHECKPOINT], self._log)
                if newest > self._version + FAR:
                    return False
            if self._take(asked, found) < len(asked):
                break
        self._usual = max(1, self._version - began)
        return newest <= self._version

    def _begin(self) -> None:
        newest = checkpoint(self._log)
        self._versions = {}
        self._touched = {}
        self._version = -1
        if newest is None:
            return
        prefix = f"{newest:020}.checkpoint"
        names = [file.name for file in self._log.files() if file.name.startswith(prefix)]
        parts = [name for name in names if name.endswith(".parquet")]
        if not parts:
            raise FileNotFoundError(f"{self._log.uri}: there is no checkpoint {newest}")
        for part in parts:
            with self._log.open(part) as source:
                transactions = pq.read_table(source, columns=["txn"])["txn"].to_pylist()
            for txn in transactions:
                if txn is not None and txn["appId"] is not None:
                    self._versions[txn["appId"]] = txn["version"]
        # Any entry before it may have been the one.
        self._touched = dict.fromkeys(self._versions, newest)
        self._changed = newest
        self._version = newest

    def _read(self, version: int) -> None:
        if self._version < 0:
            self._begin()
        while self._version < version:
            wanted = range(self._version + 1, min(version, self._version + AT_ONCE) + 1)
            found = self._log.read_present([name_of(number) for number in wanted])
            if self._take(wanted, found) < len(wanted):
                raise FileNotFoundError(
                    f"{self._log.uri}/{name_of(self._version + 1)}: there is no such entry"
                )

    def _take(self, numbers: Sequence[int], found: Mapping[str, bytes]) -> int:
        """Take entries in up to the first that is not there, and return how many."""
        for count, version in enumerate(numbers):
            if (name := name_of(version)) not in found:
                return count
            self._learn(version, found[name])
        return len(numbers)

    def _learn(self, version: int, content: bytes) -> None:
        transactions: dict[str, int] = {}
        for number, line in enumerate(content.splitlines(), 1):
            if line.startswith(b'{"txn"'):
                place = f"{self._log.uri}/{name_of(version)}, line {number}"
                transaction = _parsed(line, place)
                transactions[transaction.name] = transaction.version
            elif _TABLE.match(line):
                self._changed = version
        self._versions |= transactions
        self._touched |= dict.fromkeys(transactions, version)
        self._version = version


def _parsed(line: bytes, place: str) -> _Transaction:
    try:
        return _Line.model_validate_json(line).txn
    except ValidationError as error:
        raise GiveUp(
            f"{place}: the table's log is damaged, expected an app transaction: "
            f"{error.errors()[0]['msg']}"
        ) from error


def checkpoint(log: Store) -> int | None:
    """Return the version of a log's newest checkpoint; None if it has none."""
    try:
        return _parsed_checkpoint(log.read(LAST_CHECKPOINT), log)
    except FileNotFoundError:
        return None


def _parsed_checkpoint(text: bytes, log: Store) -> int:
    try:
        return _Checkpoint.model_validate_json(text).version
    except ValidationError as error:
        raise GiveUp(
            f"{log.uri}/{LAST_CHECKPOINT}: the table's log is damaged, expected the version "
            f"of a checkpoint: {error.errors()[0]['msg']}"
        ) from error


def interval(table: DeltaTable) -> int | None:
    """Return how many entries there are from checkpoint to checkpoint.

    None if the table asks more of its writers than an entry made here obeys.
    """
    protocol = table.protocol()
    said = table.metadata().configuration.get("delta.checkpointInterval") or ""
    if protocol.min_writer_version > WRITER or protocol.writer_features or not said.isdigit():
        return None
    return int(said) or None


def content(
    files: Sequence[File], transactions: Mapping[str, int], partition_by: Sequence[str]
) -> bytes:
    """Return an entry that adds files and app transactions: Delta's protocol, "Actions"."""
    now = int(time.time() * 1000)
    said = {"mode": "Append", "partitionBy": json.dumps(list(partition_by))}
    commit = {"timestamp": now, "operation": "WRITE", "operationParameters": said}
    actions: list[dict[str, object]] = [{"commitInfo": {**commit, "engineInfo": "lagless"}}]
    # No lastUpdated: entries with one can expire.
    actions += [
        {"txn": {"appId": name, "version": version}} for name, version in transactions.items()
    ]
    for file in files:
        add = {
            "path": quote(file.name),
            "partitionValues": dict(file.values),
            "size": file.size,
            "modificationTime": now,
            "dataChange": True,
            "stats": file.statistics,
        }
        actions.append({"add": add})
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()
