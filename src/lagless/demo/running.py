"""The demo from the first step to the summary."""

import csv
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from lagless.demo import summary, traffic
from lagless.demo.children import Children
from lagless.demo.ground import MAX_RATE, TOTAL, Ground
from lagless.demo.listening import Listener
from lagless.demo.stages import Stages
from lagless.embedded import counting, jars, ports
from lagless.embedded.broker import Broker
from lagless.embedded.connect import ConnectServer
from lagless.embedded.tally import Tally
from lagless.errors import GiveUp
from lagless.settings import Settings

PATIENCE = 120.0
"""Seconds for the consumers to read what is left when the demo ends by itself."""
HURRY = 6.0
"""Seconds for the same when a person waits for it to end."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked for."""

    minutes: float | None = None
    data_dir: Path | None = None
    port: int | None = None
    seed: int = 0


class Demo:
    """Everything on this machine."""

    def __init__(self, wishes: Wishes, console: Console) -> None:
        self._wishes = wishes
        self._console = console
        self._stages = Stages(console)
        self._ground = Ground.prepare(wishes.data_dir)
        self._children = Children()
        self._ending = threading.Event()
        self._hurried = False

    def run(self) -> summary.Report:
        """Start everything, let it run, stop it and count."""
        try:
            with ExitStack() as stack:
                settings = self._start(stack)
                listener = Listener(settings)
                stack.callback(listener.close)
                began = self._load(settings)
                self._watch(listener, began)
                tally, unread = self._stop(settings, listener)
                with self._stages.step("Counting the lake against what was produced"):
                    report = summary.make(self._ground, settings, tally, listener, began, unread)
            if unread:
                self._stages.say(
                    f"{unread:,} records were still unread when the demo was stopped; "
                    "they are in Kafka and are not counted"
                )
            return report
        finally:
            self._ground.clear()

    def _start(self, stack: ExitStack) -> Settings:
        step, ground = self._stages.step, self._ground
        with step("Looking for Kafka, Spark's connector and Delta"):
            jars.fetch("broker")
            jars.fetch("spark")
        broker = Broker(ground.folder / "broker")
        connect = ConnectServer(ground.folder / "connect", warm=False)
        stack.callback(connect.stop)
        stack.callback(broker.stop)
        with (
            step("Starting a Kafka broker and a Spark Connect server", connect.log),
            ThreadPoolExecutor(1) as side,
        ):
            starting = side.submit(connect.start)
            broker.start()
            starting.result()
        with step("Warming Spark up", connect.log):
            connect.warm_up(broker.bootstrap)
        port = self._wishes.port or ports.free()[0]
        settings = ground.settle(broker.bootstrap, connect.url, port)
        stack.callback(self._end_consumers, settings)
        stack.callback(self._children.end)
        for role in ("monitor", "controller", "dashboard"):
            with step(f"Starting the {role}", ground.log(role)):
                self._children.start(
                    role, ["lagless", role, "--config", str(ground.config)], ground.log(role)
                )
        with step("Waiting for the dashboard", ground.log("dashboard")):
            self._until(lambda: ports.answers(port), "the dashboard does not answer")
        self._stages.say(
            f"\n[bold]The dashboard is at http://127.0.0.1:{port}[/] "
            f"[dim]({self._stages.seconds:.0f} s after the start)[/]\n"
        )
        return settings

    def _load(self, settings: Settings) -> float:
        """Start the load, and return when that was."""
        ground = self._ground
        flow = traffic.flow(TOTAL, settings.capacity, self._wishes.seed)
        file = ground.folder / "load.csv"
        with file.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow([f"{p.topic}:{p.partition}" for p in flow.partitions])
            writer.writerows([f"{speed:.0f}" for speed in row] for row in flow.speeds.tolist())
        with self._stages.step("Starting the load", ground.log("load")):
            words = ["--bootstrap", settings.kafka.bootstrap, "--flow", "replay"]
            words += ["--file", str(file), "--step", f"{flow.step:g}"]
            words += ["--sizes", "lognormal:400:0.6", "--tally", str(ground.tally)]
            self._children.start("load", ["lagless.embedded.load", *words], ground.log("load"))
            self._until(ground.tally.exists, "the load does not begin")
        self._stages.say(
            f"24 partitions of 3 topics at {TOTAL / 1e6:g} MB/s, three times as much in a spike of "
            f"one topic; a consumer reads {MAX_RATE / 1e6:g} MB/s at most. "
            f"The lake is in {ground.lake}. Ctrl-C ends the demo.\n"
        )
        return time.time()

    def _watch(self, listener: Listener, began: float) -> None:
        """Let it run until its time is over or a person ends it, and show how it does."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._interrupted)
        seconds = None if self._wishes.minutes is None else 60 * self._wishes.minutes
        pause = 1.0 if self._console.is_terminal else 15.0
        with self._console.status("…") as status:
            shown = 0.0
            while not self._ending.wait(0.5):
                self._children.check()
                listener.listen()
                passed = time.time() - began
                if seconds is not None and passed >= seconds:
                    return
                if time.monotonic() - shown >= pause:
                    shown = time.monotonic()
                    line = self._line(listener, passed, seconds)
                    if self._console.is_terminal:
                        status.update(line)
                    else:
                        self._console.print(line)

    def _line(self, listener: Listener, passed: float, seconds: float | None) -> str:
        speed = sum(listener.speeds[-1][1].values()) / 1e6 if listener.speeds else 0.0
        now = time.time()
        consumers = sum(now - at < 10 for at in listener.ready.values())
        of = "" if seconds is None else f" of {seconds:.0f}"
        return (
            f"{passed:.0f}{of} s: {speed:.2f} MB/s written, {consumers} consumers, "
            f"{len(listener.decisions.reassignments)} reassignments"
        )

    def _interrupted(self, *_: object) -> None:
        self._hurried = True
        self._ending.set()

    def _stop(self, settings: Settings, listener: Listener) -> tuple[Tally, int]:
        """Stop the load, let consumers read what is left, and stop them."""
        step = self._stages.step
        with step("Stopping the load", self._ground.log("load")):
            self._children.end("load")
            tally = Tally.load(self._ground.tally)
            if not tally.complete:
                raise GiveUp("the load ended before Kafka confirmed all that it produced")
        with step("Letting consumers read what is left"):
            unread = self._drain(settings, listener, tally)
        with step("Stopping controller, consumers, monitor and dashboard"):
            self._children.end("controller", patience=5)
            self._end_consumers(settings)
            self._children.end("monitor", "dashboard", patience=5)
        if unread:
            unread = tally.records - self._arrived(settings)
        return tally, unread

    def _drain(self, settings: Settings, listener: Listener, tally: Tally) -> int:
        """Wait until the lake has everything, and return how many records it still lacks."""
        began = time.monotonic()
        while True:
            listener.listen()
            unread = tally.records - self._arrived(settings)
            if unread <= 0:
                return 0
            if time.monotonic() - began > (HURRY if self._hurried else PATIENCE):
                return unread
            time.sleep(0.5)

    def _arrived(self, settings: Settings) -> int:
        tables = [settings.table_of(topic) for topic in traffic.TOPICS]
        return counting.arrived(self._ground.lake, tables)

    def _end_consumers(self, settings: Settings) -> None:
        from lagless.wiring import controller

        controller.end_consumers(settings)

    def _until(self, condition: Callable[[], bool], trouble: str) -> None:
        until = time.monotonic() + 60
        while not condition():
            self._children.check()
            if time.monotonic() > until:
                raise GiveUp(f"{trouble} within 60 s")
            time.sleep(0.1)
