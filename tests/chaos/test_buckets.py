"""The faults of a bucket, met by writers that take over from each other, without Kafka or Spark."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError

from lagless.adapters.lake import store
from lagless.adapters.lake.store import Store
from lagless.errors import ClaimLost, TryAgain
from lagless.ports import Span
from lagless.settings import Bucket, StorageSettings
from tests.chaos import buckets
from tests.chaos.buckets import BucketLake
from tests.lake.files import P, claimed, offsets, written

ROWS = 3


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketLake]:
    monkeypatch.setattr(buckets, "LATE", (0.05, 0.5, 3.0))
    running = BucketLake(tmp_path, 5)
    try:
        running.start()
        yield running
    finally:
        running.stop()


class Writer(threading.Thread):
    """A consumer's end of the table: it claims a partition, and adds rows until it has lost it."""

    def __init__(self, place: Store, partition: int, generation: int, end: threading.Event) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._partition = P[partition]
        self._generation = generation
        self._end = end
        self.outcome = ""

    def run(self) -> None:
        one = None
        mine = {self._partition: self._generation}
        while not self._end.is_set():
            try:
                if one is None:
                    one = claimed(self._place, self._generation, (self._partition.partition,))
                first = one.look_owned(mine)[self._partition].offset
                until = first + ROWS
                file = written(self._place, self._partition.partition, first, until)
                one.commit([file], {self._partition: Span(first, until)}, mine)
                time.sleep(0.1)
            except ClaimLost:
                self.outcome = "lost"
                return
            except (TryAgain, OSError, DeltaError):
                time.sleep(0.05)
        self.outcome = "ended"


def wait(done: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds, or for so many seconds."""
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.05)
    return done()


@pytest.mark.s3
@pytest.mark.slow
def test_writers_that_take_over_lose_and_double_nothing_under_every_fault(lake: BucketLake) -> None:
    storage = StorageSettings(**lake.settings["storage"])
    place = store.at(Bucket(buckets.NAME, "lake/orders"), storage)
    direct = lake.store.inside("orders")
    end = threading.Event()
    steady = Writer(place, 1, 1, end)
    steady.start()
    writers: list[Writer] = []
    for generation, kind in enumerate(buckets.KINDS, start=1):
        # The one before is not told: it finds out at its next look or commit.
        writers.append(Writer(place, 0, generation, end))
        writers[-1].start()
        lake.misbehave(kind, wait)
    report = lake.calm()
    before = len(offsets(direct))
    assert wait(lambda: len(offsets(direct)) > before, 60), "the last writer does not go on"
    for writer in writers[:-1]:
        writer.join(60)
    end.set()
    for writer in (*writers, steady):
        writer.join(60)
    assert [writer.outcome for writer in writers] == ["lost"] * (len(writers) - 1) + ["ended"]
    for partition in (0, 1):
        landed = offsets(direct, partition)
        assert landed == list(range(len(landed)))
        assert len(landed) >= ROWS
    assert buckets.holes(lake.store) == 0
    met = {"lost answer", "repeated", "conflict", "slow down", "late", "slow", "expired token"}
    assert met <= report["faults"].keys()
    assert sum(report["late"].values()) == report["faults"]["late"]


def test_a_hole_in_a_log_is_counted(tmp_path: Path) -> None:
    one = claimed(tmp_path / "orders")
    for first in (0, 3, 6):
        one.look([P[0]])
        file = written(tmp_path / "orders", 0, first, first + 3)
        assert one.commit([file], {P[0]: Span(first, first + 3)}, {P[0]: 1})
    lake = store.at(tmp_path)
    assert buckets.holes(lake) == 0
    log = tmp_path / "orders" / "_delta_log"
    entries = sorted(path for path in log.iterdir() if re.fullmatch(r"\d{20}\.json", path.name))
    entries[2].unlink()
    assert buckets.holes(lake) == 1
    entries[0].unlink()  # shortened from the front, as consumers do
    assert buckets.holes(lake) == 1
