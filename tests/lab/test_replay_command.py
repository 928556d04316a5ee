"""The command `replay` on files and drawn streams; tests/adapters reads a real topic."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lagless.cli import app, operations_commands, options
from lagless.errors import WrongInput

RUN = CliRunner()


def run(tmp_path: Path, *words: str) -> dict[str, dict[str, float]]:
    result = RUN.invoke(
        app.gather(), ["replay", "-c", str(tmp_path / "none.toml"), *words, "--json"]
    )
    assert result.exception is None, result.output
    (stream,) = json.loads(result.stdout)["streams"]
    ways: dict[str, dict[str, float]] = stream["ways"]
    return ways


def test_a_drawn_stream_is_compared(tmp_path: Path) -> None:
    words = ("--kinds", "steps", "--hours", "0.3", "--partitions", "20", "--consumers", "4")
    ways = run(tmp_path, *words)
    assert list(ways) == ["lagless", "0.1.0", "mwf", "keda", "clairvoyant"]
    assert all(found["bytes"] == ways["mwf"]["bytes"] for found in ways.values())
    other = run(tmp_path, *words, "--seed", "1")
    assert other["lagless"]["bytes"] != ways["lagless"]["bytes"]


def test_a_file_is_replayed_at_its_step(tmp_path: Path) -> None:
    file = tmp_path / "stream.csv"
    file.write_text("a,b\n" + "1e6,2e6\n" * 11)
    ways = run(tmp_path, "--stream", str(file), "--step", "30", "--ways", "lagless,keda")
    assert ways["lagless"]["bytes"] == 3e6 * 300
    assert ways["lagless"]["consumers"] == 1
    assert list(ways) == ["lagless", "keda"]


def test_where_no_terminal_is_lines_have_tabs(tmp_path: Path) -> None:
    words = ["replay", "-c", str(tmp_path / "none.toml"), "--kinds", "rest", "--hours", "0.1"]
    result = RUN.invoke(app.gather(), words)
    lines = result.stdout.splitlines()
    assert lines[1].split("\t")[:2] == ["way", "late"]
    assert {len(line.split("\t")) for line in lines[1:7]} == {9}
    assert lines[7].startswith("to the clairvoyant: ")
    assert lines[8].startswith("without late bytes at least ")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--ways", "lagless,best"], 'unknown way "best"'),
        (["--kinds", "waves"], 'unknown kind "waves"'),
        (["--kinds", "rest", "--stream", "x.csv"], "give one of them"),
        ([], "does not exist"),
    ],
)
def test_wrong_words_are_named(tmp_path: Path, words: list[str], wrong: str) -> None:
    result = RUN.invoke(app.gather(), ["replay", "-c", str(tmp_path / "none.toml"), *words])
    assert isinstance(result.exception, Exception)
    assert wrong in str(result.exception)


def test_times_are_read_as_people_write_them() -> None:
    times = [options.ago(text, "--since").total_seconds() for text in ("90m", "24h", "1.5d")]
    assert times == [5400, 86400, 129600]
    with pytest.raises(WrongInput, match="--since yesterday: expected"):
        options.ago("yesterday", "--since")


def test_targets_are_shown_as_delay_against_consumers(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"delay_p99": 4.0, "late_share": 0.01, "moves_per_hour": 3.0}
    rows = [{"delay": 5.0, "chosen": True, "consumers": 8.0, **row}]
    rows += [{"delay": 60.0, "chosen": False, "consumers": 4.0, **row}]
    operations_commands.show_targets(rows)
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("5 s (set)")
    assert (first.count("▇"), second.count("▇")) == (20, 10)
