"""A consumer that gets its orders from a benchmark, in the controller's place."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.shares import Share
from benchmarks.stage import DEADLINE, TOPIC, Stage
from lagless import messages
from lagless.adapters.kafka import topic_records, topics
from lagless.errors import LaglessError
from lagless.lab.parts import children
from lagless.messages import Heartbeat, Order, Receipt
from lagless.settings import Settings


class OrderedConsumer:
    """A process in a share, from its request on, and what it has said."""

    def __init__(
        self, stage: Stage, share: Share, settings: Settings, file: Path, number: int
    ) -> None:
        topics.ensure(settings)
        self._stage = stage
        self._settings = settings
        self._metadata = settings.controller.metadata_topic
        self._mail = topic_records.Reader(settings.kafka, self._metadata, 0, "end")
        self._mail.drain(0.5)
        self._number = number
        self.share = share
        self._incarnation = ""
        self._log = stage.folder / f"{settings.group}-{number}.log"
        self._before = share.seconds()
        self.requested = time.time()
        words = ("consumer", str(number), "--config", str(file))
        self._process = stage.start(share, self._log, *words)
        self.ready: float | None = None
        """Seconds from the request to the first heartbeat that says ready."""
        self.ready_seconds = 0.0
        """Processor seconds until then."""
        self.memory = 0.0
        """The most bytes that the processes held at a time."""
        self.anonymous = 0.0
        """The most of them that no file backs."""
        self.holds = False

    def listen(self, seconds: float = 0.1) -> None:
        """Take in what it says; SystemExit if it has ended by itself."""
        if self._process.poll() is not None:
            raise SystemExit(f"the consumer ended: {children.last_lines(self._log)}")
        with suppress(LaglessError):
            for record in self._mail.drain(seconds):
                said = messages.read(record.value)
                if isinstance(said, Receipt | Heartbeat) and said.consumer == self._number:
                    self._hear(said)
        self.memory = max(self.memory, self.share.memory())
        self.anonymous = max(self.anonymous, self.share.anonymous())

    def _hear(self, said: Receipt | Heartbeat) -> None:
        self._incarnation = said.incarnation
        self.holds = bool(said.held)
        if isinstance(said, Heartbeat) and said.state == "ready" and self.ready is None:
            self.ready = said.at - self.requested
            self.ready_seconds = self.share.seconds() - self._before

    def until(self, condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
        """Listen until a condition holds; SystemExit after so many seconds."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"nothing happens within {seconds:g} s: see {self._log}")
            self.listen()

    def start_all(self) -> float:
        """Order it to read every partition, and return when it was ordered."""
        self.until(lambda: self.ready is not None)
        at = time.time()
        writer = topic_records.Writer(self._settings.kafka)
        every = tuple((TOPIC, p) for p in range(self._stage.partitions))
        order = Order(
            group=self._settings.group,
            kind="start",
            consumer=self._number,
            incarnation=self._incarnation,
            generation=self._number,
            partitions=every,
            at=at,
        )
        writer.write(self._metadata, self._number, order.encode())
        return at

    def rest(self, seconds: float, idle: float = 0.15) -> None:
        """Wait until it does nothing more, as a spare that has rehearsed enough."""
        end = time.monotonic() + seconds
        quiet = 0
        while quiet < 3 and time.monotonic() < end:
            used, began = self.share.seconds(), time.monotonic()
            self.until(lambda began=began: time.monotonic() - began > 2.0)  # type: ignore[misc]
            cores = (self.share.seconds() - used) / (time.monotonic() - began)
            quiet = quiet + 1 if cores < idle else 0

    def end(self) -> None:
        """End it."""
        children.end(self._process, 30)
        self._mail.close()
