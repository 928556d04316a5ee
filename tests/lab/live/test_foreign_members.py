"""Members that lagless did not write, in a small form: placed and scaled by the real controller."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import pages
from lagless.group_ports import GroupMember
from lagless.lab.live import foreign_findings, foreign_members, live_report, live_stream
from lagless.lab.live.fleet import Fleet
from lagless.lab.live.foreign_members import Holders, Wish
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


def holders(stream: live_stream.Stream) -> Holders:
    watching = object.__new__(Holders)
    watching._stream, watching._readers, watching._loads, watching.moves = stream, {}, [], 0
    return watching


def test_a_partition_moves_when_another_member_holds_it() -> None:
    watching = holders(live_stream.Stream(np.array([[1.0, 2.0]])))
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    watching.see({first: "a", second: "a"}, 0.0)
    watching.see({first: "a"}, 1.0)
    assert watching.moves == 0, "a first reader is an arrival, and a gap moves nothing"
    watching.see({first: "b", second: "a"}, 2.0)
    watching.see({first: "a"}, 3.0)
    assert watching.moves == 2
    assert watching.fullest is None, "nothing counts while the stream settles"


def test_the_fullest_member_is_the_one_with_most_to_read_at_that_time() -> None:
    rows = np.array([[3.0, 1.0, 1.0], [1.0, 1.0, 3.0]]) * live_stream.MAX_RATE / 10
    stream = live_stream.Stream(rows)
    watching = holders(stream)
    parts = [TopicPartition("t", n) for n in range(3)]
    for passed in (stream.settle, stream.seconds - 0.1):
        watching.see({parts[0]: "a", parts[1]: "b", parts[2]: "b"}, passed)
    assert watching.fullest == 0.4
    watching.see(dict.fromkeys(parts, "a"), stream.seconds)
    assert watching.fullest == 0.4, "after the load, nobody has anything to read"


def test_a_skewed_stream_has_the_same_load_wherever_it_is_hot() -> None:
    one, other = (live_stream.skewed(2.0, np.random.default_rng([0, turn])) for turn in (0, 1))
    total = live_stream.zipf(live_stream.SKEW).sum()
    assert one.partitions == live_stream.MANY
    assert one.speeds[0].sum() == pytest.approx(other.speeds[0].sum()) == pytest.approx(total)
    assert one.speeds[0].max() == live_stream.BUSIEST * live_stream.MAX_RATE
    assert not np.array_equal(one.speeds[0], other.speeds[0])
    assert one.speeds.max() <= live_stream.CAPACITY
    changes = one.speeds[1:] / one.speeds[:-1] - 1
    assert 0.04 < np.abs(changes).max() <= 0.0501
    assert np.array_equal(one.at(one.settle - 1), one.speeds[0])
    assert np.array_equal(one.at(one.settle), one.speeds[1])
    assert np.array_equal(one.flow("t").at(one.settle + 16), one.at(one.settle + 16))


@pytest.mark.parametrize("skew", foreign_members.SKEWS)
def test_every_skew_has_the_same_total(skew: float) -> None:
    speeds = live_stream.zipf(skew)
    assert speeds.sum() == pytest.approx(live_stream.zipf(1.0).sum())
    assert speeds[0] / speeds[3] == pytest.approx(4**skew)


def test_what_uniform_gives_is_computed_for_the_members_that_it_had() -> None:
    found = foreign_members.draws(
        [{"name": "lagless", "consumers": 3.2}, {"name": "uniform", "consumers": 4.0}], seed=0
    )
    by_skew = {row["skew"]: row for row in found}
    assert list(by_skew) == list(foreign_members.SKEWS)
    assert all(row["members"] == 4 for row in found)
    assert by_skew[0.0]["overloaded"] == 0
    assert by_skew[0.0]["p50"] < by_skew[0.5]["p50"] < by_skew[1.0]["p50"]
    assert by_skew[1.0]["overloaded"] > 0.5
    assert by_skew[1.0]["packed"] <= 4, "the same load fits, if it is packed"
    assert by_skew[0.0]["needed"] == 4 < by_skew[1.0]["needed"]
    assert foreign_members.draws([{"name": "lagless", "consumers": 3.2}], seed=0) == []


def test_how_long_it_takes_is_said_before_it_begins() -> None:
    assert foreign_members.told(15, 3.0).startswith(
        "15 runs of 4 minutes of load, about 72 minutes"
    )


def test_a_fixed_group_has_no_fewer_members_than_lagless_used() -> None:
    assert foreign_members.fair_size([{"name": "lagless", "consumers": 4.01}]) == 5
    assert foreign_members.fair_size([{"name": "lagless", "consumers": 4.0}]) == 4
    assert foreign_members.fair_size([]) == 1


def row(name: str, turn: int, p99: float | None, seconds: int, **more: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("records", "migrations", "lost", "duplicated", "unread"), 1)
    times = {"p50": p99, "p90": p99, "p99": p99, "max": p99, "fullest": 1.2, "sample": [1.0]}
    shape = {"name": name, "turn": turn, "consumers": 4.0, "consumer_seconds": seconds}
    return {**shape, **counts, **times, **more}


def data() -> dict[str, Any]:
    runs = [
        *(row("lagless", 0, 2.0, 100), row("uniform", 0, 50.0, 110), row("keda", 0, None, 90)),
        *(row("lagless", 1, 3.0, 100), row("uniform", 1, 4.0, 120), row("keda", 1, None, 90)),
        *(row("lagless", 2, 2.5, 100), row("uniform", 2, 30.0, 120)),
    ]
    asked = {"minutes": 0.5, "repeats": 3, "seed": 0, "partitions": 32}
    draws = foreign_members.draws(runs, seed=0)
    machine = {"processor": "a processor", "memory": "1 GiB"}
    return {"runs": runs, "settings": asked, "draws": draws, "machine": machine, "seconds": 600}


def test_the_section_has_medians_ranges_and_a_comparison_over_all_streams() -> None:
    section = foreign_findings.members(data())
    words = " ".join(section.words)
    assert "uniform: a median p99 of 30.0 s, 12.0 times lagless's 2.5 s" in words
    assert "at most a quarter of uniform's on 2 of 3 streams" in words
    assert "keda: a median p99" not in words, "of nothing there is no median"
    groups, odds, runs = section.tables
    assert [line[0] for line in groups.rows] == ["lagless", "uniform", "keda"]
    assert groups.rows[0][6] == "2.50 (2.00 to 3.00)"
    assert groups.rows[0][2] == "4.00", "no range where there is none"
    assert groups.rows[1][8:11] == ("3", "3", "3"), "what is lost is added up"
    assert groups.rows[2][6] == "none"
    assert len(odds.rows) == len(foreign_members.SKEWS)
    assert len(runs.rows) == 8
    assert all(len(line) == len(table.header) for table in section.tables for line in table.rows)


def test_the_numbers_of_a_group_are_over_its_runs() -> None:
    groups = foreign_findings.sums(data())["groups"]
    assert groups["uniform"]["p99"]["p50"] == 30.0
    assert groups["uniform"]["p99"]["count"] == 3
    assert groups["keda"]["p99"]["count"] == 0
    assert groups["lagless"]["lost"] == 3
    merged = {it["name"]: it for it in foreign_findings.drawn(data())}
    assert merged["lagless"]["sample"] == [1.0, 1.0, 1.0]


PLACE = "# A page\n\n<!-- members -->\nold\n<!-- /members -->\n\nthe rest\n"


def test_one_command_fills_the_places_in_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "DOCS", tmp_path / "docs")
    (tmp_path / "docs" / "img").mkdir(parents=True)
    (tmp_path / "measured" / "figures").mkdir(parents=True)
    (tmp_path / "measured" / "figures" / "members-delay.svg").write_text("<svg/>")
    (tmp_path / "measured" / "members.json").write_text(
        json.dumps({"version": 1, "part": "members", "complete": True, **data()})
    )
    for page in (tmp_path / "docs" / "results.md", tmp_path / "README.md"):
        page.write_text(PLACE)
    pages.members(tmp_path / "measured")
    results = (tmp_path / "docs" / "results.md").read_text()
    front = (tmp_path / "README.md").read_text()
    for text in (results, front):
        assert text.startswith("# A page\n\n<!-- members -->\n")
        assert text.endswith("<!-- /members -->\n\nthe rest\n")
        assert "old" not in text
        assert "| 2.50 (2.00 to 3.00) |" in text
    assert "--only members --minutes 0.5 --repeats 3 --seed 0" in results
    assert "](img/live-members-delay.svg)" in results
    assert "members-consumers" not in results, "what was not drawn is not shown"
    assert (tmp_path / "docs" / "img" / "live-members-delay.svg").exists()


def test_unfinished_measurements_fill_nothing(tmp_path: Path) -> None:
    (tmp_path / "members.json").write_text(
        json.dumps({"version": 1, "part": "members", "complete": False, **data()})
    )
    with pytest.raises(SystemExit, match="not complete"):
        pages.members(tmp_path)


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_the_documentation_has_the_places(page: str) -> None:
    text = (pages.DOCS.parent / page).read_text("utf-8")
    assert text.count("<!-- members -->\n") == text.count("<!-- /members -->\n") == 1


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(1200)
def test_unmodified_members_are_placed_and_scaled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_stream, "SETTLE", 1)
    # Two of the three groups may be behind to the end, which is not waited for here.
    monkeypatch.setattr(live_stream, "PATIENCE", 40)
    part = live_report.parts(live_report.Size(minutes=0.25, repeats=1))["members"]
    said: list[str] = []
    shown: list[tuple[int, int]] = []
    live_report.run(tmp_path, [part], said.append, lambda _, *done: shown.append(done))
    assert "members: 3 runs of 0.5 minutes of load, about 4 minutes in all" in said[1]
    assert shown == sorted(shown)
    assert shown[-1] == (300, 300)
    found = json.loads((tmp_path / "members.json").read_text())
    runs = {row["name"]: row for row in found["runs"]}
    assert list(runs) == ["lagless", "uniform", "keda"]
    for name, measured in runs.items():
        assert measured["lost"] == 0, name
        assert measured["landed"] + measured["unread"] == measured["produced"] > 0, name
        assert measured["consumer_seconds"] > 0, name
        assert measured["fullest"] > 0, name
    assert runs["lagless"]["unread"] == 0
    assert runs["uniform"]["consumers"] == math.ceil(runs["lagless"]["consumers"])
    assert [size for _, size in runs["uniform"]["line"]] == [runs["uniform"]["consumers"]]
    assert {row["members"] for row in found["draws"]} == {runs["uniform"]["consumers"]}
    assert "fullest member" in (tmp_path / "results.md").read_text("utf-8")
