"""`lagless pause`, `drain` and `resume` on a real broker, with consumers that read nothing."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lagless.cli.app import gather
from lagless.errors import TryAgain
from lagless.messages import Operated
from lagless.operations import standstill
from lagless.operations import status as group_status
from lagless.settings import load
from lagless.wiring import controller as wiring
from tests.controller import actors
from tests.controller.test_kafka import config, line, publish, running, start
from tests.waiting import until

__all__ = ["config", "running"]
pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def lagless(config: Path, *words: str) -> dict[str, Any]:
    """Run a command and return its JSON."""
    ended = CliRunner().invoke(gather(), [*words, "--config", str(config), "--json"])
    if ended.exception is not None:
        raise ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_group_stands_still_and_goes_on(
    config: Path, running: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(config)
    provisioner = actors.provisioner(settings, config)

    def settled() -> bool:
        state, _ = group_status.known(settings)
        return len(state.holders()) == 6

    try:
        first = start(running, "controller", str(config))
        assert line(first) == "leads"
        publish(settings, 50.0)
        until(settled, "one reader of each partition", 120)
        before = {i.consumer: i.birth for i in provisioner.instances()}

        assert lagless(config, "pause")["state"] == "paused"
        shown = lagless(config, "status")
        assert shown["mode"]["state"] == "paused"
        assert "@" in shown["mode"]["who"]
        assert len(shown["unread"]) == 6
        first.kill()
        monkeypatch.setattr(standstill, "PATIENCE", 2.0)
        with pytest.raises(TryAgain, match="no controller of group"):
            lagless(config, "resume")
        monkeypatch.undo()
        second = start(running, "controller", str(config))
        assert line(second) == "leads"
        publish(settings, 50.0)
        time.sleep(5)
        assert lagless(config, "status")["mode"]["state"] in ("paused", "running")
        assert {i.consumer: i.birth for i in provisioner.instances()} == before

        assert lagless(config, "resume")["state"] == "running"
        until(settled, "one reader of each partition", 120)
        assert lagless(config, "drain", "--wait", "120")["state"] == "drained"
        assert lagless(config, "status")["unread"] != []
        assert lagless(config, "resume")["state"] == "running"
        until(settled, "one reader of each partition", 120)

        log = [d.details for d in wiring.events(settings) if isinstance(d, Operated)]
        states = [d.state for d in log]
        assert states[0] == "paused"
        assert states[-1] == "running"
        assert "drained" in states
        assert all("@" in d.who for d in log)
        assert all(one.agrees for one in wiring.replay(settings))
    finally:
        for process in running:
            process.kill()
            process.wait()
        provisioner.end_all()
