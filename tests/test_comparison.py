"""The README's tables of comparison: each row has a check here, and each check a row."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import lagless
from lagless.lab.model import keda
from lagless.settings import parse
from lagless.settings.roles import ControllerSettings
from lagless.settings.tree import OWN_KINDS, ProvisionerSettings

README = Path(__file__).parent.parent / "README.md"
EVEN = {f"t:{p}": 25.0 for p in range(8)}
SKEWED = {f"t:{p}": 165.0 / 7 if p else 35.0 for p in range(8)}
BOTH = (EVEN, SKEWED)
OTHERS = {"group": "g", "topics": ["t"], "members": {"kind": "group"}}


DECIDING = ["lagless", "KEDA on lag", "Kafka's own assignors"]
WRITING = ["lagless", "kafka-delta-ingest", "Iceberg's Kafka Connect sink", "Structured Streaming"]
SYSTEMS = ([*DECIDING, "Flink's autoscaler", "uForwarder", "Brooklin"], WRITING)
KEDA, KAFKA, INGEST = SYSTEMS[0][1], SYSTEMS[0][2], SYSTEMS[1][1]
Cells = dict[str, str]
"""What a row says of each system."""


def tables() -> list[dict[str, list[str]]]:
    """Return each table's cells by its first column, as they are written."""
    text = README.read_text().split("## How it compares")[1].split("\n## ")[0]
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = [re.split(r"\s*\|\s*", line.strip("| ")) for line in block.splitlines()]
        found.append({row[0]: row[1:] for row in cells[2:]})
        assert cells[0] == SYSTEMS[len(found) - 1]
    return found


def rows() -> dict[str, Cells]:
    """Return what each row says, without the links."""
    return {
        name: {
            system: re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)
            for system, cell in zip(systems, cells, strict=True)
        }
        for table, systems in zip(tables(), SYSTEMS, strict=True)
        for name, cells in table.items()
    }


def consumers(speeds: dict[str, float], algorithm: str = "sticky") -> int:
    return len(set(lagless.pack(speeds, 100, algorithm=algorithm).values()))


def how_many(cells: Cells) -> None:
    assert [cells[name] for name in SYSTEMS[0][:3]] == ["yes, from bytes/s", "yes, from lag", "no"]
    doubled = {p: 2 * speed for p, speed in EVEN.items()}
    assert consumers(doubled) == 2 * consumers(EVEN)
    assert keda.replicas(100, 10, 1, 8) < keda.replicas(1000, 10, 1, 200)
    assert consumers(doubled, "kd_3") == consumers(EVEN, "kd_3") == 3


def how_many_of_it(cells: Cells) -> None:
    assert (cells["lagless"], cells[INGEST]) == ("yes, from bytes/s", "no")
    assert consumers({p: 3 * speed for p, speed in EVEN.items()}) > 2 * consumers(EVEN)


def bytes_known(cells: Cells) -> None:
    assert [cells[name] for name in SYSTEMS[0][:3]] == ["yes", "no", "no"]
    ours = [lagless.pack(speeds, 100) for speeds in BOTH]
    kafkas = [lagless.pack(speeds, 100, algorithm="kd_2") for speeds in BOTH]
    assert ours[0] != ours[1]
    assert kafkas[0] == kafkas[1]


def who_reads_what(cells: Cells) -> None:
    assert cells["lagless"] == "yes"
    assert cells[KAFKA] == "yes, by number of partitions"
    counts = list(lagless.pack(SKEWED, 100, algorithm="kd_3").values())
    assert sorted(counts.count(n) for n in (1, 2, 3)) == [2, 3, 3]


def cost_of_a_move(cells: Cells) -> None:
    assert cells["lagless"] == "yes, in bytes/s moved"
    before = lagless.pack(EVEN, 100)
    faster = EVEN | {"t:0": 60.0}
    moved = {a: lagless.pack(faster, 100, before, a) for a in ("sticky", "ezzeddine")}
    costs = {a: lagless.rscore(faster, 100, before, after) for a, after in moved.items()}
    assert costs["sticky"] <= costs["ezzeddine"]
    assert lagless.rscore(EVEN, 100, before, lagless.pack(EVEN, 100, before)) == 0


def to_zero(cells: Cells) -> None:
    assert (cells["lagless"], cells[KEDA]) == ("yes, where that is set", "yes")
    assert ControllerSettings(min_consumers=0).min_consumers == 0
    scaled = {"kind": "deployment", "workload": "app", "scale_to_zero": True}
    assert parse({**OTHERS, "provisioner": scaled}).provisioner.scale_to_zero


def any_consumer(cells: Cells) -> None:
    assert cells["lagless"] == "places them on Kafka 4.1, with a broker plugin"
    assert parse(OTHERS).of_others


def exactly_once(cells: Cells) -> None:
    assert cells["lagless"] == cells[INGEST] == "yes, Delta"
    faults = Path(__file__).parent / "chaos" / "test_consumer.py"
    assert '"duplicated"' in faults.read_text()


def by_speed(cells: Cells) -> None:
    assert cells["lagless"] == "yes"
    held: dict[int, float] = {}
    for partition, consumer in lagless.pack(SKEWED, 100).items():
        held[consumer] = held.get(consumer, 0) + SKEWED[partition]
    assert max(held.values()) <= 100


def where_it_runs(cells: Cells) -> None:
    assert cells["lagless"] == "processes or Kubernetes"
    kinds = ProvisionerSettings.model_fields["kind"].annotation
    # The others are for members that somebody else wrote.
    assert set(get_args(kinds)) >= set(OWN_KINDS) == {"processes", "kubernetes"}


CHECKS: dict[str, Callable[[Cells], None]] = {
    "decides how many consumers run": how_many,
    "knows how many bytes/s a partition gets": bytes_known,
    "decides which consumer reads which partition": who_reads_what,
    "takes the cost of a move into account": cost_of_a_move,
    "scales to zero": to_zero,
    "works with any consumer": any_consumer,
    "runs as": where_it_runs,
    "writes a lake exactly once": exactly_once,
    "decides how many of it run": how_many_of_it,
    "spreads partitions by their speed": by_speed,
    "runs in": where_it_runs,
}


def test_every_row_of_the_comparison_is_checked() -> None:
    found = rows()
    assert found.keys() == CHECKS.keys()
    for name, cells in found.items():
        CHECKS[name](cells)


def test_every_cell_has_its_source() -> None:
    for table in tables():
        for name, cells in table.items():
            for cell in cells:
                link = re.fullmatch(r"\[[^]]+\]\(([^)]+)\)", cell)
                assert link or cell == "—", (name, cell)
                target = link[1] if link else "README.md"
                assert target.startswith("https://") or (README.parent / target).is_file(), cell
