"""The pages are made from the observations alone, whatever parts are there."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lagless.errors import WrongInput
from lagless.lab.live import journal, live_findings, live_report
from lagless.lab.live.journal import Journal


def steps() -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        {"partition": 0, "before": 1.0, "after": 2.0, "seconds": 28.0 + i} for i in range(5)
    ]
    rows.append({"partition": 1, "before": 2.0, "after": 1.0, "seconds": None})
    return {"steps": rows}


def response() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    passes, made = [], []
    for i in range(40):
        mark = {"provisioner": "processes", "delta": (5.0, 25.0)[i % 2], "reading": i >= 20}
        seconds = float(rng.uniform(0.1, 1))
        passes.append(
            {**mark, "consumers": 9, "migrations": i, "involved": i % 7, "dt2": 0.1, "dt4": seconds}
        )
        made.append({**mark, "consumer": i, "together": 1 + 9 * (i % 2), "dt3": 2 + seconds})
    return {"reassignments": passes, "creations": made, "lost": []}


def run(name: str, **more: Any) -> dict[str, Any]:
    values = sorted(float(x) for x in np.random.default_rng(1).exponential(3, 100))
    quantiles = {"p50": 2.0, "p90": 5.0, "p99": 9.0, "max": 12.0}
    counts = dict.fromkeys(("lost", "duplicated", "unread", "out_of_order"), 0)
    model = {"consumers": 4.0, "late": 0.1, "p50": 0.0, "p90": 1.0, "p99": 4.0, "max": 5.0}
    shape = {"line": [[0.0, 3], [50.0, 4]], "settle": 60.0, "seconds": 120.0, "consumers": 3.9}
    return {
        "name": name, "records": 100, "sample": values, "model": model,
        **quantiles, **counts, **shape, **more,
    }  # fmt: skip


def relieved(name: str, *seconds: float | None) -> dict[str, Any]:
    steps = [
        {"at": 45.0, "seconds": value, "worst": 7.5, "consumers": [1.0, 2.0]} for value in seconds
    ]
    counts = {"produced": 900, "lost": 0, "duplicated": 3, "consumers": 2.1}
    return {"name": name, "steps": steps, "line": [[0.0, 1]], **counts}


def everything() -> dict[str, dict[str, Any]]:
    keda = run("keda", rebalances=1, refused=0, duplicated=17)
    del keda["model"]
    placed = [
        run(name, turn=0, migrations=3, consumer_seconds=240, refused=0, fullest=1.1)
        for name in ("lagless", "uniform", "keda")
    ]
    conditions = [
        {"condition": n, "partitions": 32, "tables": 1, "rates": [n * 1e6, n * 1.1e6, n * 9e5]}
        for n in (1, 2, 3)
    ]
    return {
        "dt1": steps(),
        "response": response(),
        "capacity": {"conditions": conditions},
        "delay": {"runs": [run("mwf"), run("sticky"), run("kd_4")]},
        "rival": {"runs": [keda]},
        "members": {"runs": placed},
        "relieved": {"runs": [relieved("lagless", 12.0, 14.5, None), relieved("keda", 40.0)]},
    }


def put(folder: Path, *names: str) -> None:
    parts = live_report.parts(live_report.Size())
    for name in names:
        kept = Journal(folder / f"{name}.json", name, parts[name].settings)
        kept.data.update(everything()[name])
        kept.finish(machine={"processor": "test"})


def test_every_part_has_numbers_a_section_and_a_run() -> None:
    known = set(live_report.parts(live_report.Size()))
    assert known == set(live_findings.SUMS) == set(live_findings.SECTIONS) == set(everything())


def test_the_page_holds_everything_and_loads_nothing(tmp_path: Path) -> None:
    put(tmp_path, *everything())
    page = live_report.write(tmp_path).read_text("utf-8")
    assert page.count("<figure") == len(list((tmp_path / "figures").glob("*.svg"))) == 10
    assert not re.search(r"(src|href)=.(?!data:|#)", page), "nothing is loaded from elsewhere"
    words = (tmp_path / "results.md").read_text("utf-8")
    for text in (page, words):
        assert "lagless: median 13.2 s, 1 steps never, 0 records lost and 3 doubled" in text
        assert "17 doubled" in text, "what is worse for someone is said"
        assert "kd_4" in text
        assert "processor" in text
        assert "Not measured here" not in text
        assert "sticky with 3.9 consumers against keda with 3.9: p50 worse" in text
    json.dumps(live_report.sums(live_report.read(tmp_path)), allow_nan=False)


@pytest.mark.parametrize("name", sorted(everything()))
def test_a_part_alone_makes_a_page(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    page = live_report.write(tmp_path).read_text("utf-8")
    assert f'<h2 id="{name}"' in page
    absent = ", ".join(other for other in live_findings.SECTIONS if other != name)
    assert f"Not measured here, so not on this page: {absent}." in page
    assert set(live_report.sums(live_report.read(tmp_path))) == {name}


@pytest.mark.parametrize("name", sorted(everything()))
def test_a_part_that_has_seen_nothing_yet_makes_a_page_too(tmp_path: Path, name: str) -> None:
    settings = live_report.parts(live_report.Size())[name].settings
    Journal(tmp_path / f"{name}.json", name, settings).save()
    assert "interrupted" in live_report.write(tmp_path).read_text("utf-8")


def test_numbers_of_steps_and_of_nothing() -> None:
    data = {**steps(), "settings": {"window": 30.0}}
    found = live_findings.steps_sums(data)
    assert (found["dt1"]["count"], found["not_shown"]) == (5, 1)
    assert found["dt1"]["p50"] == 30.0
    assert journal.spread([]) == {"count": 0}
    assert journal.correlation([{"x": 1, "y": 1}] * 5, "x", "y") is None
    rising = [{"x": x, "y": 2 * x} for x in range(5)]
    assert journal.correlation(rising, "x", "y") == 1.0


def test_parts_are_chosen_by_name() -> None:
    known = live_report.parts(live_report.Size())
    assert [part.name for part in live_report.chosen(known, "response, dt1")] == ["dt1", "response"]
    assert len(live_report.chosen(known, "")) == len(known)
    with pytest.raises(WrongInput, match="--only dt9: there is no such part, only dt1, response"):
        live_report.chosen(known, "dt9")


def test_what_is_complete_is_not_run_again(tmp_path: Path) -> None:
    put(tmp_path, "dt1")
    told: list[str] = []
    parts = live_report.chosen(live_report.parts(live_report.Size()), "dt1")
    live_report.run(tmp_path, parts, told.append, lambda *_: None)
    assert told == [f"dt1: already measured, {tmp_path / 'dt1.json'}"]


def test_a_cluster_that_was_not_there_at_first_adds_to_what_is_there(tmp_path: Path) -> None:
    kept = Journal(tmp_path / "response.json", "response", {})
    kept.note("ended", "processes")
    without = live_report.parts(live_report.Size())["response"]
    with_one = live_report.parts(live_report.Size(kubeconfig=tmp_path / "kubeconfig"))["response"]
    assert not without.lacks(kept)
    assert with_one.lacks(kept)
    kept.note("ended", "kubernetes")
    assert not with_one.lacks(kept)
