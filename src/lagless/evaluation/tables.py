"""Tables from the grid's rows: CBS, E(Rscore) and the rest per algorithm and stream."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from lagless.evaluation.experiments import PAPER
from lagless.packing import scores


@dataclass(frozen=True, slots=True)
class Score:
    """An algorithm's means over a stream's measurements; `seconds` is that of one packing."""

    algorithm: str
    delta: float
    start: str
    seed: int
    partitions: int
    cbs: float
    rscore: float
    consumers: float
    migrations: float
    seconds: float


def score(rows: Any, reference: Sequence[str] = PAPER) -> list[Score]:
    """Score every algorithm on every stream of the grid.

    The paper's algorithms are compared among themselves in CBS, and any other with them and
    itself, so that an algorithm that joins does not change the scores of the rest.
    """
    columns = {name: rows.column(name).to_numpy() for name in rows.column_names}
    found: list[Score] = []
    for stream, cells in _streams(columns).items():
        counts = {name: columns["consumers"][where].tolist() for name, where in cells.items()}
        common = {name: counts[name] for name in counts if name in reference}
        shared = scores.cbs(common)
        for name, where in cells.items():
            cbs = (
                shared[name] if name in shared else scores.cbs({**common, name: counts[name]})[name]
            )
            means = {
                key: float(columns[key][where].mean())
                for key in ("rscore", "consumers", "migrations", "seconds")
            }
            delta, start, seed, size = stream
            found.append(Score(name, delta, start, seed, size, cbs=cbs, **means))
    return found


def _streams(columns: Mapping[str, Any]) -> dict[tuple[Any, ...], dict[str, slice]]:
    """Find each cell's slice of the rows, which are sorted by cell."""
    keys = list(
        zip(
            *(
                columns[key].tolist()
                for key in ("algorithm", "parameters", "delta", "start", "seed", "partitions")
            ),
            strict=True,
        )
    )
    found: dict[tuple[Any, ...], dict[str, slice]] = {}
    begin = 0
    for end in range(1, len(keys) + 1):
        if end == len(keys) or keys[end] != keys[begin]:
            algorithm, parameters, *stream = keys[begin]
            name = f"{algorithm}:{parameters}" if parameters else algorithm
            found.setdefault(tuple(stream), {})[name] = slice(begin, end)
            begin = end
    return found


def mean(
    found: Iterable[Score], key: str, starts: Sequence[str] = ("random",)
) -> dict[float, dict[str, float]]:
    """Average one column over seeds and the given starts: δ → algorithm → value."""
    gathered: dict[float, dict[str, list[float]]] = {}
    for one in found:
        if one.start in starts:
            by_name = gathered.setdefault(one.delta, {})
            by_name.setdefault(one.algorithm, []).append(getattr(one, key))
    return {
        delta: {name: float(np.mean(values)) for name, values in by_name.items()}
        for delta, by_name in sorted(gathered.items())
    }


def write(path: Path, rows: Sequence[Any]) -> None:
    """Write dataclasses of one kind as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(rows[0]))
        writer.writerows(astuple(row) for row in rows)
