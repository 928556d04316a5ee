"""The paper's two experiments, packing scores and latency: on one stream, and over many."""

import csv
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import median_high
from typing import Any

import numpy as np

from lagless import packing
from lagless.errors import WrongInput
from lagless.lab.model import keda, latency, replay, streams
from lagless.lab.model.streams import Floats
from lagless.lab.paper import cells, gaps
from lagless.packing import scores

EXISTING = ("nf", "nfd", "ff", "ffd", "bf", "bfd", "wf", "wfd")
MODIFIED = ("mwf", "mbf", "mwfp", "mbfp")
PAPER = EXISTING + MODIFIED
KEDA = ("keda_cooperative", "keda_range")
MEANS = ("rscore", "consumers", "migrations")
"""What a replay is summed up by, beside CBS."""


def names(text: str, with_keda: bool = False) -> list[str]:
    """Split a list of algorithms and check every one before any work is done."""
    found = [name.strip() for name in text.split(",")]
    for name in found:
        if with_keda and is_keda(name):
            scaler(name)
        else:
            packing.packer(name)
    return list(dict.fromkeys(found))


def simulate(
    speeds: Floats, capacity: float, algorithms: Sequence[str], order: replay.Order, seed: int
) -> dict[str, dict[str, float]]:
    """Replay algorithms over a stream and return their means; CBS compares those listed."""
    runs = {name: replay.run(name, speeds, capacity, order, seed) for name in algorithms}
    cbs = scores.cbs({name: run.consumers.tolist() for name, run in runs.items()})
    return {
        name: {"cbs": cbs[name], **{key: float(getattr(run, key).mean()) for key in MEANS}}
        for name, run in runs.items()
    }


def waited(
    name: str, speeds: Floats, capacity: float, model: latency.Model, order: replay.Order, seed: int
) -> latency.Latency:
    """Return what a stream's bytes waited under one algorithm, or under KEDA."""
    if is_keda(name):
        return keda.run(scaler(name), model, speeds).latency
    return latency.run(model, speeds, replay.assignments(name, speeds, capacity, order, seed))


def summary(found: latency.Latency) -> dict[str, float]:
    """Reduce a distribution to the numbers that are printed; percentiles are of late bytes."""
    return {
        "consumers": found.consumers,
        "bytes": found.bytes,
        "late_bytes": found.late.total,
        **{f"p{q}": found.late.quantile(q / 100) for q in (50, 90, 99)},
        "max": found.late.max,
    }


def numbers(text: str, option: str) -> list[float]:
    """Split a list of numbers, 0 or more."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [-1.0]
    if not all(0 <= number < float("inf") for number in found):
        raise WrongInput(f"{option} takes numbers from 0 with commas between, not {text!r}")
    return list(dict.fromkeys(found))


def starts(text: str) -> list[streams.Start]:
    """Split a list of starts."""
    known = {str(start): start for start in streams.STARTS}
    names = dict.fromkeys(part.strip() for part in text.split(","))
    for name in names:
        if name not in known:
            raise WrongInput(f"--starts takes {', '.join(known)} with commas between, not {name!r}")
    return [known[name] for name in names]


def is_keda(name: str) -> bool:
    """Return whether a name is a KEDA baseline and not a packing algorithm."""
    return name.split(":")[0] in KEDA


def scaler(spec: str) -> keda.Keda:
    """Read `keda_range:threshold=10:cooldown=300` and the like."""
    name, *pairs = spec.split(":")
    known = [field.name for field in fields(keda.Keda) if field.name != "assignor"]
    values: dict[str, float] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key not in known or key in values:
            raise WrongInput(f"{spec!r} takes each of {', '.join(known)} once, not {pair!r}")
        try:
            values[key] = float(text)
        except ValueError:
            raise WrongInput(f"{key!r} of {spec!r} has to be a number, not {text!r}") from None
    return keda.Keda("range" if name == "keda_range" else "cooperative", **values)


VARIED = (5.0, 25.0)
"""The δ of the Pareto fronts, and at which the paper's silent choices are varied."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run."""

    partitions: int = 200
    measurements: int = 500
    deltas: Sequence[float] = streams.DELTAS
    starts: Sequence[streams.Start] = streams.STARTS
    seeds: int = 1
    clamp: streams.Clamp = "capacity"
    algorithms: Sequence[str] = (*PAPER, "sticky", "ezzeddine")
    latency_streams: int = 20

    @property
    def setting(self) -> cells.Setting:
        """Return what all cells have in common."""
        return cells.Setting(measurements=self.measurements, clamp=self.clamp)

    @property
    def grid(self) -> list[cells.Cell]:
        """List the grid's cells."""
        return cells.every(
            self.algorithms, self.deltas, self.starts, range(self.seeds), (self.partitions,)
        )

    @property
    def compared(self) -> list[cells.Cell]:
        """List the cells that are compared with the exact solver's bounds, where it takes part."""
        if not self._exact:
            return []
        if self.partitions > gaps.MOST_PARTITIONS:
            raise WrongInput(
                f"exact works to {gaps.MOST_PARTITIONS} partitions, not {self.partitions}: "
                "take fewer by --partitions, or leave it out of --algorithms"
            )
        return [cell for cell in self.grid if cell.start == self.starts[0]]

    @property
    def exact_seconds(self) -> float:
        """Return the seconds that the solver has for one question."""
        _, parameters = packing.algorithm((self._exact or ["exact"])[0])
        return float(parameters["seconds"])

    @property
    def _exact(self) -> list[str]:
        return [name for name in self.algorithms if name.split(":")[0] == "exact"]

    @property
    def varied(self) -> list[cells.Cell]:
        """List the cells that show what choices do that the paper leaves open."""
        return self._varied(PAPER)

    @property
    def lowest(self) -> list[cells.Cell]:
        """List the cells in which Next Fit's first consumer is the lowest number."""
        return self._varied(("nf:first=lowest", "nfd:first=lowest"))

    def _varied(self, algorithms: Sequence[str]) -> list[cells.Cell]:
        deltas = [delta for delta in self.deltas if delta in VARIED]
        return cells.every(algorithms, deltas, ("random",), range(self.seeds), (self.partitions,))


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


