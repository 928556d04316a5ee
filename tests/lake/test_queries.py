"""Reading a table's rows by conditions in SQL."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lagless.adapters.lake import queries

SOURCE = Path(queries.__file__).parents[2]
REASONS = ["plain", "it's quoted", 'a "double" one', "back\\slash", "new\nline", "§ ü", "", None]
ODD = 'odd "name"'


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    """Return a table in two partitions, with a column of each kind that is read."""
    place = str(tmp_path_factory.mktemp("lake") / "table")
    for partition in (0, 1):
        rows = {
            "_partition": pa.array([partition] * len(REASONS), pa.int32()),
            "_offset": pa.array(range(len(REASONS)), pa.int64()),
            "_reason": pa.array(REASONS, pa.string()),
            "_value": pa.array([None if r is None else r.encode() for r in REASONS], pa.binary()),
            ODD: pa.array(range(len(REASONS))),
        }
        write_deltalake(place, pa.table(rows), mode="append", partition_by=["_partition"])
    return DeltaTable(place)


def test_all_rows_come_with_the_types_that_arrow_readers_know(opened: DeltaTable) -> None:
    found = queries.read(opened)
    assert found.num_rows == 2 * len(REASONS)
    assert found.schema.field("_reason").type == pa.string()
    assert found.schema.field("_value").type == pa.binary()
    order = [("_partition", "ascending"), ("_offset", "ascending")]
    expected = opened.to_pyarrow_table().sort_by(order)
    assert found.sort_by(order).select(expected.column_names).to_pylist() == expected.to_pylist()


def test_columns_conditions_and_limits(opened: DeltaTable) -> None:
    assert queries.read(opened, ["_offset"], "_partition = 1 AND _offset < 2").to_pydict() == {
        "_offset": [0, 1]
    }
    assert queries.read(opened, [ODD], "_offset = 3 AND _partition = 0").to_pydict() == {ODD: [3]}
    assert queries.read(opened, limit=3).num_rows == 3
    assert queries.count(opened, "_offset >= 6") == 4
    assert queries.count(opened) == 2 * len(REASONS)


@given(st.one_of(st.sampled_from([r for r in REASONS if r]), st.text(min_size=1)))
def test_a_text_in_a_condition_is_only_a_text(opened: DeltaTable, text: str) -> None:
    where = f"strpos(_reason, {queries.text(text)}) > 0"
    assert queries.count(opened, where) == 2 * sum(text in r for r in REASONS if r is not None)


def test_the_newest_version_is_not_read_unless_it_is_open(tmp_path: Path) -> None:
    rows = pa.table({"n": [1]})
    write_deltalake(str(tmp_path / "t"), rows)
    old = DeltaTable(str(tmp_path / "t"))
    write_deltalake(str(tmp_path / "t"), rows, mode="append")
    assert queries.count(old) == 1
    old.update_incremental()
    assert queries.count(old) == 2


def test_nothing_reads_through_file_systems_of_python_objects() -> None:
    readers = re.compile(r"\.to_(pyarrow_(table|dataset)|pandas)\(columns|\.to_pyarrow_")
    found = [path.name for path in SOURCE.rglob("*.py") if readers.search(path.read_text())]
    assert found == []
