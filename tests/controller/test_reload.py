"""A controller whose settings file changes, on a real broker."""

import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lagless.messages import Began
from lagless.settings import load
from lagless.wiring import controller as wiring
from tests import waiting

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def write(file: Path, broker: "Broker", group: str, pause: float, folder: str = "lake") -> None:
    file.write_text(
        f'group = "{group}"\ntopics = ["{group}-none"]\n[lake]\npath = "{folder}"\n'
        f'[kafka]\nbootstrap = "{broker.bootstrap}"\n[monitor]\ntopic = "{group}-speeds"\n'
        f'[controller]\nmin_consumers = 0\npause = {pause}\nmetadata_topic = "{group}-mail"\n'
    )


def test_a_controller_takes_over_what_it_can_and_names_the_rest(
    broker: "Broker", tmp_path: Path
) -> None:
    group = f"g{uuid.uuid4().hex[:8]}"
    file, log = tmp_path / "lagless.toml", tmp_path / "log"
    write(file, broker, group, 10)
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "lagless", "controller", "--config", str(file)],
            cwd=tmp_path,
            stderr=out,
            stdout=out,
        )
    try:
        waiting.until(lambda: log.read_text().count("leading from") == 1, "the lead", 120)
        time.sleep(2)  # until the beginning is in the log
        write(file, broker, group, 3, "other")
        waiting.until(lambda: log.read_text().count("leading from") == 2, "the lead again", 120)
        said = (
            "the settings changed; in effect from now on: controller.pause; "
            "in effect after a restart: lake.path"
        )
        assert said in " ".join(log.read_text().split())

        def pauses() -> list[float]:
            events = wiring.events(load(file, {}), told=True)
            return [event.policy["pause"] for event in events if isinstance(event, Began)]

        waiting.until(lambda: pauses() == [10, 3], "both policies in the event log", 120)
        file.write_text("group =")
        waiting.until(lambda: "those before stay in effect" in log.read_text(), "the trouble", 120)
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(60)
