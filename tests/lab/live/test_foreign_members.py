"""Members that lagless did not write, in a small form: placed and scaled by the real controller."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lagless.group_ports import GroupMember
from lagless.lab.live import foreign_findings, foreign_members, live_stream
from lagless.lab.live.fleet import Fleet
from lagless.lab.live.foreign_members import Moves, Wish
from lagless.lab.live.journal import Journal
from lagless.model import TopicPartition


class Children:
    """Remembers what was started and ended."""

    def __init__(self) -> None:
        self.running: list[str] = []

    def start(self, name: str, *_: str) -> None:
        self.running.append(name)

    def end(self, *names: str, patience: float) -> None:
        self.running = [name for name in self.running if name not in names]


def fleet(folder: Path) -> tuple[Fleet, Children]:
    children = Children()
    bed: Any = SimpleNamespace(
        broker=SimpleNamespace(bootstrap="x:1"), children=children, start_module=children.start
    )
    return Fleet(bed, "g", "t", folder), children


def test_only_members_without_work_are_ended(tmp_path: Path) -> None:
    members, children = fleet(tmp_path)
    members.resize(4)
    assert members.names == children.running == ["g-1", "g-2", "g-3", "g-4"]
    members.resize(2, idle={"g-2"})
    assert members.names == children.running == ["g-1", "g-3", "g-4"]
    members.resize(5, idle=())
    assert members.names == ["g-1", "g-3", "g-4", "g-5", "g-6"]
    members.resize(3)
    assert members.names == ["g-1", "g-3", "g-4"]
    members.end()
    assert members.names == children.running == []


def test_what_the_controller_asks_for_is_carried_out_and_one_member_stays(tmp_path: Path) -> None:
    members, _ = fleet(tmp_path)
    wish = Wish()
    wish.obey(members)
    assert members.names == []
    wish.scale(3, ())
    wish.obey(members)
    assert members.names == ["g-1", "g-2", "g-3"]
    wish.scale(0, [GroupMember("x", client=f"g-{n}") for n in (1, 2, 3)])
    wish.obey(members)
    assert members.names == ["g-1"]


def test_a_partition_moves_when_another_member_holds_it() -> None:
    moves = object.__new__(Moves)
    moves._readers, moves.count = {}, 0
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    moves.see({first: "a", second: "a"})
    moves.see({first: "a"})
    assert moves.count == 0, "a first reader is an arrival, and a gap moves nothing"
    moves.see({first: "b", second: "a"})
    moves.see({first: "a"})
    assert moves.count == 2


def test_a_fixed_group_has_no_fewer_members_than_lagless_used() -> None:
    assert foreign_members.fair_size([{"name": "lagless", "consumers": 4.01}]) == 5
    assert foreign_members.fair_size([{"name": "lagless", "consumers": 4.0}]) == 4
    assert foreign_members.fair_size([]) == 1


def row(name: str, p99: float | None, seconds: int) -> dict[str, Any]:
    counts = dict.fromkeys(("records", "migrations", "lost", "duplicated", "unread"), 0)
    times = {"p50": p99, "p90": p99, "p99": p99, "max": p99}
    return {"name": name, "consumers": 4.0, "consumer_seconds": seconds, **counts, **times}


def test_the_section_compares_each_rival_with_lagless() -> None:
    runs = [row("lagless", 2.0, 100), row("uniform", 50.0, 110), row("keda", None, 90)]
    section = foreign_findings.members({"runs": runs})
    assert "uniform: a p99 of 50.0 s, 25.0 times lagless's 2.0 s, with 1.10 times" in " ".join(
        section.words
    )
    assert [line[0] for line in section.tables[0].rows] == ["lagless", "uniform", "keda"]
    assert section.tables[0].rows[2][4] == "none"


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(600)
def test_unmodified_members_are_placed_and_scaled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_stream, "SETTLE", 1)
    monkeypatch.setattr(foreign_members, "NAMES", ("lagless",))
    journal = Journal(tmp_path / "members.json", "members", {"minutes": 0.25})
    foreign_members.run(journal, 0.25, seed=0)
    [found] = journal.all("runs")
    assert journal.complete
    assert (found["lost"], found["unread"]) == (0, 0)
    assert found["landed"] == found["produced"] > 0
    assert found["consumer_seconds"] > 0
    assert found["line"][0][1] >= 2
