"""`lagless plan` from a file: what would be done, and what is wrong with what was given."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lagless.toml").write_text(
        'group = "g"\ntopics = ["t"]\n[consumer]\nmax_rate = 120\n'
        f'[lake]\npath = "{tmp_path}/lake"\n'
    )
    (tmp_path / "speeds.json").write_text('{"t:0": 50, "t:1": 40, "t:2": 30, "t:3": 90}')
    (tmp_path / "previous.json").write_text('{"t:0": 1, "t:1": 1, "t:2": 1}')
    return tmp_path


def lagless(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lagless", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_a_plan_says_who_moves(folder: Path) -> None:
    words = ("plan", "--speeds", "speeds.json", "--previous", "previous.json", "--json")
    answer = lagless(folder, *words)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["consumers_now"] == 1
    assert found["consumers_then"] == 3
    assert found["arrivals"] == ["t:3"]
    assert [move["from"] for move in found["migrations"]] == [1]
    weight = found["migrations"][0]["weight"]
    assert found["rscore"] == weight / 100
    assert set(found["assignment"]) == {"t:0", "t:1", "t:2", "t:3"}
    assert max(found["load"].values()) <= 100


def test_a_plan_for_people_is_short(folder: Path) -> None:
    answer = lagless(folder, "plan", "--speeds", "speeds.json", "--previous", "previous.json")
    assert "1 consumers now, 3 planned" in answer.stdout
    assert "because: 1 partitions are not read" in answer.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [("[1]", "should be one JSON object"), ("{", "is not JSON"), ('{"t:0": -1}', "-1")],
)
def test_wrong_speeds_are_one_sentence(folder: Path, text: str, words: str) -> None:
    (folder / "speeds.json").write_text(text)
    answer = lagless(folder, "plan", "--speeds", "speeds.json")
    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
    assert words in answer.stderr


def test_an_unknown_algorithm_is_wrong_use(folder: Path) -> None:
    answer = lagless(
        folder, "plan", "--speeds", "speeds.json", "--set", "controller.algorithm=best"
    )
    assert answer.returncode == 2
    assert "unknown algorithm 'best'" in answer.stderr


@pytest.mark.parametrize("words", ["consumer 1", "pause", "reset --topic t --to latest"])
def test_members_that_lagless_did_not_write_are_neither_joined_nor_stopped(
    tmp_path: Path, words: str
) -> None:
    (tmp_path / "lagless.toml").write_text('group = "g"\ntopics = ["t"]\nmembers.kind = "group"\n')
    answer = lagless(tmp_path, *words.split())
    assert answer.returncode == 2
    assert 'members.kind is "group"' in answer.stderr
    assert answer.stderr.count("\n") == 1
