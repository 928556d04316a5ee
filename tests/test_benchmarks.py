"""The pure parts of benchmarks: shares of a processor, rates, ratios, and places on a page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth, landings, page, scale, shares, soak, start
from benchmarks.landings import Curve, Landing, TableLog

V1 = """\
proc /proc proc rw 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"


def test_the_hierarchy_that_has_the_processor_is_found() -> None:
    neither = shares.hierarchy(V2, lambda _: ["memory", "pids"])
    assert neither is None
    assert shares.hierarchy(V2, lambda _: ["cpu", "io"]) == shares.Hierarchy(
        Path("/sys/fs/cgroup"), 2
    )
    assert shares.hierarchy(V1, lambda _: []) == shares.Hierarchy(
        Path("/sys/fs/cgroup/cpu,cpuacct"), 1
    )


@pytest.mark.parametrize(
    ("version", "cores", "written"),
    [
        (1, 0.5, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}),
        (1, None, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"}),
        (2, 0.7, {"cpu.max": "70000 100000"}),
        (2, None, {"cpu.max": "max 100000"}),
    ],
)
def test_a_quota_is_written_as_the_kernel_takes_it(
    version: int, cores: float | None, written: dict[str, str]
) -> None:
    files = shares.Hierarchy(Path("/"), version).written(cores)
    assert files.items() >= written.items()
    # Its weight lets the group have its quota beside busy processes.
    assert int(files["cpu.weight" if version == 2 else "cpu.shares"]) > 1024


def test_without_a_quota_a_share_changes_no_command() -> None:
    share = shares.Share("any", None, None)
    assert share.command(["/bin/true"]) == ["/bin/true"]
    assert share.processes() == []
    share.close()


def entry(at: float, **offsets: int) -> str:
    """Return an entry of a table's log, for partitions named p0, p1, …."""
    ids = {f"group/topic/id/{name[1:]}": offset for name, offset in offsets.items()}
    actions = [
        {"commitInfo": {"timestamp": int(at * 1000), "operation": "WRITE"}},
        {"txn": {"appId": "group/topic/id/0/owner", "version": 7}},
        *({"txn": {"appId": name, "version": offset}} for name, offset in ids.items()),
    ]
    return "\n".join(map(json.dumps, actions))


def test_a_tables_log_is_followed_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text(entry(5, p0=0, p1=0))
    following = TableLog(tmp_path)
    assert following.read() == [Landing(5.0, {0: 0, 1: 0})]
    assert following.read() == []
    (log / f"{1:020}.json").write_text(entry(6.5, p1=10))
    assert following.read() == [Landing(6.5, {1: 10})]


def curve(*offsets: tuple[float, int]) -> Curve:
    """Return what landed in partition 0, with records of 100 bytes."""
    made = Curve(frozenset({0}), 100.0)
    made.add(Landing(at, {0: offset, 1: 10**9}) for at, offset in offsets)
    return made


def test_a_rate_is_counted_from_commit_to_commit() -> None:
    # A claim, which moves nothing, then 10 records every 2 s.
    made = curve((0, 0), *((2.0 * n, 10 * n) for n in range(1, 11)))
    assert made.first == 2.0
    assert made.rate(3, 17) == pytest.approx(500)
    assert made.rate(2.1, 15.9) == pytest.approx(500)
    assert made.rate(0, 5) is None  # too few commits to tell


def test_bytes_at_a_moment_lie_between_the_commits_around_it() -> None:
    made = curve((2, 10), (4, 30))
    assert [made.at(t) for t in (1, 2, 3, 4, 9)] == [0, 1000, 2000, 3000, 3000]
    assert landings.binned(made, 0, 4) == pytest.approx([500e-6, 1000e-6])


def test_a_rate_is_steady_when_stretches_in_a_row_agree() -> None:
    assert landings.is_steady([None, 1.0, 9.7, 10.0, 10.2])
    assert not landings.is_steady([10.0, 10.2])
    assert not landings.is_steady([8.0, 9.0, 10.0])
    assert not landings.is_steady([10.0, 10.0, None])
    assert not landings.is_steady([0.0, 0.0, 0.0])


def test_ratios_are_over_one_consumer() -> None:
    assert landings.ratios({3: 24.0, 1: 8.0, 2: 15.0}) == {"2": 1.875, "3": 3.0}


def test_half_of_the_steady_rate_is_reached_when_it_is_kept() -> None:
    # 100 B/s until 20 s, then 1000 B/s; the request was at 5 s.
    slow = [(float(t), t) for t in range(10, 21)]
    fast = [(float(t), 20 + 10 * (t - 20)) for t in range(21, 61)]
    after = landings.half_after(curve(*slow, *fast), 5.0, 1000.0)
    assert after is not None
    assert 14 <= after <= 17
    assert landings.half_after(curve(*slow), 5.0, 1000.0) is None
    assert landings.half_after(Curve(frozenset({0}), 1.0), 5.0, 1000.0) is None


