"""A group of unmodified members, led by `lagless controller` on a broker with the assignor."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lagless.adapters.kafka import mail
from lagless.adapters.kafka.speeds import SpeedsOut
from lagless.lab.parts.broker import Broker
from lagless.messages import ControllerState, WriteSpeeds
from lagless.settings import Settings, load
from tests.assignor.groups import Group, Held, broker_with_assignor
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
SKEWED = {0: 80.0, 1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0, 5: 10.0}


@pytest.fixture(scope="module")
def planned() -> Iterator[Broker]:
    """Run a broker with the assignor."""
    with broker_with_assignor() as running:
        yield running


class Led:
    """A group with a topic, its members, a stand-in for the monitor, and controllers."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.group = Group(broker)
        self.topic = self.group.topic("orders", len(SKEWED))
        self.config = folder / "lagless.toml"
        name = self.group.name
        self.config.write_text(
            f'group = "{name}"\ntopics = ["{self.topic}"]\n'
            f'[kafka]\nbootstrap = "{broker.bootstrap}"\n'
            f'[monitor]\ntopic = "{name}.speeds"\n'
            f'[controller]\nmetadata_topic = "{name}.mail"\niteration = 5\nrebalance = 1\n'
            "pause = 2\ncatch_up = 0\n"
            '[members]\nkind = "group"\nlook = 0.5\nfollow_deadline = 10\n'
        )
        self.settings: Settings = load(self.config)
        self.speeds = dict(SKEWED)
        self._controllers: list[subprocess.Popen[bytes]] = []
        self._ending = threading.Event()
        self._monitor = threading.Thread(target=self._measure, daemon=True)
        self._monitor.start()

    def lead(self) -> subprocess.Popen[bytes]:
        """Start a controller."""
        words = [sys.executable, "-m", "lagless", "controller", "--config", str(self.config)]
        log = (self.config.parent / "controller.log").open("ab")
        with log:
            process = subprocess.Popen(words, stdout=log, stderr=log)
        self._controllers.append(process)
        return process

    def status(self) -> dict[str, object]:
        """Return what `lagless status --json` says."""
        words = [sys.executable, "-m", "lagless", "status", "--json", "--config", str(self.config)]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def numbers(self) -> dict[str, list[int]]:
        """Return the partitions that each member reads."""
        return {name: held.get(self.topic, []) for name, held in self.group.held().items()}

    def wait_for(self, shape: Callable[[dict[str, list[int]]], bool], what: str) -> Held:
        """Wait until members read so, and all partitions are read once."""

        def fits() -> bool:
            found = self.numbers()
            read = sorted(k for held in found.values() for k in held)
            return read == sorted(SKEWED) and shape(found)

        until(fits, f"{what}; now {self.numbers()}")
        return self.numbers()

    def persisted(self) -> ControllerState:
        """Return what the controller persisted last."""
        state = mail.persisted(self.settings)
        assert state is not None
        return state

    def close(self) -> None:
        """End everything."""
        self._ending.set()
        self._monitor.join(30)
        for process in self._controllers:
            process.kill()
            process.wait()
        self.group.close()

    def _measure(self) -> None:
        out = SpeedsOut(self.settings)
        while not self._ending.wait(0.5):
            out.publish(
                WriteSpeeds(
                    group=self.settings.group,
                    at=time.time(),
                    window=30,
                    speeds={self.topic: self.speeds},
                    bytes_per_offset={self.topic: dict.fromkeys(self.speeds, 1.0)},
                )
            )
        out.close()


@pytest.fixture
def led(planned: Broker, tmp_path: Path) -> Iterator[Led]:
    """Return a group that nobody leads yet."""
    found = Led(planned, tmp_path)
    yield found
    found.close()
    print((tmp_path / "controller.log").read_text()[-6000:])


def alone(name: str) -> Callable[[dict[str, list[int]]], bool]:
    """Return whether the fast partition is alone, and the others share the rest."""

    def judge(found: dict[str, list[int]]) -> bool:
        return [0] in found.values() and len(found) == int(name)

    return judge


def test_members_are_placed_by_load_and_crashes_are_made_up_for(led: Led) -> None:
    for name in ("c-1", "c-2"):
        led.group.join(name, led.topic)
    until(lambda: led.group.counts() == [3, 3], "an even start")
    led.lead()
    led.wait_for(alone("2"), "the fast partition alone")

    led.group.join("c-3", led.topic)
    led.wait_for(
        lambda found: [0] in found.values() and sorted(map(len, found.values())) == [1, 2, 3],
        "work for the third",
    )
    status = led.status()
    assert status["follows"] is True
    assert {one["name"] for one in status["consumers"].values()} == {"c-1", "c-2", "c-3"}  # type: ignore[attr-defined]

    owner = next(name for name, held in led.numbers().items() if held == [0])
    led.group.members.pop(owner).kill()
    led.wait_for(alone("2"), "the others to take over")
    led.group.members.pop(next(iter(led.numbers()))).leave()
    led.wait_for(lambda found: len(found) == 1, "the last to read everything")


def test_a_killed_controller_is_replaced_and_nothing_moves(led: Led) -> None:
    for name in ("c-1", "c-2", "c-3"):
        led.group.join(name, led.topic)
    until(lambda: led.group.counts() == [2, 2, 2], "an even start")
    first = led.lead()
    before = led.wait_for(lambda found: [0] in found.values(), "the fast partition alone")
    second = led.lead()
    generation = led.persisted().generation

    os.kill(first.pid, signal.SIGKILL)
    until(lambda: led.persisted().generation > generation, "the second to lead")
    assert led.numbers() == before
    led.speeds = {**SKEWED, 0: 10.0, 5: 80.0}
    led.wait_for(lambda found: [5] in found.values(), "the new fast partition alone")
    assert second.poll() is None


def test_a_deleted_plan_topic_is_made_again(led: Led) -> None:
    for name in ("c-1", "c-2"):
        led.group.join(name, led.topic)
    until(lambda: led.group.counts() == [3, 3], "an even start")
    led.lead()
    led.wait_for(lambda found: [0] in found.values(), "the fast partition alone")

    led.group.delete_plan_topic()
    led.speeds = {**SKEWED, 0: 10.0, 5: 80.0}
    led.wait_for(lambda found: [5] in found.values(), "the new fast partition alone")
