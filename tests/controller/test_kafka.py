"""The controller on a real broker: mail, the lead, fencing with two processes, restarts."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lagless.adapters.kafka import mail
from lagless.adapters.kafka.mail import ConsumerMailbox, ControllerMailbox
from lagless.adapters.kafka.speeds import SpeedsOut
from lagless.messages import ControllerState, Decision, Heartbeat, Order, Receipt, WriteSpeeds
from lagless.operations import status as group_status
from lagless.settings import Settings, load
from lagless.wiring import controller as wiring
from tests import said
from tests.controller import actors
from tests.waiting import until

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

pytestmark = pytest.mark.kafka


@pytest.fixture
def config(broker: "Broker", topic: Callable[..., str], tmp_path: Path) -> Path:
    group = f"g-{uuid.uuid4().hex[:8]}"
    file = tmp_path / "lagless.toml"
    file.write_text(
        f'group = "{group}"\ntopics = ["{topic(partitions=6)}"]\n'
        f'[kafka]\nbootstrap = "{broker.bootstrap}"\n'
        f'[monitor]\ntopic = "{group}.speeds"\n'
        f'[controller]\nmetadata_topic = "{group}.mail"\niteration = 3\nrebalance = 0.5\n'
        "pause = 1\ncatch_up = 0\nshrink_after = 5\n"
        "[consumer]\nmax_rate = 120\nheartbeat = 0.5\nlost_after = 8\norder_deadline = 10\n"
        f'[lake]\npath = "{tmp_path / "lake"}"\n'
    )
    return file


@pytest.fixture
def running() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def start(running: list[subprocess.Popen[str]], *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-m", "tests.controller.actors", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    running.append(process)
    return process


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def collect(receive: Callable[[], Iterable[object]], count: int) -> list[object]:
    found: list[object] = []

    def enough() -> bool:
        found.extend(receive())
        return len(found) >= count

    until(enough, "enough messages", 60)
    return found


def assignments(settings: Settings) -> list[Decision]:
    return [
        decision
        for decision in wiring.events(settings)
        if isinstance(decision, Decision) and decision.decision == "assignment"
    ]


def publish(settings: Settings, speed: float, partitions: int = 6) -> None:
    out = SpeedsOut(settings)
    numbers = dict.fromkeys(range(partitions), speed)
    out.publish(
        WriteSpeeds(
            group=settings.group, at=time.time(), window=30, speeds={settings.topics[0]: numbers}
        )
    )
    out.close()


def test_mail_goes_both_ways_and_the_state_is_kept(config: Path) -> None:
    settings = load(config)
    mailbox = ControllerMailbox(settings)
    assert mailbox.lead() is None
    state = ControllerState(group=settings.group, generation=3, team=(40,), at=1)
    mailbox.send([], state)  # the topic grows before consumer 40 starts
    consumer = ConsumerMailbox(settings, 40)
    order = Order(
        group=settings.group, kind="report", consumer=40, incarnation="", generation=3, at=1
    )
    decision = said.decision(settings.group, "warning", "r", 1, "Sentinel", 3)
    mailbox.send([order], state, [decision])
    assert collect(lambda: consumer.receive(0.2), 1) == [order]
    assert mail.persisted(settings) == state
    assert list(wiring.events(settings)) == [decision]
    beat = Heartbeat(
        group=settings.group, consumer=40, incarnation="b.1", highest=3, state="ready", at=2
    )
    receipt = Receipt(
        group=settings.group,
        kind="report",
        consumer=40,
        incarnation="b.1",
        generation=3,
        highest=3,
        at=2,
    )
    consumer.send(receipt)
    consumer.send(beat)
    assert collect(lambda: mailbox.receive(0.2).messages, 2) == [receipt, beat]
    publish(settings, 5.0)
    speeds: list[WriteSpeeds] = []

    def measured() -> bool:
        post = mailbox.receive(0.1)
        assert not post.deaf
        speeds.extend([post.speeds] if post.speeds else [])
        return bool(speeds)

    until(measured, "a measurement", 60)
    assert speeds[0].speeds == {settings.topics[0]: dict.fromkeys(range(6), 5.0)}
    assert {p.partition for p in mailbox.partitions()} == set(range(6))
    consumer.close()
    mailbox.close()


def test_a_second_controller_fences_the_first(
    config: Path, running: list[subprocess.Popen[str]]
) -> None:
    settings = load(config)
    first = start(running, "leader", str(config))
    assert line(first) == "leads 0"
    assert line(first) == "sent 1"
    second = start(running, "leader", str(config))
    time.sleep(3)
    assert second.poll() is None
    first.send_signal(signal.SIGSTOP)
    reached = int(line(second).removeprefix("leads "))  # only after the first is silent
    assert reached >= 1
    assert line(second) == f"sent {reached + 1}"
    first.send_signal(signal.SIGCONT)
    said = line(first)
    while said.startswith("sent"):  # what it had said before it was stopped
        assert int(said.removeprefix("sent ")) <= reached
        said = line(first)
    assert said == "fenced"
    for _ in range(10):
        before = int(line(second).removeprefix("sent "))
    found = mail.persisted(settings)
    assert found is not None
    assert found.generation >= before, "only the second writes"


@pytest.mark.slow
def test_a_controller_is_killed_and_the_next_adopts_its_consumers(
    config: Path, running: list[subprocess.Popen[str]]
) -> None:
    settings = load(config)
    provisioner = actors.provisioner(settings, config)
    try:
        first = start(running, "controller", str(config))
        assert line(first) == "leads"
        publish(settings, 50.0)

        def settled() -> bool:
            state, _ = group_status.known(settings)
            held = [p for member in state.members.values() for p in member.held]
            return len(held) == len(set(held)) == 6

        until(settled, "one reader of each partition", 60)
        before = {i.consumer: i.birth for i in provisioner.instances()}
        assert len(before) == 3
        made = assignments(settings)
        first.kill()
        second = start(running, "controller", str(config))
        assert line(second) == "leads"
        time.sleep(3)
        publish(settings, 50.0)
        until(settled, "one reader of each partition", 60)
        assert {i.consumer: i.birth for i in provisioner.instances()} == before
        assert assignments(settings) == made, "nobody was disturbed"
        # A consumer dies, and its partitions find another.
        pid = next(iter((config.parent / "consumers").glob("consumer-1.json"))).read_text()
        os.kill(int(pid.split('"pid": ')[1].split(",")[0]), signal.SIGKILL)
        until(lambda: provisioner.instances()[0].birth != before[1], "a new consumer", 60)
        until(settled, "one reader of each partition", 60)
        # Speeds fall, and the group shrinks.
        publish(settings, 5.0)
        until(lambda: settled() and len(provisioner.instances()) == 1, "one consumer", 60)
        assert all(one.agrees for one in wiring.replay(settings))
    finally:
        for process in running:
            process.kill()
            process.wait()
        provisioner.end_all()
