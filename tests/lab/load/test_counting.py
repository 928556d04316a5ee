"""Counting the lake: what is wrong is found, whatever compaction and the log's shortening do."""

import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lagless.adapters.lake import compaction, delta, store
from lagless.lab.load import counting
from lagless.lab.load.counting import Count

ROWS = 4
"""Rows of a commit."""


def commit(lake: Path, offsets: list[int], seqs: list[int] | None = None) -> None:
    """Add a file with these offsets, whose records are numbered as their offsets or as said."""
    rows = {
        "_partition": pa.array([0] * len(offsets), pa.int32()),
        "_offset": pa.array(offsets, pa.int64()),
        "_timestamp": pa.array([datetime.now(UTC)] * len(offsets), pa.timestamp("us", "UTC")),
        "seq": pa.array(offsets if seqs is None else seqs, pa.int64()),
    }
    write_deltalake(str(lake / "orders"), pa.table(rows), mode="append")


def count(lake: Path, produced: int) -> Count:
    return counting.count(lake, {"orders": "orders"}, {"orders": {0: produced}})


def filled(lake: Path, commits: int) -> int:
    """Commit so many files one after the other, and return how many rows they have."""
    for first in range(0, commits * ROWS, ROWS):
        commit(lake, list(range(first, first + ROWS)))
    return commits * ROWS


def faults(found: Count) -> tuple[int, int, int]:
    return found.lost, found.duplicated, found.out_of_order


def test_all_rows_in_order(tmp_path: Path) -> None:
    produced = filled(tmp_path, 5)
    found = count(tmp_path, produced)
    assert (found.landed, *faults(found)) == (produced, 0, 0, 0)
    delay = found.delay(1.0)
    assert delay is not None
    assert 0 <= delay < 60


def test_lost_doubled_and_late_rows_are_found(tmp_path: Path) -> None:
    commit(tmp_path, [0, 1, 2])
    commit(tmp_path, [6, 7])
    commit(tmp_path, [4, 5])  # later than 6 and 7
    commit(tmp_path, [8, 8])
    found = count(tmp_path, 9)
    # The second 8 came with the first, and its number does not grow.
    assert faults(found) == (1, 1, 3)


def test_a_number_that_does_not_grow_with_the_offset_is_found(tmp_path: Path) -> None:
    commit(tmp_path, [0, 1, 2, 3], [0, 2, 1, 3])
    assert faults(count(tmp_path, 4)) == (0, 0, 1)


def test_what_compaction_merged_is_neither_late_nor_delayed(tmp_path: Path) -> None:
    produced = filled(tmp_path, 4)

    def another() -> None:
        commit(tmp_path, list(range(produced, produced + ROWS)))

    # The merger has the first rows, and a later commit than the last ones.
    outcome = compaction.compact(store.at(tmp_path / "orders"), between=another)
    assert outcome.merged == 4
    found = count(tmp_path, produced + ROWS)
    assert (found.landed, *faults(found)) == (produced + ROWS, 0, 0, 0)
    assert sum(map(len, found.delays)) == ROWS


def test_a_row_that_compaction_would_double_is_found(tmp_path: Path) -> None:
    produced = filled(tmp_path, 4)
    commit(tmp_path, [2])
    compaction.compact(store.at(tmp_path / "orders"))
    assert faults(count(tmp_path, produced)) == (0, 1, 1)


def test_files_whose_entries_of_the_log_are_gone_count_all_the_same(tmp_path: Path) -> None:
    produced = filled(tmp_path, 6)
    before = count(tmp_path, produced)
    DeltaTable(str(tmp_path / "orders")).create_checkpoint()
    time.sleep(0.01)
    assert delta.shorten(store.at(tmp_path / "orders"), kept=0, grace=0) == 5
    found = count(tmp_path, produced)
    assert (found.landed, *faults(found)) == (produced, 0, 0, 0)
    assert sum(map(len, found.delays)) == sum(map(len, before.delays)) == produced


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12))
def test_rows_that_came_after_a_later_offset_are_out_of_order(firsts: list[int]) -> None:
    """Each commit is one row; numbers are as offsets, so only commits can be wrong."""
    offsets = np.array(firsts, np.int64)
    versions = np.arange(len(firsts))
    found = counting._out_of_order(versions, offsets, offsets)
    assert found == sum(first <= max(firsts[:n], default=-1) for n, first in enumerate(firsts))
    shuffled = np.random.default_rng(len(firsts)).permutation(len(firsts))
    assert found == counting._out_of_order(versions[shuffled], offsets[shuffled], offsets[shuffled])
