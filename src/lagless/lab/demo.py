"""The demo: the whole system on this machine under a load that moves, and its summary."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from lagless.adapters.lake import bucket_proof, store
from lagless.adapters.spark import jars
from lagless.errors import GiveUp, LaglessError, WrongInput
from lagless.lab import demo_summary, testbed
from lagless.lab.load import counting, flows, records
from lagless.lab.load.account import Tally
from lagless.lab.load.flows import Flow
from lagless.lab.parts import broker, children
from lagless.lab.testbed import Listener, Testbed
from lagless.settings import Bucket, Settings, StorageSettings
from lagless.settings.storage import place
from lagless.wiring import clock, controller

MAX_RATE = 500_000
"""Bytes/s that a consumer of the demo is limited to, so that a small load needs several."""
TOTAL = 1_000_000
"""Bytes/s of the whole load between spikes: what two cores read beside everything else."""
TOPICS = {"orders": 8, "payments": 8, "clicks": 8}
STEP = 5.0
"""Seconds for which speeds stay as they are."""
HOURS = 2
"""After this time the load repeats."""
FIRST_SPIKE, BETWEEN_SPIKES, SPIKE, FACTOR = 60, 150, 50, 3.0
"""Seconds to the first spike, from one to the next, of a spike; how many times as fast."""


def spikes() -> list[tuple[str, int]]:
    """Return each spike's topic, in turn, and its begin in seconds from the load's start."""
    return list(zip(cycle(TOPICS), range(FIRST_SPIKE, HOURS * 3600, BETWEEN_SPIKES)))


def flow(total: float, capacity: float, seed: int) -> Flow:
    """Return the load: `total` bytes/s shared out by Zipf's law, each share a random walk.

    No partition comes near the capacity on its own, so that packing has a choice.
    """
    rng = np.random.default_rng(seed)
    partitions = flows.spread(TOPICS)
    count, rows = len(partitions), int(HOURS * 3600 / STEP)
    weights = rng.permutation(1.0 / np.arange(1, count + 1) ** 0.7)
    walk = np.cumsum(rng.normal(0, 0.06, (rows, count)), axis=0)
    # Pulled back to its share, so that the total stays what the machine can do.
    walk -= np.linspace(0, 1, rows)[:, None] * walk[-1]
    shares = weights * np.exp(np.clip(walk, -1.0, 1.0))
    speeds = total * shares / shares.sum(axis=1, keepdims=True)
    for topic, begin in spikes():
        rows_of = slice(int(begin / STEP), int((begin + SPIKE) / STEP))
        columns = [j for j, partition in enumerate(partitions) if partition.topic == topic]
        speeds[rows_of, columns] *= FACTOR
    return Flow(partitions, np.minimum(speeds, 0.8 * capacity), STEP)


def tree(port: int) -> dict[str, Any]:
    """Return the settings of the demo, without the testbed's addresses."""
    pace = {"iteration": 20, "rebalance": 5, "pause": 5, "catch_up": 30}
    batch = {"batch_bytes": "2 MB", "max_batch_bytes": "8 MB"}
    return {
        "group": "demo",
        "topics": list(TOPICS),
        "monitor": {"interval": 2, "window": 10},
        "controller": {**pace, "max_consumers": 8},
        "consumer": {"max_rate": MAX_RATE, **batch},
        "dashboard": {"port": port},
        "topic": {topic: {"format": "json", "schema": records.SCHEMA} for topic in TOPICS},
    }


def prepare(folder: Path) -> Path:
    """Return the folder, which must be new, empty or an earlier demo's, without old data."""
    folder = folder.absolute()
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "lagless.toml").exists():
        raise WrongInput(f"--data-dir {folder} has other files in it; name an empty folder")
    for old in ("lake", "broker", "consumers", "connect", "logs"):
        shutil.rmtree(folder / old, ignore_errors=True)
    (folder / "tally.json").unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def bucket(address: str) -> Bucket:
    """Return the bucket that an address names: WrongInput if it names none."""
    try:
        found = place(address)
    except ValueError as error:
        raise WrongInput(f"--lake: {error}") from error
    if not isinstance(found, Bucket):
        raise WrongInput(
            f"--lake {address} should be s3://bucket/prefix; name a folder by --data-dir"
        )
    return found


