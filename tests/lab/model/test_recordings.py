"""Stream files: what is written is read again, and what is wrong is found."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lagless.errors import WrongInput
from lagless.lab.model import streams


@pytest.mark.parametrize("name", ["stream.csv", "stream.parquet", "stream.txt"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    stream = streams.generate("random", 5, 7, 11, 1e7 / 3, np.random.default_rng(1))
    named = streams.Stream(("a,b", 'say "hi"', "ö", "x y", "5", "orders:1", "-"), stream.speeds)
    streams.write(named, tmp_path / name)
    again = streams.read(tmp_path / name)
    assert again.partitions == named.partitions
    assert np.array_equal(again.speeds, named.speeds)
    assert again.measurements == 11


def test_a_file_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stream.csv"
    path.write_bytes(b'\xef\xbb\xbf"a","b"\r\n1, 2.5e3\r\n0,7\r\n\r\n')
    stream = streams.read(path)
    assert stream.partitions == ("a", "b")
    assert stream.speeds.tolist() == [[1, 2500], [0, 7]]


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "line 1", "empty"),
        ("\n", "line 1", "empty"),
        ("a,b\n", "line 2", "no measurements"),
        ("a,b\n1,2\n3\n", "line 3, column 2", "1 values where the header names 2"),
        ("a,b\n1,2,3\n", "line 2, column 3", "3 values where the header names 2"),
        ("a,b\n1,x\n", r"line 2, column 2 \(b\)", '"x" is not a number'),
        ("a,b\n1,\n", r"line 2, column 2 \(b\)", '"" is not a number'),
        ("a,b\n1,1_0\n", r"line 2, column 2 \(b\)", '"1_0" cannot be'),
        ("a,b\nnan,2\n", r"line 2, column 1 \(a\)", '"nan" cannot be'),
        ("a,b\n1,2\n1,-inf\n", r"line 3, column 2 \(b\)", '"-inf" cannot be'),
        ("a,b\n1,2\n1,-0.5\n", r"line 3, column 2 \(b\)", '"-0.5" cannot be'),
        ("a,b,a\n1,2,3\n", "line 1, column 3", "already names column 1"),
        ("a,,c\n1,2,3\n", "line 1, column 2", "no name"),
        ("a,b\n1,2\n\n3,4\n", "line 3", "empty in the middle"),
        ('a,b\n1,"2\n', "line 2", "not CSV"),
    ],
)
def test_a_bad_csv_is_named_by_line_and_column(
    tmp_path: Path, text: str, where: str, what: str
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(WrongInput, match=f"bad.csv: {where}: .*{what}"):
        streams.read(path)


def test_other_bytes_are_no_stream(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(WrongInput, match="not UTF-8"):
        streams.read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"gone\.csv does not exist"):
        streams.read(tmp_path / "gone.csv")


@pytest.mark.parametrize(
    ("columns", "where", "what"),
    [
        ({"a": [1.0, None]}, r"line 2, column 1 \(a\)", "None cannot be"),
        ({"a": [1.0], "b": [float("nan")]}, r"line 1, column 2 \(b\)", "nan cannot be"),
        ({"a": [1, 2], "b": [3, -4]}, r"line 2, column 2 \(b\)", "-4 cannot be"),
        ({"a": ["x"]}, r"line 1, column 1 \(a\)", "type is string"),
        ({"a": pa.array([], pa.float64())}, "line 2", "no measurements"),
        ({}, "line 1", "empty"),
    ],
)
def test_a_bad_parquet_is_named_by_line_and_column(
    tmp_path: Path, columns: dict[str, object], where: str, what: str
) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(WrongInput, match=f"bad.parquet: {where}: .*{what}"):
        streams.read(path)


def test_duplicate_columns_in_parquet_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]), path)
    with pytest.raises(WrongInput, match=r"line 1, column 2: .*already names column 1"):
        streams.read(path)


def test_text_is_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(WrongInput, match="cannot be read as Parquet"):
        streams.read(path)
