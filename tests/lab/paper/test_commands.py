"""The commands `simulate` and `latency`, as a user types them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from lagless.cli import app
from lagless.lab.model import streams

command = app.gather()


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "stream.csv"
    drawn = streams.generate("random", 5, 32, 100, 100.0, np.random.default_rng(1))
    streams.write(drawn, path)
    return path


def run(*words: str | Path) -> dict[str, Any]:
    result = CliRunner().invoke(command, [str(word) for word in words] + ["--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_simulate_names_algorithms_as_typed(stream: Path) -> None:
    names = ["bfd", "kd_20", "kd_<n>:n=20", "mwf", "nf"]
    found = run(
        "simulate", "--stream", stream, "--capacity", "100", "--algorithms", ",".join(names)
    )
    assert list(found["algorithms"]) == names
    assert set(found["algorithms"]["mwf"]) == {"cbs", "rscore", "consumers", "migrations"}
    assert found["algorithms"]["kd_20"] == found["algorithms"]["kd_<n>:n=20"]
    assert found["algorithms"]["bfd"]["cbs"] < found["algorithms"]["mwf"]["cbs"]


def test_cbs_is_over_the_algorithms_listed(stream: Path) -> None:
    words = ("simulate", "--stream", stream, "--capacity", "100", "--order", "fixed")
    alone = run(*words, "--algorithms", "nf")["algorithms"]["nf"]
    beside = run(*words, "--algorithms", "nf,bfd")["algorithms"]["nf"]
    assert alone["cbs"] == 0
    assert beside["cbs"] > 0.1
    assert alone["rscore"] == beside["rscore"]


def test_a_fixed_order_needs_no_seed(stream: Path) -> None:
    words = ("simulate", "--stream", stream, "--capacity", "100", "--algorithms", "nf,ff,bf,wf")
    assert run(*words, "--order", "fixed") == run(*words, "--order", "fixed", "--seed", "7")
    assert run(*words) == run(*words)
    assert run(*words) != run(*words, "--seed", "7")


def test_latency_gives_the_papers_figures(stream: Path) -> None:
    words = ("latency", "--stream", stream, "--capacity", "100", "--max-rate", "133")
    found = run(*words, "--algorithms", "mwf,kd_15,kd_32,keda_range:threshold=5")["algorithms"]
    keys = {"consumers", "bytes", "late_bytes", "p50", "p90", "p99", "max"}
    assert all(set(waits) == keys for waits in found.values())
    assert found["mwf"]["p90"] == pytest.approx(4.5)
    assert found["mwf"]["max"] == 5
    assert found["kd_15"]["consumers"] == 15
    assert found["kd_15"]["p90"] > 100
    assert found["kd_32"]["late_bytes"] == found["kd_32"]["p99"] == found["kd_32"]["max"] == 0
    speeds = streams.read(stream).speeds
    assert found["mwf"]["bytes"] == pytest.approx(30 * speeds[1:].sum())


def test_iteration_and_rebalance_are_parameters(stream: Path) -> None:
    words = ("latency", "--stream", stream, "--capacity", "100", "--max-rate", "200")
    found = run(*words, "--algorithms", "mwf", "--iteration", "10", "--rebalance", "2")
    assert found["algorithms"]["mwf"]["max"] == 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["simulate", "--capacity", "100", "--algorithms", "nn"], "unknown algorithm 'nn'"),
        (["simulate", "--capacity", "0", "--algorithms", "nf"], "capacity"),
        (["simulate", "--capacity", "1", "--algorithms", "nf,"], "unknown algorithm ''"),
        (["simulate", "--capacity", "1", "--algorithms", "keda_range"], "unknown algorithm"),
        (["latency", "--capacity", "1", "--max-rate", "-1", "--algorithms", "nf"], "max rate"),
        (
            ["latency", "--capacity", "1", "--max-rate", "1", "--algorithms", "keda_range:x=1"],
            "threshold, polling, cooldown",
        ),
    ],
)
def test_wrong_use_is_one_sentence(
    stream: Path, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    result = CliRunner().invoke(command, [*words, "--stream", str(stream)])
    assert result.exit_code != 0
    assert named in str(result.exception)
    assert result.stdout == ""


def test_people_get_a_table(stream: Path) -> None:
    words = ["simulate", "--stream", str(stream), "--capacity", "100", "--algorithms", "bfd,mwf"]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0
    assert "E(Rscore)" in result.stdout
    assert "mwf" in result.stdout


def test_no_number_is_cut_off_in_a_terminal_of_80_columns(stream: Path) -> None:
    words = ["--stream", str(stream), "--capacity", "100", "--max-rate", "120"]
    words += ["--algorithms", "mwf,sticky:slack=0.0123456789,keda_cooperative"]
    master, slave = os.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "lagless", "latency", *words],
        stdout=slave,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
    )
    assert done.wait() == 0
    os.close(slave)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", os.read(master, 100_000).decode()).splitlines()
    os.close(master)
    assert "…" not in "".join(shown)
    assert all(len(line) <= 80 for line in shown)
    assert shown[0].split("  ")[0] == "algorithm"
    assert shown[0].count("(s)") == 4


def test_a_pipe_gets_a_line_with_tabs_per_algorithm(stream: Path) -> None:
    words = ["simulate", "--stream", str(stream), "--capacity", "100", "--algorithms", "bfd,mwf"]
    header, *lines = CliRunner().invoke(command, words).stdout.splitlines()
    assert header.split("\t") == ["algorithm", "CBS", "E(Rscore)", "consumers", "migrations"]
    assert [line.split("\t")[0] for line in lines] == ["bfd", "mwf"]
    assert {len(line.split("\t")) for line in lines} == {5}
