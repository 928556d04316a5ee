"""The dashboard on Kafka."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic, time

from lagless import extras
from lagless.errors import LaglessError
from lagless.ports import GroupSummary
from lagless.settings import Settings
from lagless.wiring import clock

with extras.needed("kafka"):
    from lagless.adapters import endpoints
    from lagless.adapters.kafka import group_list
    from lagless.adapters.kafka.topic_watch import Watcher
with extras.needed("dashboard"):
    from lagless.dashboard import metrics, server
    from lagless.dashboard.costing import Replay
    from lagless.dashboard.view import Feed

EVERY = 5.0


@dataclass(slots=True)
class Groups:
    """The groups of the cluster, read from Kafka at most every `EVERY` seconds."""

    settings: Settings
    _lock: Lock = field(default_factory=Lock)
    _read_at: float = float("-inf")
    _known: Sequence[GroupSummary] = ()

    def __call__(self) -> Sequence[GroupSummary]:
        """Return them."""
        with self._lock:
            if monotonic() - self._read_at > EVERY:
                try:
                    self._known = group_list.summaries(self.settings, time())
                except LaglessError as error:
                    self._known = [GroupSummary(self.settings.group, trouble=str(error))]
                self._read_at = monotonic()
            return self._known


def run(
    settings: Settings, port: int | None, ready: Callable[[str], None], replay: Replay | None = None
) -> None:
    """Serve the page until SIGINT or SIGTERM; `ready` is called with its address."""
    # uvicorn raises the signal again when it has ended; an orderly end is not a failure.
    clock.on_signals(lambda: sys.exit(0))
    watcher = Watcher(settings)
    try:
        real = clock.RealClock()
        feed = Feed(watcher, settings, real, replay)
        registry = endpoints.registry(metrics.METRICS, lambda: feed, real.now)
        listening = settings.dashboard.port if port is None else port
        server.serve(
            feed,
            settings.dashboard.host,
            listening,
            ready,
            lambda: endpoints.exposed(registry),
            Groups(settings),
        )
    finally:
        watcher.close()
