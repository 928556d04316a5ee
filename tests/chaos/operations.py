"""Pauses, drains and resets in the middle of a fault run, and an account of what they asked for.

A reset moves a partition's offset in the log of its table. So the log says how often each record
should be in the table: once for every time that the offset passed it, and not at all where a
reset skipped it or removed its row. The rows have to say the same.
"""

import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lagless.adapters.lake.store import Store
from lagless.errors import TryAgain
from lagless.operations import reset
from lagless.settings import Settings

KINDS = ("pause", "drain", "reset")
BACK = 2_000
"""Offsets at most that a reset goes back."""
TRIES = 4
"""How often a command is tried, of which any may meet a controller that was just killed."""
Offsets = NDArray[np.int64]


class Operations:
    """Commands of an operator, each by the command line, against a group that runs."""

    def __init__(
        self,
        config: Path,
        topics: Mapping[str, int],
        dice: np.random.Generator,
        arrived: Callable[[], int],
    ) -> None:
        self._config = config
        self._topics = topics
        self._dice = dice
        self._arrived = arrived
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self.read_while_paused = 0

    def carry_out(self, kind: str, meanwhile: Callable[[], object]) -> str:
        """Carry one out, with a fault in the middle of it, and return what was done."""
        if kind == "reset":
            return self._reset()
        if self._command(kind, "--wait", "60") is None:
            return f"{kind} failed"
        before = self._arrived()
        meanwhile()
        time.sleep(3)
        self.read_while_paused += self._arrived() - before
        self._command("resume")
        self.done[kind] += 1
        return kind

    def report(self, lake: Store, produced: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
        """Return the fields of a fault run's report."""
        return {
            **audit(lake, produced),
            "operations": dict(self.done),
            "failed_operations": self.failed,
            "read_while_paused": self.read_while_paused,
        }

    def _reset(self) -> str:
        topic = sorted(self._topics)[int(self._dice.integers(len(self._topics)))]
        count = self._topics[topic]
        chosen = int(self._dice.integers(count))
        words = ["--topic", topic, "--partitions", str(chosen)]
        plan = self._command("reset", *words, "--to", "latest", "--dry-run", "--json")
        if plan is None:
            return "reset failed"
        move = json.loads(plan)["partitions"][str(chosen)]
        rows = ("keep", "remove")[int(self._dice.integers(2))]
        to = "latest"
        if move["before"] is not None and self._dice.random() < 0.8:
            to = str(max(0, move["before"] - int(self._dice.integers(1, BACK))))
        if self._command("reset", *words, "--to", to, "--rows", rows) is None:
            return "reset failed"
        self.done[f"reset-{rows}"] += 1
        return f"reset of {topic}:{chosen} to {to}, rows {rows}"

    def _command(self, *words: str) -> str | None:
        """Run a command until it succeeds, and return what it printed."""
        command = [sys.executable, "-m", "lagless", *words, "--config", str(self._config)]
        for attempt in range(TRIES):
            done = subprocess.run(command, capture_output=True, text=True, timeout=180)
            if done.returncode == 0:
                return done.stdout
            print(f"{' '.join(words)}: {done.stderr.strip()}", file=sys.stderr, flush=True)
            time.sleep(2 * attempt)
        self.failed.append(f"{words[0]}: {done.stderr.strip()[-300:]}")
        return None


@dataclass(slots=True)
class Expected:
    """How often each offset of a partition should be in its table, as far as the log has come."""

    at: int = 0
    times: Offsets = field(default_factory=lambda: np.zeros(0, np.int64))
    skipped: Offsets = field(default_factory=lambda: np.zeros(0, np.int64))
    """Offsets that a reset has skipped, and that nothing has read since."""
    resets: list[int] = field(default_factory=list)
    """The versions at which the partition was reset."""
    backwards: int = 0
    """How often the offset went back though nobody reset it."""

    def read(self, until: int) -> None:
        """Note a cycle that read up to an offset."""
        self._grow(until)
        self.backwards += until < self.at
        self.times[self.at : until] += 1
        self.skipped[self.at : until] = 0
        self.at = max(self.at, until)

    def reset(self, version: int, to: int, removed: bool) -> None:
        """Note a reset."""
        self._grow(max(self.at, to))
        if removed:
            self.times[to:] = 0
        self.skipped[self.at : to] = np.where(self.times[self.at : to] == 0, 1, 0)
        self.resets.append(version)
        self.at = to

    def _grow(self, size: int) -> None:
        missing = size - len(self.times)
        if missing > 0:
            self.times = np.append(self.times, np.zeros(missing, np.int64))
            self.skipped = np.append(self.skipped, np.zeros(missing, np.int64))


def follow(log: Iterator[tuple[int, Mapping[str, int]]]) -> dict[int, Expected]:
    """Follow the app transactions of one topic's table, and return what each partition expects."""
    found: dict[int, Expected] = defaultdict(Expected)
    for version, ids in log:
        for name, offset in ids.items():
            if name.count("/") != 3:
                continue
            expected = found[int(name.rpartition("/")[2])]
            if f"{name}/reset" in ids:
                expected.reset(version, offset, f"{name}/void" in ids)
            else:
                expected.read(offset)
    return dict(found)


def transactions(table: Store) -> Iterator[tuple[int, Mapping[str, int]]]:
    """Yield the versions of a table with their app transactions."""
    log = table.inside("_delta_log")
    for name in sorted(file.name for file in log.files() if file.name.endswith(".json")):
        actions = [json.loads(line) for line in log.read(name).splitlines() if line.strip()]
        ids = [action["txn"] for action in actions if "txn" in action]
        yield int(name[:20]), {entry["appId"]: entry["version"] for entry in ids}


@dataclass(slots=True)
class Rows:
    """The rows of a partition."""

    listed: list[Offsets] = field(default_factory=list)
    """Offsets in the files that the table has now."""
    written: dict[int, list[Offsets]] = field(default_factory=lambda: defaultdict(list))
    """Offsets by the version that first added them, those that a reset removed included."""


def audit(lake: Store, produced: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """Compare the rows with what the tables' logs say, and with what was produced."""
    found = Counter(lost=0, duplicated=0, out_of_order=0, landed=0, asked_again=0, skipped=0)
    for topic, counts in produced.items():
        table = lake.inside(topic)
        expected = follow(transactions(table))
        rows = _rows(table)
        for number, count in counts.items():
            found.update(judge(expected.get(number, Expected()), rows.get(number, Rows()), count))
    return {"produced": sum(sum(c.values()) for c in produced.values()), **found}


def judge(expected: Expected, rows: Rows, produced: int) -> dict[str, int]:
    """Judge one partition, of which so many records were produced."""
    offsets = np.concatenate([np.zeros(0, np.int64), *rows.listed])
    size = max(produced, len(expected.times), int(offsets.max(initial=-1)) + 1)
    times, skipped = (np.zeros(size, np.int64) for _ in range(2))
    times[: len(expected.times)] = expected.times
    skipped[: len(expected.skipped)] = expected.skipped
    there = np.bincount(offsets, minlength=size)
    wanted = np.arange(size) < produced
    return {
        "landed": int((there[wanted] > 0).sum()),
        "lost": int((np.maximum(times, 1 - skipped) - there)[wanted].clip(0).sum()),
        "duplicated": int((there - times).clip(0).sum()),
        "asked_again": int((times - 1).clip(0).sum()),
        "skipped": int(((skipped > 0) & (there == 0) & wanted).sum()),
        "out_of_order": expected.backwards + _out_of_order(rows.written, expected.resets),
    }


def _out_of_order(written: Mapping[int, list[Offsets]], resets: list[int]) -> int:
    """Count rows that do not follow all those written before them since the last reset."""
    wrong = 0
    highest, epoch = -1, 0
    for version in sorted(written):
        since = sum(reset < version for reset in resets)
        if since != epoch:
            highest, epoch = -1, since
        for offsets in written[version]:
            before = np.maximum.accumulate(np.append(highest, offsets))
            wrong += int((offsets <= before[:-1]).sum())
            highest = int(before[-1])
    return wrong


def _rows(table: Store) -> dict[int, Rows]:
    """Read the rows of every file that the log has named, whether it is still listed or not."""
    found: dict[int, Rows] = defaultdict(Rows)
    listed = {uri.rpartition("/")[2] for uri in table.table().file_uris()}
    log = table.inside("_delta_log")
    for entry in sorted(file.name for file in log.files() if file.name.endswith(".json")):
        actions = [json.loads(line) for line in log.read(entry).splitlines() if line.strip()]
        # Where rows are deleted, the others move to new files: they were written before.
        moves = any("remove" in action for action in actions)
        for path in (action["add"]["path"] for action in actions if "add" in action):
            with table.open(path) as source:
                rows = pq.read_table(source, columns=["_partition", "_offset"])
            partition, offset = (rows[it].to_numpy().astype(np.int64) for it in rows.column_names)
            for number in np.unique(partition):
                own = np.sort(offset[partition == number])
                if not moves:
                    found[int(number)].written[int(entry[:20])].append(own)
                if path in listed:
                    found[int(number)].listed.append(own)
    return found


def caught_up(settings: Settings, produced: Mapping[str, Mapping[int, int]]) -> bool:
    """Return whether every partition has been read to its end."""
    for topic, counts in produced.items():
        try:
            with reset.of(settings, topic) as found:
                moves = found.plan("latest")
        except TryAgain:
            return False
        if {p.partition: move.before for p, move in moves.items()} != dict(counts):
            return False
    return True
