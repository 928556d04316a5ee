"""Observations of a part, written to a file as they come so that a run can resume, and sums."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lagless.errors import WrongInput

VERSION = 1


class Journal:
    """The file of one part: its settings, whether it is complete, and lists of observations."""

    def __init__(
        self,
        file: Path,
        part: str,
        settings: Mapping[str, Any],
        say: Callable[[str], None] = lambda _: None,
        progress: Callable[[int, int], None] = lambda *_: None,
    ) -> None:
        self.file = file
        self.say = say
        """Tell the user what begins."""
        self.progress = progress
        """Tell the user how much is done, of how much."""
        self.resumed = file.exists()
        """Whether an earlier run left observations."""
        new: dict[str, Any] = {"version": VERSION, "part": part, "settings": dict(settings)}
        self.data = read(file) if self.resumed else {**new, "complete": False}
        for name, wanted in settings.items():
            if (known := self.data["settings"].get(name)) != wanted:
                raise WrongInput(
                    f"{file} was made with {name} = {known} and not {wanted}: "
                    "name another folder, or remove the file"
                )
        self.begin()

    def begin(self) -> None:
        """Start to count the time of this run."""
        self._before = float(self.data.get("seconds", 0.0))
        self._began = time.monotonic()

    @property
    def complete(self) -> bool:
        """Whether the part has every observation that was asked for."""
        return bool(self.data["complete"])

    def all(self, key: str) -> list[Any]:
        """Return the observations under a name."""
        observations: list[Any] = self.data.setdefault(key, [])
        return observations

    def note(self, key: str, *observations: Any) -> None:
        """Add observations and save the file."""
        self.all(key).extend(observations)
        self.save()

    def finish(self, **facts: Any) -> None:
        """Mark the part as complete, with facts about it."""
        self.data.update(facts, complete=True)
        self.save()

    def save(self) -> None:
        """Write the file; a crash leaves the old one or the new one."""
        self.data["seconds"] = round(self._before + time.monotonic() - self._began, 1)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_name(f".{self.file.name}")
        draft.write_text(json.dumps(self.data, ensure_ascii=False) + "\n", "utf-8")
        draft.replace(self.file)


def read(file: Path) -> dict[str, Any]:
    """Read the file of a part."""
    try:
        data = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise WrongInput(f"{file} is not JSON ({error}): remove it to measure again") from error
    if not isinstance(data, dict) or data.get("version") != VERSION or "settings" not in data:
        raise WrongInput(f"{file} has no observations of this version: remove it to measure again")
    return data


Data = Mapping[str, Any]
"""What the file of a part holds."""
QUANTILES = {"min": 0.0, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def spread(values: Sequence[float]) -> dict[str, float | int]:
    """Return count, mean, quantiles, least and most of values; only a count of 0 for none."""
    if not len(values):
        return {"count": 0}
    found = np.asarray(values, dtype=np.float64)
    quantiles = {name: round(float(np.quantile(found, q)), 4) for name, q in QUANTILES.items()}
    return {"count": len(found), "mean": round(float(found.mean()), 4), **quantiles}


def values(rows: Iterable[Data], *keys: str, **where: Any) -> list[tuple[float, ...]]:
    """Return the values of keys, of the rows that have them all and match."""
    return [
        tuple(float(row[key]) for key in keys)
        for row in rows
        if all(row.get(key) is not None for key in keys)
        and all(row.get(name) == value for name, value in where.items())
    ]


def known(rows: Iterable[Data], key: str, **where: Any) -> list[float]:
    """Return the values of a key, of the rows that have it and match."""
    return [value for (value,) in values(rows, key, **where)]


def correlation(rows: Iterable[Data], x: str, y: str, **where: Any) -> float | None:
    """Return Pearson's correlation of two columns, or None where it is not defined."""
    columns = np.array(values(rows, x, y, **where)).T
    if columns.size < 6 or not columns.std(axis=1).all():
        return None
    return round(float(np.corrcoef(columns)[0, 1]), 3)