def prepare_bucket(lake: Bucket) -> None:
    """Find a bucket usable and without tables of the demo's names."""
    storage = StorageSettings()
    try:
        bucket_proof.check(lake, storage)
        here = store.at(lake, storage)
        present = [topic for topic in TOPICS if here.inside(topic).is_table()]
    except OSError as error:
        raise GiveUp(str(error)) from error
    if present:
        raise WrongInput(
            f"--lake {lake} has tables named {', '.join(present)}; name another prefix, such as "
            f"{lake.inside('demo')}"
        )


NEAR = 0.05
"""A published speed shows a change when it is this close to the new one, relatively."""


def dt1(listener: Listener, began: float) -> float | None:
    """Return the median time from a spike's begin or end until the monitor shows it."""
    return testbed.median(
        _shown_after(listener, topic, began + change)
        for topic, begin in spikes()
        for change in (begin, begin + SPIKE)
    )


def _shown_after(listener: Listener, topic: str, change: float) -> float | None:
    """Return the time until the speed is what it settles at before the next change."""
    until = change + SPIKE
    after = [(at, speeds.get(topic, 0.0)) for at, speeds in listener.speeds if change <= at < until]
    if len(after) < 3 or until > listener.speeds[-1][0]:
        return None
    settled = after[-1][1]
    shown = next((at for at, speed in after if abs(speed - settled) <= NEAR * settled), None)
    return None if shown is None else shown - change


START = 30.0
"""Seconds of the load after which it counts as steady: the first consumers have been started."""
AFTER = 15.0
"""Seconds after a spike that still belong to it."""


