"""The dashboard on Kafka."""

import time
from collections.abc import Callable

from lagless import extras
from lagless.settings import Settings


class _RealTime:
    """The machine's time."""

    def now(self) -> float:
        """Give the seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let that much time go by."""
        time.sleep(seconds)


def run(settings: Settings, port: int | None, ready: Callable[[str], None]) -> None:
    """Serve the page until the process is asked to end; `ready` is told its address."""
    with extras.needed("kafka"):
        from lagless.adapters.kafka.watching import Watcher
    with extras.needed("dashboard"):
        from lagless.dashboard import app
        from lagless.dashboard.desk import Desk
    watcher = Watcher(settings)
    try:
        desk = Desk(watcher, settings, _RealTime())
        listening = settings.dashboard.port if port is None else port
        app.serve(desk, settings.dashboard.host, listening, ready)
    finally:
        watcher.close()
