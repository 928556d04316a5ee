"""A table's log as files: what delta-rs keeps to itself, and how old entries go."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

KEPT = 2000
"""Entries before the newest checkpoint that stay whatever their age."""
GRACE = 600.0
"""Seconds that an entry stays at least: a handle that is this far behind has long been lost."""


def entries(table: Path) -> Iterator[tuple[str, int]]:
    """Give every app transaction of the log, newest version of each."""
    log = table / "_delta_log"
    found: dict[str, int] = {}
    checkpoint = _checkpoint(log)
    if checkpoint is not None:
        for path in sorted(log.glob(f"{checkpoint:020}.checkpoint*.parquet")):
            for txn in pq.read_table(path, columns=["txn"])["txn"].to_pylist():
                if txn is not None and txn["appId"] is not None:
                    found[txn["appId"]] = txn["version"]
    for path in sorted(log.glob("*.json")):
        if not path.stem.isdigit() or int(path.stem) <= (-1 if checkpoint is None else checkpoint):
            continue
        for line in path.read_text().splitlines():
            action = json.loads(line) if line.strip() else {}
            if "txn" in action:
                found[action["txn"]["appId"]] = action["txn"]["version"]
    yield from found.items()


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
