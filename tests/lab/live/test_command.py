"""The command on real parts, in a small form: it measures, goes on, and leaves nothing running."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = ["--steps", "2", "--window", "3", "--observations", "4", "--partitions", "6"]


def live(out: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lagless", "evaluate", "live", "--out", str(out), *words]
    # Pods take minutes: here consumers are processes, also where there is a cluster.
    here = {name: value for name, value in os.environ.items() if name != "LAGLESS_TEST_KUBECONFIG"}
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, env=here)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(1500)
@pytest.mark.kafka
@pytest.mark.spark
def test_steps_and_responses_are_measured(tmp_path: Path) -> None:
    done = live(tmp_path, "--only", "dt1,response", *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    steps, response = found["parts"]["dt1"], found["parts"]["response"]
    assert steps["dt1"]["count"] + steps["not_shown"] == 2
    seen = response["provisioners"]["processes"]
    assert seen["dt2"]["count"] >= 4
    assert seen["dt3"]["count"] >= 2
    assert seen["dt4"]["count"] >= 4
    assert seen["dt4_reading"]["count"] >= 2
    page = Path(found["report"]).read_text("utf-8")
    assert page.count("<figure") == 5
    again = live(tmp_path, "--only", "dt1,response", *SMALL)
    assert again.returncode == 0
    assert again.stderr.count("already measured") == 2


def test_wrong_use_is_one_sentence(tmp_path: Path) -> None:
    done = live(tmp_path, "--only", "dt7")
    assert done.returncode == 2
    assert done.stderr.startswith("lagless: --only dt7: there is no such part, only dt1")
    assert len(done.stderr.splitlines()) == 1
