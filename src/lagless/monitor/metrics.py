"""The monitor's metrics and health."""

from collections.abc import Callable

from lagless.metrics import Metric
from lagless.monitor.service import Monitor
from lagless.monitor.window import Reading


def unhealthy(monitor: Monitor, now: float) -> str:
    """Return why the monitor is not healthy; "" if it is."""
    if monitor.published_at == 0:
        return monitor.trouble or "nothing is published yet"
    age = now - monitor.published_at
    if age > max(3 * monitor.interval, 15.0):
        return f"nothing published for {age:.0f} s: {monitor.trouble or 'a round takes too long'}"
    return ""


def _per_partition(
    name: str, help: str, value: Callable[[Reading, float], float]
) -> Metric[Monitor]:
    def read(monitor: Monitor, now: float) -> dict[tuple[str, ...], float]:
        readings = dict(monitor.readings)
        return {(p.topic, str(p.partition)): value(reading, now) for p, reading in readings.items()}

    return Metric(name, help, read, labels=("topic", "partition"))


def _counter(name: str, help: str, count: Callable[[Monitor], int]) -> Metric[Monitor]:
    return Metric(name, help, lambda monitor, now: count(monitor), kind="counter")


METRICS: tuple[Metric[Monitor], ...] = (
    _per_partition(
        "lagless_write_speed_bytes_per_second",
        "Bytes per second appended to the partition, over the window.",
        lambda reading, now: reading.speed,
    ),
    _per_partition(
        "lagless_measurement_age_seconds",
        "Seconds since the partition was last measured.",
        lambda reading, now: max(0.0, now - reading.measured_at),
    ),
    Metric(
        "lagless_monitor_stale_partitions",
        "Partitions whose broker or log directory did not answer in the last round.",
        lambda monitor, now: sum(reading.stale for reading in dict(monitor.readings).values()),
    ),
    Metric(
        "lagless_monitor_round_seconds",
        "Duration of the last round in seconds.",
        lambda monitor, now: monitor.round_seconds,
    ),
    _counter("lagless_monitor_rounds", "Rounds started.", lambda role: role.rounds),
    _counter("lagless_monitor_published", "Messages published.", lambda role: role.published),
    _counter(
        "lagless_monitor_failed_rounds", "Rounds that failed as a whole.", lambda role: role.errors
    ),
    _counter(
        "lagless_monitor_errors",
        "Broker answers that were missing or wrong.",
        lambda role: role.sizes.errors,
    ),
)
