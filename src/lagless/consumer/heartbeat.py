"""Heartbeats: what they report, and the thread that sends them while a long cycle runs."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from lagless.errors import LaglessError
from lagless.messages import Heartbeat, PerPartition
from lagless.ports import Clock, ConsumerMailbox

log = logging.getLogger("lagless.consumer")
WINDOW = 30.0
"""Seconds over which bytes/s are averaged."""


@dataclass(slots=True)
class Vitals:
    """The consumer's condition: written by its loop, read by heartbeats and metrics."""

    ready: bool = False
    waiting_for: Literal["", "spark", "kafka", "lake", "registry"] = ""
    trouble: str = ""
    cycle_began: float | None = None
    cycle_seconds: float = 0.0
    lag_bytes: float = 0.0
    lag_records: int = 0
    lag_seconds: float = 0.0
    backlog: PerPartition = field(default_factory=dict)
    cycles: int = 0
    records: int = 0
    rejected: int = 0
    unknown_fields: int = 0
    gone: int = 0
    bytes: float = 0.0
    _read: deque[tuple[float, float]] = field(default_factory=deque)

    def read(self, at: float, size: float) -> None:
        """Count the bytes of a cycle."""
        self.bytes += size
        self._read.append((at, size))
        while self._read and self._read[0][0] < at - WINDOW:
            self._read.popleft()

    def rate(self, at: float) -> float:
        """Return the bytes/s of the last WINDOW seconds."""
        recent = [(moment, size) for moment, size in tuple(self._read) if moment >= at - WINDOW]
        if not recent:
            return 0.0
        # The first cycle's bytes were read before it ended: count its seconds too.
        seconds = max(at - recent[0][0], 0.0) + self.cycle_seconds
        return sum(size for _, size in recent) / max(seconds, 1.0)

    def measured(self, at: float) -> dict[str, Any]:
        """Return the fields of a heartbeat that only the loop knows: most are vitals by name."""
        began = self.cycle_began
        return {
            **{name: getattr(self, name) for name in Heartbeat.model_fields if hasattr(self, name)},
            "bytes_per_second": self.rate(at),
            "cycle_age": 0.0 if began is None else max(0.0, at - began),
        }


@dataclass
class HeartbeatThread:
    """A thread that sends a heartbeat every `interval` seconds, and when it is nudged."""

    mailbox: ConsumerMailbox
    clock: Clock
    interval: float
    compose: Callable[[float], Heartbeat]

    def __post_init__(self) -> None:
        self._nudged = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def nudge(self) -> None:
        """Send a heartbeat now: something has changed that others should know."""
        self._nudged.set()

    def stop(self) -> None:
        """Send a last heartbeat and end."""
        self._ended.set()
        self._nudged.set()
        self._thread.join(5)

    def _send(self) -> None:
        while True:
            ended = self._ended.is_set()
            self._nudged.clear()
            try:
                self.mailbox.send(self.compose(self.clock.now()))
            except LaglessError as error:
                log.info("heartbeat not sent: %s", error)
            if ended:
                return
            self._nudged.wait(self.interval)
