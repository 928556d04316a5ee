"""Compaction beside consumers and beside itself: no row lost, none twice."""

import threading
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lagless.adapters.lake import compaction, schemas, store
from lagless.ports import Span
from lagless.settings import TopicSettings
from tests.lake.files import SCHEMA, P, claimed, offsets, table, written


def fill(path: Path, files: int, partition: int = 0) -> None:
    one = table(path)
    for number in range(files):
        one.look([P[partition]])
        file = written(path, partition, number * 3, number * 3 + 3)
        assert one.commit(
            [file], {P[partition]: Span(number * 3, number * 3 + 3)}, {P[partition]: 1}
        )


def test_small_files_become_one_and_no_row_changes(tmp_path: Path) -> None:
    claimed(tmp_path)
    fill(tmp_path, 5)
    before = DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("_offset")
    outcome = compaction.compact(store.at(tmp_path))
    assert (outcome.files_before, outcome.files_after, outcome.merged) == (5, 1, 5)
    after = DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("_offset")
    assert after.equals(before)


def test_offsets_survive_and_reading_goes_on(tmp_path: Path) -> None:
    claimed(tmp_path)
    fill(tmp_path, 3)
    one = table(tmp_path)
    at = one.look([P[0]])[P[0]]
    compaction.compact(store.at(tmp_path))
    assert one.commit([written(tmp_path, 0, 9, 10)], {P[0]: Span(at.offset, 10)}, {P[0]: 1})
    assert offsets(tmp_path) == list(range(10))


def test_two_compactions_from_one_snapshot_leave_every_row_once(tmp_path: Path) -> None:
    claimed(tmp_path)
    fill(tmp_path, 4)

    def another() -> None:
        compaction.compact(store.at(tmp_path))

    outcome = compaction.compact(store.at(tmp_path), between=another)
    assert outcome.contested == 1
    assert offsets(tmp_path) == list(range(12))


def test_three_compactions_beside_four_writers(tmp_path: Path) -> None:
    claimed(tmp_path, 1, (0, 1, 2, 3))
    writers = [threading.Thread(target=fill, args=(tmp_path, 12, p)) for p in range(4)]
    done = threading.Event()
    merged: list[int] = []

    def compactor() -> None:
        while not done.is_set():
            merged.append(compaction.compact(store.at(tmp_path)).merged)

    compactors = [threading.Thread(target=compactor) for _ in range(3)]
    for thread in (*writers, *compactors):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in compactors:
        thread.join()
    assert sum(merged) > 0
    for partition in range(4):
        assert offsets(tmp_path, partition) == list(range(36))


def test_columns_that_joined_later_are_null_before(tmp_path: Path) -> None:
    one = claimed(tmp_path)
    wider = pa.schema([*SCHEMA, ("new", pa.int64())])
    assert one.commit([written(tmp_path, 0, 0, 2)], {P[0]: Span(0, 2)}, {P[0]: 1})
    file = written(tmp_path, 0, 2, 4, wider)
    schemas.fit(one, wider, TopicSettings(evolve=True))
    assert one.commit([file], {P[0]: Span(2, 4)}, {P[0]: 1})
    assert compaction.compact(store.at(tmp_path)).files_after == 1
    assert DeltaTable(str(tmp_path)).to_pyarrow_table()["new"].null_count == 4
    assert offsets(tmp_path) == [0, 1, 2, 3]


def test_files_that_are_not_yet_committed_are_left_alone(tmp_path: Path) -> None:
    one = claimed(tmp_path)
    fill(tmp_path, 2)
    one.look([P[0]])
    file = written(tmp_path, 0, 6, 9)
    compaction.compact(store.at(tmp_path))
    assert one.commit([file], {P[0]: Span(6, 9)}, {P[0]: 1})
    assert offsets(tmp_path) == list(range(9))


def test_a_retention_below_a_day_is_refused(tmp_path: Path) -> None:
    claimed(tmp_path)
    with pytest.raises(ValueError, match="younger than a day"):
        compaction.compact(store.at(tmp_path), retention=timedelta(hours=1))
