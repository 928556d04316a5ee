"""The monitor on a real Kafka."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event, Thread

from lagless import extras
from lagless.monitor.service import Monitor
from lagless.monitor.window import Window
from lagless.settings import Settings
from lagless.wiring.clocks import RealClock

with extras.needed("kafka"):
    from lagless.adapters import metrics
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


def run(settings: Settings, ending: Event, tell: Callable[[str], None]) -> Outcome:
    """Measure and publish until `ending` is set; then end at once, whatever Kafka does."""
    clock = RealClock(ending)
    sizes, out = LogSizes(settings), SpeedsOut(settings)
    monitor = Monitor(
        group=settings.group,
        interval=settings.monitor.interval,
        window=Window(settings.monitor.window),
        sizes=sizes,
        out=out,
        clock=clock,
    )
    endpoint = None
    if settings.monitor.metrics_port is not None:
        endpoint = metrics.serve(
            settings.monitor.metrics_port,
            metrics.registry(lambda: families(monitor, sizes, clock.now())),
            lambda: trouble(monitor, clock.now()),
        )
        tell(f"metrics and health on port {endpoint.port}")
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
    tell(f"measuring {', '.join(settings.topics)} every {settings.monitor.interval:g} s")
    ending.wait()
    loop.join(LAST_WORDS)
    if endpoint is not None:
        endpoint.close()
    if failures:
        raise failures[0]
    if not loop.is_alive():
        sizes.close()
        out.close()
    return Outcome(
        monitor.rounds, monitor.published, monitor.errors, len(monitor.readings), loop.is_alive()
    )


def trouble(monitor: Monitor, now: float) -> str:
    """Say why the monitor is not healthy; "" if it is."""
    limit = max(3 * monitor.interval, 15.0)
    if monitor.published_at == 0:
        return monitor.trouble or "nothing is published yet"
    age = now - monitor.published_at
    if age > limit:
        return f"nothing was published for {age:.0f} s: {monitor.trouble or 'a round does not end'}"
    return ""


def families(monitor: Monitor, sizes: LogSizes, now: float) -> Iterator[metrics.Family]:
    """Give the metrics of the monitor."""
    readings = dict(monitor.readings)
    keys = {partition: (partition.topic, str(partition.partition)) for partition in readings}
    labels = ("topic", "partition")
    yield metrics.Family(
        "lagless_write_speed_bytes_per_second",
        "Bytes per second appended to the partition, over the window.",
        {keys[p]: reading.speed for p, reading in readings.items()},
        labels,
    )
    yield metrics.Family(
        "lagless_measurement_age_seconds",
        "Seconds since the partition was last measured.",
        {keys[p]: max(0.0, now - reading.measured_at) for p, reading in readings.items()},
        labels,
    )
    yield metrics.Family(
        "lagless_monitor_stale_partitions",
        "Partitions whose broker or log folder did not answer in the last round.",
        {(): sum(reading.stale for reading in readings.values())},
    )
    yield metrics.Family(
        "lagless_monitor_round_seconds", "Seconds of the last round.", {(): monitor.round_seconds}
    )
    for name, words, value in (
        ("rounds", "Rounds begun.", monitor.rounds),
        ("published", "Messages published.", monitor.published),
        ("failed_rounds", "Rounds that failed as a whole.", monitor.errors),
        ("errors", "Answers of brokers that were missing or wrong.", sizes.errors),
    ):
        yield metrics.Family(f"lagless_monitor_{name}", words, {(): value}, kind="counter")
