"""The dashboard on Kafka."""

from collections.abc import Callable, Iterator

from lagless import extras
from lagless.settings import Settings
from lagless.wiring.clocks import RealClock

with extras.needed("kafka"):
    from lagless.adapters import metrics
    from lagless.adapters.kafka.watching import Watcher
with extras.needed("dashboard"):
    from lagless.dashboard import app
    from lagless.dashboard.desk import Desk


def run(settings: Settings, port: int | None, ready: Callable[[str], None]) -> None:
    """Serve the page until the process is asked to end; `ready` is told its address."""
    watcher = Watcher(settings)
    try:
        desk = Desk(watcher, settings, RealClock())
        registry = metrics.registry(lambda: families(desk, watcher))
        listening = settings.dashboard.port if port is None else port
        app.serve(
            desk, settings.dashboard.host, listening, ready, lambda: metrics.exposed(registry)
        )
    finally:
        watcher.close()


def families(desk: Desk, watcher: Watcher) -> Iterator[metrics.Family]:
    """Give the metrics of the dashboard; they stand on the page's own port, at /metrics."""
    seen = desk.snapshot
    yield metrics.Family(
        "lagless_dashboard_connected",
        "1 while Kafka answers the dashboard.",
        {(): float(seen.link.heard and not seen.link.trouble)},
    )
    yield metrics.Family(
        "lagless_plain_kafka_consumers",
        "Consumers that an assignment by number of partitions would need.",
        {(): seen.plain_kafka},
    )
    yield metrics.Family(
        "lagless_dashboard_messages", "Messages taken in.", {(): desk.messages}, kind="counter"
    )
    yield metrics.Family(
        "lagless_dashboard_undecodable",
        "Messages that could not be read.",
        {(): watcher.undecodable},
        kind="counter",
    )
