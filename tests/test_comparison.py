"""The README's table of comparison: each row of it has a check here, and each check a row."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import lagless
from lagless.settings.tree import ProvisionerSettings
from lagless.simulation import keda

README = Path(__file__).parent.parent / "README.md"
EVEN = {f"t:{p}": 25.0 for p in range(8)}
SKEWED = {f"t:{p}": 165.0 / 7 if p else 35.0 for p in range(8)}
BOTH = (EVEN, SKEWED)


def rows() -> dict[str, list[str]]:
    """Give the table's cells by its first column."""
    text = README.read_text().split("## How it compares")[1].split("\n## ")[0]
    cells = [re.split(r"\s*\|\s*", line.strip("| ")) for line in text.splitlines() if "|" in line]
    assert cells[0] == ["lagless", "KEDA on lag", "Kafka's own assignors", "kafka-delta-ingest"]
    return {row[0]: row[1:] for row in cells[2:]}


def consumers(speeds: dict[str, float], algorithm: str = "sticky") -> int:
    return len(set(lagless.pack(speeds, 100, algorithm=algorithm).values()))


def how_many(cells: list[str]) -> None:
    assert cells == ["yes, from bytes/s", "yes, from lag", "no", "no"]
    doubled = {p: 2 * speed for p, speed in EVEN.items()}
    assert consumers(doubled) == 2 * consumers(EVEN)
    assert keda.replicas(100, 10, 1, 8) < keda.replicas(1000, 10, 1, 200)
    assert consumers(doubled, "kd_3") == consumers(EVEN, "kd_3") == 3


def bytes_known(cells: list[str]) -> None:
    assert cells == ["yes", "no", "no", "no"]
    ours = [lagless.pack(speeds, 100) for speeds in BOTH]
    kafkas = [lagless.pack(speeds, 100, algorithm="kd_2") for speeds in BOTH]
    assert ours[0] != ours[1]
    assert kafkas[0] == kafkas[1]


def who_reads_what(cells: list[str]) -> None:
    assert cells[0] == "yes"
    assert cells[2] == "yes, by count of partitions"
    counts = list(lagless.pack(SKEWED, 100, algorithm="kd_3").values())
    assert sorted(counts.count(n) for n in (1, 2, 3)) == [2, 3, 3]


def cost_of_a_move(cells: list[str]) -> None:
    assert cells[0] == "yes, in bytes/s moved"
    before = lagless.pack(EVEN, 100)
    faster = EVEN | {"t:0": 60.0}
    moved = {a: lagless.pack(faster, 100, before, a) for a in ("sticky", "ezzeddine")}
    costs = {a: lagless.rscore(faster, 100, before, after) for a, after in moved.items()}
    assert costs["sticky"] <= costs["ezzeddine"]
    assert lagless.rscore(EVEN, 100, before, lagless.pack(EVEN, 100, before)) == 0


def to_zero(cells: list[str]) -> None:
    assert cells == ["no", "yes", "—", "—"]
    assert consumers(dict.fromkeys(EVEN, 0.0)) == 1


def any_consumer(cells: list[str]) -> None:
    assert cells == ["no, with its own", "yes", "yes", "no, is one"]


def exactly_once(cells: list[str]) -> None:
    assert cells == ["yes", "—", "—", "yes"]
    faults = Path(__file__).parent / "chaos" / "test_consumer.py"
    assert '"duplicated"' in faults.read_text()


def where_it_runs(cells: list[str]) -> None:
    assert cells[0] == "processes or Kubernetes"
    kinds = ProvisionerSettings.model_fields["kind"].annotation
    assert set(get_args(kinds)) == {"processes", "kubernetes"}


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "decides how many consumers": how_many,
    "knows how many bytes a partition brings": bytes_known,
    "decides who reads what": who_reads_what,
    "counts what a move costs": cost_of_a_move,
    "scales to zero": to_zero,
    "works with any consumer": any_consumer,
    "writes Delta exactly once": exactly_once,
    "runs": where_it_runs,
}


def test_every_row_of_the_comparison_is_checked() -> None:
    found = rows()
    assert found.keys() == CHECKS.keys()
    for name, cells in found.items():
        CHECKS[name](cells)
