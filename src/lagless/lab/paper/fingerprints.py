"""What the code finds on small streams with fixed seeds, as a short text for each page of results.

A page carries the fingerprint of the code that made it. A test makes it again, so that a page that
shows the results of older code is noticed within seconds.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

import numpy as np

import lagless
from lagless.lab.model import replay, streams
from lagless.lab.paper import cells, experiments

PARTITIONS = 40
MEASUREMENTS = 20
DIGITS = 6
"""Machines may differ in the last digits of a sum."""
PACKED = (*experiments.PAPER, "sticky", "ezzeddine")
LOWEST = ("nf:first=lowest", "nfd:first=lowest")
LATE = ("mwf", "sticky", "kd_15", "kd_27", *experiments.KEDA)
SLACKS = (0.0, 0.05, 0.12, 0.35)
WAYS: tuple[tuple[replay.Order, streams.Clamp], ...] = (
    ("shuffled", "capacity"),
    ("fixed", "capacity"),
    ("shuffled", "none"),
)


def of(page: str) -> str:
    """Return the fingerprint of a page's results as the code gives them now."""
    text = json.dumps([PAGES[page](), MEASUREMENTS, PARTITIONS])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def stamp(page: str, command: str, on: date) -> str:
    """Return the line that says what made a page, and when."""
    return (
        f"*Made by `{command}` with lagless {lagless.__version__} on {on.isoformat()};"
        f" fingerprint of the results: `{page} {of(page)}`.*"
    )


def stamped(text: str) -> tuple[str, str] | None:
    """Return the page and the fingerprint that a text carries."""
    _, found, rest = text.partition("fingerprint of the results: `")
    page, _, value = rest.partition("`")[0].partition(" ")
    return (page, value) if found else None


def _packed(
    algorithms: Iterable[str], order: replay.Order = "shuffled", clamp: streams.Clamp = "capacity"
) -> list[Any]:
    setting = cells.Setting(MEASUREMENTS, order=order, clamp=clamp)
    found: list[Any] = []
    for cell in cells.every(list(algorithms), experiments.VARIED, ("random",), (0,), (PARTITIONS,)):
        rows = replay.run(
            cell.algorithm, cells.stream(cell, setting), setting.capacity, order, cells.seed(cell)
        )
        found.append((cell.algorithm, rows.consumers.tolist(), _rounded(rows.rscore)))
    return found


def _late(algorithms: Sequence[str], order: replay.Order = "shuffled") -> list[Any]:
    cell = cells.Cell("", experiments.DELTA, "random", 0, experiments.PARTITIONS)
    setting = cells.Setting(MEASUREMENTS, experiments.SETTING.capacity, order=order)
    speeds, seed = cells.stream(cell, setting), cells.seed(cell)
    found = []
    for name in algorithms:
        one = experiments.waited(name, speeds, setting.capacity, experiments.MODEL, order, seed)
        found.append((name, _rounded(np.array(list(experiments.summary(one).values())))))
    return found


def _rounded(values: Any) -> list[str]:
    return [f"{value:.{DIGITS}g}" for value in values.tolist()]


def _paper() -> list[Any]:
    ways = [_packed(PACKED, *way) for way in WAYS]
    return [*ways, _packed(LOWEST), _late(LATE)]


def _evaluation() -> list[Any]:
    return [_packed(PACKED), _packed(["nf"], "fixed"), _late(LATE)]


def _sticky() -> list[Any]:
    family = [f"sticky:slack={slack:g}" for slack in SLACKS]
    return [_packed((*experiments.PAPER, *family)), _late(["mwf", *family], "fixed")]


PAGES: dict[str, Callable[[], list[Any]]] = {
    "paper": _paper,
    "evaluation": _evaluation,
    "sticky": _sticky,
}
"""The pages whose results do not depend on the machine, and what each depends on."""
