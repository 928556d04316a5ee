"""`lagless evaluate all` in a small size: the paper's part alone, and a report to read."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lagless.cli import app, evaluate_all_command
from lagless.errors import WrongInput
from lagless.lab import whole
from tests.lab.paper import drawn

command = app.gather()


def test_the_paper_alone_gives_a_report_that_begins_with_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def evaluate(words: list[str], out: Path) -> None:
        asked.append(words)
        drawn.publish(out)

    monkeypatch.setattr(evaluate_all_command, "_run", evaluate)
    words = ["evaluate", "all", "--out", str(tmp_path), "--only", "paper", "--seeds", "2"]
    result = CliRunner().invoke(command, [*words, "--partitions=30", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["parts"] == ["paper"]
    assert asked == [["paper", "--partitions=30", "--measurements=500", "--seeds=2"]]
    page = (tmp_path / "report.html").read_text("utf-8")
    order = ["What was found", "At δ = 5 MWF", 'id="pareto-5"', "Claims", "Versions", "The machine"]
    places = [page.index(words) for words in order]
    assert places == sorted(places)
    assert page.count("<figure") == 11
    assert page.count('id="pareto-5"') == 1


def test_a_part_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    said: list[str] = []

    def fail() -> None:
        raise subprocess.SubprocessError("no broker here")

    parts = [whole.Part("one", fail), whole.Part("two", lambda: said.append("ran"))]
    assert whole.run(tmp_path, parts, said.append) == {"one": "no broker here"}
    assert "ran" in said
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "one did not end: no broker here" in page


def test_parts_are_chosen_by_name() -> None:
    parts = [whole.Part(name, lambda: None) for name in ("paper", "dt1", "delay")]

    def names(only: str, skip: str) -> list[str]:
        return [part.name for part in whole.chosen(parts, only, skip)]

    assert names("", "") == ["paper", "dt1", "delay"]
    assert names("paper, delay", "delay") == ["paper"]
    assert names("", "paper") == ["dt1", "delay"]
    with pytest.raises(WrongInput, match="--skip x: there is no such part, only paper"):
        names("", "x")


def test_a_benchmark_that_ended_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "BENCHMARKS", {"this": ("this",), "absent": ("no_such_module",)})
    this, absent = whole.benchmarks(tmp_path)
    this.run()
    kept = tmp_path / "benchmarks" / "this.txt"
    assert "The Zen of Python" in kept.read_text()
    kept.write_text("kept | as | it was\n")
    this.run()
    with pytest.raises(subprocess.SubprocessError, match="No module named no_such_module"):
        absent.run()
    whole.write(tmp_path, {})
    assert "kept | as | it was" in (tmp_path / "report.html").read_text("utf-8")
