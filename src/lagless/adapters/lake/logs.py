"""A table's log as files: what delta-rs keeps to itself, and how old entries go."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

KEPT = 1000
"""Entries before the newest checkpoint that stay whatever their age, unless settings say more."""
GRACE = 120.0
"""Seconds that an entry stays at least, for handles and readers that are just on their way."""


class Entries:
    """The app transactions of a log, as of at least a given version.

    delta-rs can be asked for one id at a time, and replays the log for each; with hundreds of ids
    that takes longer than a cycle. Entries that are newer than a handle do no harm: the handle's
    commit is refused. Older ones would, so a gap means to read everything again.
    """

    def __init__(self, table: Path) -> None:
        self._log = table / "_delta_log"
        self._version = -1
        self._found: dict[str, int] = {}

    def __getitem__(self, name: str) -> int | None:
        return self._found.get(name)

    def items(self) -> Iterator[tuple[str, int]]:
        """Give every id with its newest version."""
        yield from self._found.items()

    def read_to(self, version: int) -> None:
        """Read what came until this version of the table; OSError where it cannot be read."""
        try:
            self._follow(version)
        except FileNotFoundError:
            # Shortened in between: the checkpoint has what is missing.
            self._begin()
            self._follow(version)

    def _begin(self) -> None:
        checkpoint = _checkpoint(self._log)
        self._found = {}
        self._version = -1
        if checkpoint is None:
            return
        parts = sorted(self._log.glob(f"{checkpoint:020}.checkpoint*.parquet"))
        if not parts:
            raise FileNotFoundError(f"{self._log}: the checkpoint {checkpoint} is not there")
        for part in parts:
            for txn in pq.read_table(part, columns=["txn"])["txn"].to_pylist():
                if txn is not None and txn["appId"] is not None:
                    self._found[txn["appId"]] = txn["version"]
        self._version = checkpoint

    def _follow(self, version: int) -> None:
        if self._version < 0:
            self._begin()
        while self._version < version:
            text = (self._log / f"{self._version + 1:020}.json").read_text()
            for line in text.splitlines():
                if line.startswith('{"txn"'):
                    action = json.loads(line)["txn"]
                    self._found[action["appId"]] = action["version"]
            self._version += 1


def shorten(table: Path, kept: int = KEPT, grace: float = GRACE) -> int:
    """Delete entries far before the newest checkpoint, and count them.

    Each commit lists the log: with tens of thousands of old entries that alone takes longer than
    the commit. Time travel reaches back as far as the entries do.
    """
    log = table / "_delta_log"
    checkpoint = _checkpoint(log)
    if checkpoint is None:
        return 0
    oldest = checkpoint - kept
    before = time.time() - grace
    gone = 0
    for path in log.iterdir():
        number = path.name[:20]
        if not number.isdigit() or int(number) >= oldest:
            continue
        try:
            if path.stat().st_mtime < before:
                path.unlink()
                gone += 1
        except FileNotFoundError:
            continue  # another consumer shortens too
    return gone


def _checkpoint(log: Path) -> int | None:
    try:
        return int(json.loads((log / "_last_checkpoint").read_text())["version"])
    except FileNotFoundError:
        return None