def phases(began: float) -> demo_summary.Phases:
    """Return which records belong to the steady load, and which to a spike."""
    begins = np.array([begin for _, begin in spikes()])

    def spike(stamps: NDArray[np.float64]) -> NDArray[np.bool_]:
        seconds = stamps - began
        last = np.searchsorted(begins, seconds, side="right") - 1
        since = np.where(last >= 0, seconds - begins[last], np.inf)
        return np.asarray(since < SPIKE + AFTER)

    def steady(stamps: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray((stamps - began >= START) & ~spike(stamps))

    return demo_summary.Phases(steady, spike)


PATIENCE = 120.0
"""Seconds for the consumers to read what is left when the demo ends by itself."""
HURRY = 6.0
"""Seconds for the same when a person waits for it to end."""


@dataclass(slots=True)
class Demo:
    """Everything on this machine."""

    console: Console
    minutes: float | None = None
    data_dir: Path | None = None
    port: int | None = None
    seed: int = 0
    lake: Bucket | None = None
    """Where the tables are, if not in the folder."""
    _bed: Testbed = field(init=False)
    _began: float = field(default_factory=time.monotonic)
    _ending: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._bed = Testbed(self.data_dir and prepare(self.data_dir))

    def run(self) -> demo_summary.Report:
        """Start everything, let it run, stop it and count."""
        with ExitStack() as stack:
            stack.push(self._bed.__exit__)
            settings = self._start(stack)
            listener = Listener(settings)
            stack.callback(listener.close)
            began = self._load(settings)
            self._watch(listener, began)
            tally, unread = self._stop(settings, listener)
            with self._step("Counting the lake against what was produced"):
                tables = {topic: settings.table_of(topic) for topic in tally.produced}
                count = counting.count(store.of(settings.lake), tables, tally.produced)
                report = demo_summary.make(
                    count, listener, dt1=dt1(listener, began), unread=unread, phases=phases(began)
                )
        if unread:
            self.console.print(
                f"{unread:,} records were still unread when the demo was stopped; "
                "they are in Kafka and are not counted"
            )
        return report

    def _start(self, stack: ExitStack) -> Settings:
        step, bed = self._step, self._bed
        if self.lake is not None:
            with step(f"Checking {self.lake}"):
                prepare_bucket(self.lake)
        with step("Looking for Kafka, Spark's connector and Delta"):
            broker.fetch_jars()
            jars.fetch("spark")
        with step("Starting a Kafka broker and a Spark Connect server", bed.connect.log):
            bed.start()
        with step("Warming Spark up", bed.connect.log):
            bed.warm_up()
        port = self.port or children.free_tcp_ports()[0]
        lake = {} if self.lake is None else {"lake": {"path": str(self.lake)}}
        settings, config = bed.settle({**tree(port), **lake})
        stack.callback(controller.end_consumers, settings)
        stack.callback(bed.children.end)
        for role in ("monitor", "controller", "dashboard"):
            with step(f"Starting the {role}", bed.log(role)):
                bed.start_role(role, config)
        with step("Waiting for the dashboard", bed.log("dashboard")):
            bed.until(lambda: children.answers(port), "the dashboard does not answer")
        self.console.print(
            f"\n[bold]The dashboard is at http://127.0.0.1:{port}[/] "
            f"[dim]({time.monotonic() - self._began:.0f} s after the start)[/]\n"
        )
        return settings

    def _load(self, settings: Settings) -> float:
        """Start the load, and return when that was."""
        with self._step("Starting the load", self._bed.log("load")):
            load = flow(TOTAL, settings.capacity, self.seed)
            began = self._bed.start_load(load, "--sizes", "lognormal:400:0.6")
        self.console.print(
            f"24 partitions of 3 topics at {TOTAL / 1e6:g} MB/s, three times as much in a spike of "
            f"one topic; a consumer reads {MAX_RATE / 1e6:g} MB/s at most. "
            f"The lake is in {settings.lake.path}. Ctrl-C ends the demo.\n"
        )
        return began

    def _watch(self, listener: Listener, began: float) -> None:
        """Let it run until its time is over or a person ends it, and show how it does."""
        clock.on_signals(self._ending.set)
        seconds = None if self.minutes is None else 60 * self.minutes
        pause = 1.0 if self.console.is_terminal else 15.0
        with self.console.status("…") as status:
            show = status.update if self.console.is_terminal else self.console.print
            shown = 0.0
            while not self._ending.wait(0.5):
                self._bed.children.check()
                listener.listen()
                passed = time.time() - began
                if seconds is not None and passed >= seconds:
                    return
                if time.monotonic() - shown >= pause:
                    shown = time.monotonic()
                    show(self._line(listener, passed, seconds))

    def _line(self, listener: Listener, passed: float, seconds: float | None) -> str:
        speed = sum(listener.speeds[-1][1].values()) / 1e6 if listener.speeds else 0.0
        consumers = sum(beat.state == "ready" for beat in listener.fresh())
        of = "" if seconds is None else f" of {seconds:.0f}"
        return (
            f"{passed:.0f}{of} s: {speed:.2f} MB/s written, {consumers} consumers, "
            f"{len(listener.history.reassignments)} reassignments"
        )

    def _stop(self, settings: Settings, listener: Listener) -> tuple[Tally, int]:
        """Stop the load, let consumers read what is left, and stop them."""
        step = self._step
        with step("Stopping the load", self._bed.log("load")):
            tally = self._bed.end_load()
            if not tally.complete:
                raise GiveUp("the load ended before Kafka confirmed all that it produced")
        with step("Letting consumers read what is left"):
            unread = self._drain(settings, listener, tally)
        with step("Stopping controller, consumers, monitor and dashboard"):
            self._bed.children.end("controller", patience=5)
            controller.end_consumers(settings)
            self._bed.children.end("monitor", "dashboard", patience=5)
        if unread:
            unread = self._unread(settings, tally)
        return tally, unread

    def _drain(self, settings: Settings, listener: Listener, tally: Tally) -> int:
        """Wait until the lake has everything, and return how many records it still lacks."""
        began = time.monotonic()
        while (unread := self._unread(settings, tally)) > 0:
            listener.listen()
            if time.monotonic() - began > (HURRY if self._ending.is_set() else PATIENCE):
                return unread
            time.sleep(0.5)
        return 0

    def _unread(self, settings: Settings, tally: Tally) -> int:
        tables = [settings.table_of(topic) for topic in TOPICS]
        return tally.records - counting.arrived(store.of(settings.lake), tables)

    @contextmanager
    def _step(self, what: str, log: Path | None = None) -> Iterator[None]:
        """Show a step while it lasts; a failure says which step it was and where its log is."""
        began = time.monotonic()
        try:
            with self.console.status(f"{what} …"):
                if not self.console.is_terminal:
                    self.console.print(f"… {what}")
                yield
        except LaglessError as error:
            where = f"; its log is {log}" if log is not None and str(log) not in str(error) else ""
            raise GiveUp(f"{what} failed: {error}{where}") from error
        self.console.print(f"[green]✓[/] {what} [dim]({time.monotonic() - began:.1f} s)[/]")
