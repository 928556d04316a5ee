"""The paper's two experiments on one stream: packing scores and latency."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from lagless import packing
from lagless.errors import WrongInput
from lagless.packing import scores
from lagless.simulation import keda, latency, replay, streams
from lagless.simulation.streams import Floats

EXISTING = ("nf", "nfd", "ff", "ffd", "bf", "bfd", "wf", "wfd")
MODIFIED = ("mwf", "mbf", "mwfp", "mbfp")
PAPER = EXISTING + MODIFIED
KEDA = ("keda_cooperative", "keda_range")


@dataclass(frozen=True, slots=True)
class Scores:
    """An algorithm's means over all measurements of a stream; CBS is a fraction."""

    cbs: float
    rscore: float
    consumers: float
    migrations: float


@dataclass(frozen=True, slots=True)
class Waits:
    """What a stream's bytes waited under an algorithm: percentiles of late bytes in seconds."""

    consumers: float
    bytes: float
    late_bytes: float
    p50: float
    p90: float
    p99: float
    max: float


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
) -> dict[str, Scores]:
    """Replay algorithms over a stream; CBS compares those that are listed."""
    runs = {name: replay.run(name, speeds, capacity, order, seed) for name in algorithms}
    cbs = scores.cbs({name: run.consumers.tolist() for name, run in runs.items()})
    return {
        name: Scores(
            cbs=cbs[name],
            rscore=float(run.rscore.mean()),
            consumers=float(run.consumers.mean()),
            migrations=float(run.migrations.mean()),
        )
        for name, run in runs.items()
    }


def waited(
    name: str,
    speeds: Floats,
    capacity: float,
    model: latency.Model,
    order: replay.Order,
    seed: int,
) -> latency.Latency:
    """Give what a stream's bytes waited under one algorithm, or under KEDA."""
    if is_keda(name):
        return keda.run(scaler(name), model, speeds).latency
    return latency.run(model, speeds, replay.assignments(name, speeds, capacity, order, seed))


def summary(found: latency.Latency) -> Waits:
    """Reduce a distribution to the numbers that are printed."""
    return Waits(
        consumers=found.consumers,
        bytes=found.bytes,
        late_bytes=found.late.total,
        p50=found.late.quantile(0.5),
        p90=found.late.quantile(0.9),
        p99=found.late.quantile(0.99),
        max=found.late.max,
    )


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
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in known:
            raise WrongInput(f"--starts takes {', '.join(known)} with commas between, not {name!r}")
    return [known[name] for name in dict.fromkeys(names)]


def is_keda(name: str) -> bool:
    """Tell whether a name is a KEDA baseline and not a packing algorithm."""
    return name.split(":")[0] in KEDA


def scaler(spec: str) -> keda.Keda:
    """Read `keda_range:threshold=10:cooldown=300` and the like."""
    name, *pairs = spec.split(":")
    known = [field.name for field in fields(keda.Keda) if field.name != "assignor"]
    given: dict[str, float] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key not in known or key in given:
            raise WrongInput(f"{spec!r} takes each of {', '.join(known)} once, not {pair!r}")
        try:
            given[key] = float(text)
        except ValueError:
            raise WrongInput(f"{key!r} of {spec!r} has to be a number, not {text!r}") from None
    return keda.Keda("range" if name == "keda_range" else "cooperative", **given)
