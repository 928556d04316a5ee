"""Every example runs, and says what it should."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lagless.lab.parts.broker import Broker
from lagless.lab.parts.connect import ConnectServer

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_example_is_numbered_and_tested_here() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert [name[:2] for name in names] == [f"{n:02}" for n in range(1, len(names) + 1)]
    tested = Path(__file__).read_text()
    assert [name for name in names if f'"{name}"' not in tested] == []


def test_packing_by_hand(tmp_path: Path) -> None:
    said = run("01_pack_by_hand.py", tmp_path)
    assert "sticky: " in said
    assert "Rscore 0.30" in said


def test_simulating_your_traffic(tmp_path: Path) -> None:
    said = run("02_simulate_your_traffic.py", tmp_path)
    assert "kd_15: 15.0 consumers, E(Rscore) 0.00" in said


def test_an_algorithm_of_your_own(tmp_path: Path) -> None:
    assert "'a': 1, 'b': 2, 'c': 2" in run("05_own_algorithm.py", tmp_path)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_from_a_topic_to_a_query(tmp_path: Path, broker: Broker, connect: ConnectServer) -> None:
    parts = {"LAGLESS_KAFKA__BOOTSTRAP": broker.bootstrap, "LAGLESS_SPARK__URL": connect.url}
    said = run("03_json_topic_to_delta.py", tmp_path, **parts)
    assert "1000 orders landed, 1 record was rejected" in said
    assert "this is not JSON" in said
    said = run("04_own_transform.py", tmp_path, **parts)
    assert "totals: [0.0, 2.5, 5.0, 7.5, 10.0]" in said
    said = run("06_query_the_lake.py", tmp_path)
    assert "20 orders from offset 490 on" in said
    assert "revenue: 28471.5" in said
