"""Every command block of README and tutorial is run as a new user would, in an empty folder."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from lagless.lab.parts.broker import Broker
from lagless.lab.parts.connect import ConnectServer
from lagless.settings import load
from lagless.wiring import controller

ROOT = Path(__file__).parent.parent
LAGLESS = [sys.executable, "-m", "lagless"]


def blocks(name: str, language: str) -> list[str]:
    """Return the code blocks of a page, with the repository's own paths made absolute."""
    found = re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    return [re.sub(r"(?m)(^|\s)(scripts|\.venv)/", rf"\1{ROOT}/\2/", text) for text in found]


def run(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def test_the_library_block_of_the_readme(tmp_path: Path) -> None:
    (code,) = blocks("README.md", "python")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("0.3")


def test_the_two_commands_of_the_readme_explain_themselves(tmp_path: Path) -> None:
    for name in ("demo", "test"):
        said = run(f"{ROOT}/scripts/{name} --help", tmp_path)
        assert "sage" in said


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_the_commands_of_use_it(tmp_path: Path, broker: Broker, connect: ConnectServer) -> None:
    (text,) = blocks("README.md", "toml")
    text = text.replace("kafka:9092", broker.bootstrap).replace("/data/lake", str(tmp_path / "l"))
    text = text.replace('group = "orders"', 'group = "readme"')  # others share the broker
    (tmp_path / "lagless.toml").write_text(text + f'spark.url = "{connect.url}"\n')
    _, use = blocks("README.md", "sh")
    commands = [line.split("#")[0].split() for line in use.splitlines() if "lagless " in line]
    assert {words[1] for words in commands} >= {"doctor", "monitor", "controller", "plan"}
    started = []
    try:
        for words in commands:
            assert words[0] == "lagless", words
            if words[1] in ("monitor", "controller"):
                process = subprocess.Popen([*LAGLESS, *words[1:]], cwd=tmp_path)
                started.append(process)
                time.sleep(5)
                assert process.poll() is None, f"{words} ended by itself"
            else:
                done = subprocess.run(
                    [*LAGLESS, *words[1:]], cwd=tmp_path, capture_output=True, text=True
                )
                assert "Traceback" not in done.stderr
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        ended = [process.wait(60) for process in started]
        # Consumers outlive their controller on purpose.
        controller.end_consumers(load(tmp_path / "lagless.toml"))
    assert set(ended) <= {0, -signal.SIGTERM}


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(900)
def test_the_tutorial_from_top_to_bottom(tmp_path: Path) -> None:
    """This is also the demo's test: up to the end of its first spike, counted at its end."""
    setup, pack, again, demo, query = blocks("docs/tutorial.md", "sh")
    run(setup, tmp_path)
    assert json.loads(run(pack, tmp_path))["consumers"] == 2
    assert "0.3" in run(again, tmp_path)
    began = time.time()
    shorter = demo.strip().replace("--minutes 3", "--minutes 1.75")
    assert shorter != demo.strip()
    said = run(shorter + " --report report.json", tmp_path)
    assert "The dashboard is at http://127.0.0.1:" in said
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["produced"] > 100_000
    assert report["landed"] + report["rejected"] + report["gone"] == report["produced"]
    assert report["lost"] == report["duplicated"] == report["out_of_order"] == 0
    assert report["consumers_max"] >= 3
    assert report["reassignments"] >= 2
    assert run(query, tmp_path).split()[-1] == "orders"
    left = [
        process.pid
        for process in psutil.process_iter(["cmdline", "create_time"])
        if str(tmp_path) in " ".join(process.info["cmdline"] or ())
        and process.info["create_time"] >= began
        and process.pid != os.getpid()
    ]
    assert left == []