def score(rows: Any) -> list[Score]:
    """Score every algorithm on every stream of the grid, whose rows are sorted by cell.

    The paper's algorithms are compared among themselves in CBS, and any other with them and
    itself, so that an algorithm that joins does not change the scores of the rest.
    """
    columns = {name: rows.column(name).to_numpy() for name in rows.column_names}
    keys = list(zip(*(columns[key].tolist() for key in cells.KEYS), strict=True))
    by_stream: dict[tuple[Any, ...], dict[str, list[int]]] = {}
    for key, places in itertools.groupby(range(len(keys)), keys.__getitem__):
        algorithm, parameters, *stream = key
        name = f"{algorithm}:{parameters}" if parameters else algorithm
        by_stream.setdefault(tuple(stream), {})[name] = list(places)
    found: list[Score] = []
    for stream_key, by_name in by_stream.items():
        counts = {name: columns["consumers"][where].tolist() for name, where in by_name.items()}
        common = {name: counts[name] for name in counts if name in PAPER}
        shared = scores.cbs(common)
        for name, where in by_name.items():
            joined = shared if name in shared else scores.cbs({**common, name: counts[name]})
            means = (float(columns[key][where].mean()) for key in (*MEANS, "seconds"))
            found.append(Score(name, *stream_key, *(joined[name], *means)))
    return found


def mean(
    found: Iterable[Score], key: str, starts: Sequence[str] = ("random",)
) -> dict[float, dict[str, float]]:
    """Average one column over seeds and the given starts: δ → algorithm → value."""
    gathered: dict[float, dict[str, list[float]]] = {}
    for entry in found:
        if entry.start in starts:
            by_name = gathered.setdefault(entry.delta, {})
            by_name.setdefault(entry.algorithm, []).append(getattr(entry, key))
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


PARTITIONS = 32
MODEL = latency.Model(max_rate=133.0)
SETTING = cells.Setting(measurements=100, capacity=100.0)
DELTA = 5.0
COUNTED = tuple(f"kd_{n}" for n in range(1, PARTITIONS + 1))


@dataclass(frozen=True, slots=True)
class Wait:
    """What one stream's bytes waited under one algorithm."""

    seed: int
    algorithm: str
    consumers: float
    bytes: float
    late_bytes: float
    p50: float
    p90: float
    p99: float
    max: float


def on(seed: int, algorithms: Sequence[str]) -> dict[str, latency.Latency]:
    """Run the experiment on the stream of one seed."""
    cell = cells.Cell("", DELTA, "random", seed, PARTITIONS)
    speeds = cells.stream(cell, SETTING)
    how = speeds, SETTING.capacity, MODEL, SETTING.order, cells.seed(cell)
    return {name: waited(name, *how) for name in algorithms}


def over(seeds: Sequence[int], algorithms: Sequence[str]) -> list[Wait]:
    """Run the experiment on many streams: one stream says little about kd_n."""
    return [
        Wait(seed, name, **summary(found))
        for seed in seeds
        for name, found in on(seed, algorithms).items()
    ]


def typical(found: Sequence[Wait]) -> int:
    """Return the seed of the stream in which kd_27 has the median of late bytes."""
    late = [(entry.late_bytes, entry.seed) for entry in found if entry.algorithm == "kd_27"]
    return median_high(late)[1]
