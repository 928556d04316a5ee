"""The command `lagless pack`."""

import json
import sys
from pathlib import Path

import pytest

from lagless.cli import app


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    """Run the command line and return its exit status, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["lagless", "pack", *words])
    with pytest.raises(SystemExit) as ending:
        app.main()
    told = capsys.readouterr()
    return int(ending.value.code or 0), told.out, told.err


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    speeds, previous = tmp_path / "speeds.json", tmp_path / "previous.json"
    speeds.write_text('{"t:0": 6, "t:1": 5.5, "t:2": 12, "t:3": 4}')
    previous.write_text('{"t:0": 2, "t:3": 1, "gone": 7}')
    return str(speeds), str(previous)


def test_prints_one_json_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: tuple[str, str]
) -> None:
    words = ["--speeds", files[0], "--previous", files[1], "--capacity", "10", "--algorithm", "ff"]
    status, out, _ = run(monkeypatch, capsys, *words, "--json")
    assert status == 0
    assert json.loads(out) == {
        "assignment": {"t:0": 2, "t:1": 1, "t:2": 3, "t:3": 1},
        "consumers": 3,
        "rscore": 0.0,
        "migrations": 0,
        "oversize": ["t:2"],
    }


def test_speaks_to_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], files: tuple[str, str]
) -> None:
    status, out, _ = run(
        monkeypatch, capsys, "--speeds", files[0], "--capacity", "10", "--algorithm", "kd_2"
    )
    assert status == 0
    assert "consumer 1: t:0, t:2" in out
    assert "2 consumers, 0 migrations, Rscore 0" in out
    assert "faster than the capacity: t:2" in out


@pytest.mark.parametrize(
    ("content", "words", "match"),
    [
        ('{"a": 1}', ["--capacity", "0"], "capacity has to be a finite number above 0"),
        ('{"a": 1}', ["--capacity", "1", "--algorithm", "xyz"], "unknown algorithm 'xyz'; known: "),
        ('{"a": -1}', ["--capacity", "1"], "the speed of 'a'"),
        ('{"a": NaN}', ["--capacity", "1"], "the speed of 'a'"),
        ('{"a": 1, "a": 2}', ["--capacity", "1"], "names 'a' twice"),
        ("[1]", ["--capacity", "1"], "must hold a JSON object"),
        ("{", ["--capacity", "1"], "is not JSON"),
    ],
)
def test_wrong_use_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: str,
    words: list[str],
    match: str,
) -> None:
    file = tmp_path / "speeds.json"
    file.write_text(content)
    if "--algorithm" not in words:
        words = [*words, "--algorithm", "ff"]
    status, out, err = run(monkeypatch, capsys, "--speeds", str(file), "--json", *words)
    assert status == 2
    assert out == ""
    assert match in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.json")
    status, _, err = run(monkeypatch, capsys, "--speeds", missing, "--capacity", "1")
    assert status == 1
    assert missing in err
    assert "Traceback" not in err
