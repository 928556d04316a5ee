"""The consumer's metrics and health."""

from typing import Literal

from lagless.consumer.service import Service
from lagless.metrics import Metric


def unready(service: Service) -> str:
    """Return why the consumer is not ready; "" from the end of its warm-up on."""
    vitals = service.vitals
    return "" if vitals.ready else vitals.trouble or "it is warming up"


def stuck(service: Service, cycle_deadline: float, now: float) -> str:
    """Return why only a restart can help; "" if none is needed.

    Spark or Kafka being away is not a reason: after a restart they would still be away.
    """
    began = service.vitals.cycle_began
    if began is not None and now - began > 2 * cycle_deadline:
        return f"the cycle has not ended for {now - began:.0f} s"
    return ""


def _vital(name: str, help: str, kind: Literal["gauge", "counter"] = "gauge") -> Metric[Service]:
    """Return the metric of the vital that has this name."""
    return Metric(
        f"lagless_consumer_{name}", help, lambda service, now: getattr(service.vitals, name), kind
    )


METRICS: tuple[Metric[Service], ...] = (
    Metric(
        "lagless_consumer_bytes_per_second",
        "Log bytes read per second.",
        lambda service, now: service.vitals.rate(now),
    ),
    _vital("cycle_seconds", "Duration of the last cycle in seconds."),
    _vital("lag_bytes", "Log bytes not yet read."),
    _vital("lag_records", "Records not yet read."),
    _vital("lag_seconds", "Age of the oldest record not yet read."),
    Metric(
        "lagless_consumer_partitions",
        "Partitions held.",
        lambda service, now: len(service.state.held),
    ),
    _vital("cycles", "Cycles ended.", "counter"),
    _vital("records", "Records read.", "counter"),
    _vital("rejected", "Records rejected.", "counter"),
    _vital("unknown_fields", "Fields that the schema does not name.", "counter"),
    _vital("gone", "Offsets that Kafka deleted before they were read.", "counter"),
    _vital("bytes", "Log bytes read.", "counter"),
)