def test_a_page_is_changed_in_its_place_only() -> None:
    text = "before\n<!-- scale -->\nold \\1\n<!-- end of scale -->\nafter\n"
    new = page.replaced(text, "scale", r"new \1")
    assert new == "before\n<!-- scale -->\n\nnew \\1\n\n<!-- end of scale -->\nafter\n"
    assert page.replaced(new, "scale", r"new \1") == new
    with pytest.raises(ValueError, match="no place <!-- start -->"):
        page.replaced(text, "start", "")


def test_figures_of_other_parts_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "scale.json"
    page.keep(file, {"own": {"cpu": 0.5}})
    whole = page.keep(file, {"shared": {"cpu": 0.7}})
    assert {name: row["cpu"] for name, row in whole.items()} == {"own": 0.5, "shared": 0.7}
    assert json.loads(file.read_text()) == whole


def test_the_documentation_has_the_places_that_benchmarks_write() -> None:
    text = Path("docs/consumer.md").read_text()
    assert page.replaced(text, "scale", "") != text
    assert page.replaced(text, "start", "") != text


def test_tables_have_a_row_per_mode_and_a_cell_per_column() -> None:
    row: dict[str, Any] = {
        "mode": "own",
        "consumers": {"1": 8.0, "2": 16.4},
        "ratio": {"2": 2.05},
        "cpu": 0.5,
    }
    shared = {**row, "mode": "shared", "consumers": {"1": 7.0}, "ratio": {}}
    rows: dict[str, dict[str, Any]] = {
        it["mode"]: {**it, "date": "2026-01-01"} for it in (shared, row)
    }
    lines = scale.table(rows).splitlines()
    assert lines[2] == "| own Spark in each consumer | 8.0 MB/s | 16.4 MB/s (× 2.05) |"
    assert lines[3].endswith("| 7.0 MB/s | – |")
    begun: dict[str, Any] = {
        "mode": "spare",
        "cpu": 1.0,
        "ready": None,
        "first_rows": 1.24,
        "half_rate": 2.5,
    }
    begun |= {
        "steady_mb_per_second": 9.96,
        "memory_mb": 790.4,
        "anonymous_mb": 610.0,
        "date": "2026-01-01",
    }
    cells = start.table({"spare 1": begun}).splitlines()[2].split(" | ")
    assert cells[1:] == ["1", "–", "1.2 s", "2.5 s", "10.0 MB/s", "790 MB", "610 MB |"]


def over(hours: float, value: Callable[[float], float]) -> list[tuple[float, float]]:
    """Return a sample every 10 s; `value` gets the share of the time that has passed."""
    count = int(hours * 360)
    return [(10.0 * number, value(number / count)) for number in range(count)]


def test_what_rises_at_first_and_then_stays_does_not_grow() -> None:
    found = growth.growth(over(1, lambda share: 300 if share > 0.2 else 1500 * share), "MB")
    assert found is not None
    assert not found.grows
    assert found.early == found.late == 300


@pytest.mark.parametrize(
    ("unit", "rate", "grows"),
    [("MB", 100, True), ("MB", 20, False), ("handles", 20, True), ("threads", 4, False)],
)
def test_what_rises_to_the_end_grows_if_it_does_so_by_more_than_it_wanders(
    unit: str, rate: float, grows: bool
) -> None:
    found = growth.growth(over(2, lambda share: 20 + rate * share), unit)
    assert found is not None
    assert found.grows is grows


def test_peaks_are_no_growth_and_too_few_samples_say_nothing() -> None:
    found = growth.growth(over(1, lambda share: 500 if int(share * 360) % 5 == 0 else 100), "MB")
    assert found is not None
    assert not found.grows
    assert growth.growth([(0.0, 1.0)] * 7, "MB") is None


def test_the_parts_of_a_soak_are_told_by_their_command_lines() -> None:
    def named(*line: str) -> str | None:
        return soak.named(list(line), "/tmp/soak")

    config = "/tmp/soak/lagless.toml"
    assert named("python", "-m", "lagless", "consumer", "3", "--config", config) == "consumer"
    assert named("python", "-m", "lagless", "compact", "--watch", "--config", config) == "compact"
    assert named("/usr/bin/java", "kafka.Kafka", "/tmp/soak/broker/server.properties") == "Kafka"
    assert named("/usr/bin/java", "SparkSubmit", "--dir=/tmp/soak/connect") == "Spark"
    assert named("python", "-m", "lagless", "monitor", "--config", "/tmp/other.toml") is None
    assert named("python", "-m", "lagless.lab.load.load", "--file", "/tmp/soak/load.csv") is None
    assert named() is None
