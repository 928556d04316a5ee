"""The dashboard on Kafka."""

from collections.abc import Callable

from lagless import extras
from lagless.settings import Settings
from lagless.wiring.clocks import RealClock


def run(settings: Settings, port: int | None, ready: Callable[[str], None]) -> None:
    """Serve the page until the process is asked to end; `ready` is told its address."""
    with extras.needed("kafka"):
        from lagless.adapters.kafka.watching import Watcher
    with extras.needed("dashboard"):
        from lagless.dashboard import app
        from lagless.dashboard.desk import Desk
    watcher = Watcher(settings)
    try:
        desk = Desk(watcher, settings, RealClock())
        listening = settings.dashboard.port if port is None else port
        app.serve(desk, settings.dashboard.host, listening, ready)
    finally:
        watcher.close()
