"""Recorded streams in files: CSV or Parquet, a column per partition and a row per measurement."""

import csv
import math
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from lagless import extras
from lagless.errors import WrongInput
from lagless.simulation.streams import Floats, Stream

PARQUET = {".parquet", ".pq"}
RIGHT = "a speed is a number of bytes/s, 0 or more"


def read(path: Path) -> Stream:
    """Read a stream; what is wrong with the file is named by line and column."""
    if not path.is_file():
        raise WrongInput(f"there is no stream file {path}")
    return _read_parquet(path) if path.suffix.lower() in PARQUET else _read_csv(path)


def write(stream: Stream, path: Path) -> None:
    """Write a stream as Parquet if the name ends so, else as CSV; `read` gives the same floats."""
    if path.suffix.lower() in PARQUET:
        with extras.needed("evaluation"):
            import pyarrow as pa
            import pyarrow.parquet as pq
        columns = [pa.array(column) for column in stream.speeds.T]
        pq.write_table(pa.Table.from_arrays(columns, names=list(stream.partitions)), path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(stream.partitions)
        writer.writerows(stream.speeds.tolist())


def _read_csv(path: Path) -> Stream:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = _names(path, next(reader, []))
            rows: list[list[float]] = []
            blank = 0
            for cells in reader:
                if not cells:
                    blank = blank or reader.line_num
                    continue
                if blank:
                    _fail(path, f"line {blank}", "it is empty in the middle of the stream")
                rows.append(_row(path, reader.line_num, names, cells))
    except csv.Error as error:
        _fail(path, f"line {reader.line_num}", f"it is no CSV ({error})")
    except UnicodeDecodeError:
        raise WrongInput(f"{path} is no UTF-8 text: a stream file is CSV or Parquet") from None
    return _stream(path, names, np.array(rows, dtype=np.float64))


def _row(path: Path, line: int, names: tuple[str, ...], cells: list[str]) -> list[float]:
    if len(cells) != len(names):
        column = min(len(cells), len(names)) + 1
        _fail(
            path,
            f"line {line}, column {column}",
            f"the row has {len(cells)} values where the header names {len(names)} partitions",
        )
    try:
        row = list(map(float, cells))
    except ValueError:
        row = []
    # Python also reads 1_000 as a number; in a file it is a mistake.
    if row and min(row) >= 0 and math.isfinite(sum(row)) and not any("_" in cell for cell in cells):
        return row
    for number, (name, cell) in enumerate(zip(names, cells, strict=True), 1):
        where = f"line {line}, column {number} ({name})"
        try:
            speed = math.nan if "_" in cell else float(cell)
        except ValueError:
            _fail(path, where, f'"{cell}" is no number: {RIGHT}')
        if not (math.isfinite(speed) and speed >= 0):
            _fail(path, where, f'"{cell}" cannot be: {RIGHT}')
    return row


def _read_parquet(path: Path) -> Stream:
    with extras.needed("evaluation"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise WrongInput(f"{path} cannot be read as Parquet: {error}") from None
    names = _names(path, table.column_names)
    columns = [
        _column(path, number, name, table.column(number - 1))
        for number, name in enumerate(names, 1)
    ]
    return _stream(path, names, np.column_stack(columns))


def _column(path: Path, number: int, name: str, column: Any) -> Floats:
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        _fail(path, f"line 1, column {number} ({name})", f"its type is {kind}: {RIGHT}")
    speeds = np.array(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    wrong = ~(np.isfinite(speeds) & (speeds >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        found = column[row].as_py()
        _fail(path, f"line {row + 1}, column {number} ({name})", f"{found} cannot be: {RIGHT}")
    return speeds


def _names(path: Path, header: list[str]) -> tuple[str, ...]:
    if not header:
        _fail(path, "line 1", "it is empty: the first line names the partitions")
    seen: dict[str, int] = {}
    for number, name in enumerate(header, 1):
        if not name.strip():
            _fail(path, f"line 1, column {number}", "the partition has no name")
        if name in seen:
            _fail(
                path,
                f"line 1, column {number}",
                f'"{name}" already names column {seen[name]}: each partition has one column',
            )
        seen[name] = number
    return tuple(header)


def _stream(path: Path, names: tuple[str, ...], speeds: Floats) -> Stream:
    if speeds.shape[0] == 0:
        _fail(path, "line 2", "there is no measurement: each line after the header is one")
    return Stream(names, speeds)


def _fail(path: Path, where: str, sentence: str) -> NoReturn:
    raise WrongInput(f"{path}: {where}: {sentence}")
