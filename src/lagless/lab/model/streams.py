"""Streams of measurements: drawn as in the paper's "Test Data Generation", or read from a file.

A stream file is CSV or Parquet, with a column per partition and a row per measurement.
"""

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lagless import extras
from lagless.errors import WrongInput

Floats: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[np.int64]
Start: TypeAlias = Literal["random", "zero", "half", "full"]
Clamp: TypeAlias = Literal["capacity", "none"]

STARTS: tuple[Start, ...] = get_args(Start)
CLAMPS: tuple[Clamp, ...] = get_args(Clamp)
DELTAS = (0.0, 5.0, 10.0, 15.0, 20.0, 25.0)


@dataclass(frozen=True, slots=True)
class Stream:
    """A sequence of measurements: one row each, in bytes/s, and one column per partition."""

    partitions: tuple[str, ...]
    speeds: Floats

    @property
    def measurements(self) -> int:
        """Count the rows."""
        return int(self.speeds.shape[0])


def first(start: Start, partitions: int, capacity: float, rng: np.random.Generator) -> Floats:
    """Return the first measurement: uniform in [0, C], or 0, C/2 or C for every partition."""
    if start not in STARTS:
        raise WrongInput(f'unknown start "{start}": choose from {", ".join(STARTS)}')
    if start == "random":
        return rng.uniform(0.0, capacity, partitions)
    return np.full(partitions, {"zero": 0.0, "half": capacity / 2, "full": capacity}[start])


def speeds(
    start: Start,
    delta: float,
    partitions: int,
    measurements: int,
    capacity: float,
    rng: np.random.Generator,
    clamp: Clamp = "capacity",
) -> Floats:
    """Draw a stream's speeds: s += φ(δ)/100·C from one measurement to the next.

    They stay within [0, C] as in the published tables; with clamp "none" they are only kept from
    falling below 0, as in the paper's formula.
    """
    if partitions < 1 or measurements < 1:
        raise WrongInput(
            f"a stream has at least one partition and one measurement, not {partitions} partitions"
            f" and {measurements} measurements"
        )
    if not 0 <= delta < math.inf:
        raise WrongInput(f"δ is a percentage of the capacity, 0 or more, not {delta:g}")
    if not 0 < capacity < math.inf:
        raise WrongInput(f"the capacity is a number of bytes/s above 0, not {capacity:g}")
    if clamp not in CLAMPS:
        raise WrongInput(f'unknown clamp "{clamp}": choose from {", ".join(CLAMPS)}')
    drawn = np.empty((measurements, partitions))
    drawn[0] = first(start, partitions, capacity, rng)
    top = capacity if clamp == "capacity" else np.inf
    for k in range(1, measurements):
        step = rng.uniform(-delta, delta, partitions) * (capacity / 100)
        np.clip(drawn[k - 1] + step, 0.0, top, out=drawn[k])
    return drawn


def generate(start: Start, delta: float, partitions: int, *how: Any) -> Stream:
    """Draw a stream whose partitions are named p0, p1, and so on; `how` as in `speeds`."""
    drawn = speeds(start, delta, partitions, *how)
    return Stream(tuple(f"p{j}" for j in range(partitions)), drawn)


LARGEST = 200_000_000
"""Values of a Parquet file, which may stand compressed in a few bytes."""
PARQUET = {".parquet", ".pq"}
RIGHT = "a speed is a number of bytes/s, 0 or more"


def read(path: Path) -> Stream:
    """Read a stream; what is wrong with the file is named by line and column."""
    if not path.is_file():
        raise WrongInput(f"stream file {path} does not exist")
    names, speeds = (_read_parquet if path.suffix.lower() in PARQUET else _read_csv)(path)
    if not len(speeds):
        _fail(path, "line 2", "there are no measurements: each line after the header is one")
    return Stream(names, speeds)


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


def _read_csv(path: Path) -> tuple[tuple[str, ...], Floats]:
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
        _fail(path, f"line {reader.line_num}", f"it is not CSV ({error})")
    except UnicodeDecodeError:
        raise WrongInput(f"{path} is not UTF-8 text: a stream file is CSV or Parquet") from None
    return names, np.array(rows, dtype=np.float64)


def _row(path: Path, line: int, names: tuple[str, ...], cells: list[str]) -> list[float]:
    if len(cells) != len(names):
        where = f"line {line}, column {min(len(cells), len(names)) + 1}"
        words = f"the row has {len(cells)} values where the header names {len(names)} partitions"
        _fail(path, where, words)
    row = []
    for number, (name, cell) in enumerate(zip(names, cells, strict=True), 1):
        try:
            # Python also reads 1_000 as a number; in a file it is a mistake.
            row.append(math.nan if "_" in cell else float(cell))
            trouble = "" if 0 <= row[-1] < math.inf else "cannot be"
        except ValueError:
            trouble = "is not a number"
        if trouble:
            _fail(path, f"line {line}, column {number} ({name})", f'"{cell}" {trouble}: {RIGHT}')
    return row


def _read_parquet(path: Path) -> tuple[tuple[str, ...], Floats]:
    with extras.needed("evaluation"):
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow.types import is_decimal, is_floating, is_integer
    try:
        file = pq.ParquetFile(path)
        size = file.metadata.num_rows * max(1, file.metadata.num_columns)
        if size > LARGEST:
            raise WrongInput(f"{path} has {size} values, and a stream has at most {LARGEST}")
        table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise WrongInput(f"{path} cannot be read as Parquet: {error}") from None
    names = _names(path, table.column_names)
    columns = []
    for number, (name, column) in enumerate(zip(names, table.columns, strict=True), 1):
        where = f"column {number} ({name})"
        if not any(is_kind(column.type) for is_kind in (is_integer, is_floating, is_decimal)):
            _fail(path, f"line 1, {where}", f"its type is {column.type}: {RIGHT}")
        try:
            speeds = np.array(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
        except pa.ArrowException as error:
            _fail(path, f"line 1, {where}", f"it cannot be read ({error}): {RIGHT}")
        wrong = ~(np.isfinite(speeds) & (speeds >= 0))
        if wrong.any():
            row = int(wrong.argmax())
            _fail(path, f"line {row + 1}, {where}", f"{column[row].as_py()} cannot be: {RIGHT}")
        columns.append(speeds)
    return names, np.column_stack(columns)


def _names(path: Path, header: list[str]) -> tuple[str, ...]:
    if not header:
        _fail(path, "line 1", "it is empty: the first line names the partitions")
    seen: dict[str, int] = {}
    for number, name in enumerate(header, 1):
        if not name.strip():
            _fail(path, f"line 1, column {number}", "the partition has no name")
        if seen.setdefault(name, number) != number:
            words = f'"{name}" already names column {seen[name]}: each partition has one column'
            _fail(path, f"line 1, column {number}", words)
    return tuple(header)


def _fail(path: Path, where: str, sentence: str) -> NoReturn:
    raise WrongInput(f"{path}: {where}: {sentence}")
