"""The monitor on a real Kafka."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

from lagless import extras
from lagless.monitor import metrics
from lagless.monitor.service import Monitor
from lagless.monitor.window import Window
from lagless.settings import Settings
from lagless.settings.roles import MonitorSettings
from lagless.wiring.clock import RealClock
from lagless.wiring.reloading import Reloading

with extras.needed("kafka"):
    from lagless.adapters import endpoints
    from lagless.adapters.kafka.log_sizes import LogSizes
    from lagless.adapters.kafka.speeds import SpeedsOut

LAST_WORDS = 0.5
"""Seconds that a round under way gets to end by itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a monitor did in its life."""

    rounds: int
    published: int
    errors: int
    partitions: int
    cut_short: bool
    """Whether a call to Kafka was left behind, which only the end of the process ends."""


def run(
    settings: Settings,
    ending: Event,
    tell: Callable[[str], None],
    reloading: Reloading | None = None,
) -> Outcome:
    """Measure and publish until `ending` is set; then end at once, whatever Kafka does."""
    clock = RealClock(ending)
    sizes, out = LogSizes(settings), SpeedsOut(settings)
    knobs = settings.monitor
    window = Window(knobs.window, knobs.detect_changes)
    shortest = knobs.shortest_interval
    monitor = Monitor(settings.group, knobs.interval, window, sizes, out, clock, shortest)
    registry = endpoints.registry(metrics.METRICS, lambda: monitor, clock.now)
    endpoint = endpoints.serve(
        knobs.metrics_port, registry, lambda: metrics.unhealthy(monitor, clock.now()), tell=tell
    )
    if reloading is not None:
        reloading.start(lambda new: adopt(monitor, new.monitor))
    failures: list[BaseException] = []

    def go() -> None:
        try:
            monitor.run(ending.is_set)
        except BaseException as error:
            failures.append(error)
            ending.set()

    # A client's call cannot be cut short, but the thread that waits for it can be left behind.
    loop = Thread(target=go, name="monitor", daemon=True)
    loop.start()
    tell(f"measuring {', '.join(settings.topics)} at least every {knobs.interval:g} s")
    ending.wait()
    loop.join(LAST_WORDS)
    endpoint.close()
    if failures:
        raise failures[0]
    if not loop.is_alive():
        sizes.close()
        out.close()
    return Outcome(
        monitor.rounds, monitor.published, monitor.errors, len(monitor.readings), loop.is_alive()
    )


def adopt(monitor: Monitor, knobs: MonitorSettings) -> None:
    """Take over settings that may change under way."""
    monitor.interval, monitor.shortest = knobs.interval, knobs.shortest_interval
    monitor.window.seconds, monitor.window.detect = knobs.window, knobs.detect_changes
