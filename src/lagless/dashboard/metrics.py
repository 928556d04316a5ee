"""The dashboard's metrics; it serves them on the page's own port, at /metrics."""

from lagless.dashboard.view import Feed
from lagless.metrics import Metric

METRICS: tuple[Metric[Feed], ...] = (
    Metric(
        "lagless_dashboard_connected",
        "1 while the dashboard is connected to Kafka.",
        lambda feed, now: feed.snapshot.link.heard and not feed.snapshot.link.trouble,
    ),
    Metric(
        "lagless_plain_kafka_consumers",
        "Consumers that an assignment by number of partitions would need.",
        lambda feed, now: feed.snapshot.plain_kafka if feed.snapshot.capacity else None,
    ),
    Metric(
        "lagless_dashboard_messages",
        "Messages read from Kafka.",
        lambda feed, now: feed.messages,
        kind="counter",
    ),
    Metric(
        "lagless_dashboard_undecodable",
        "Messages that could not be decoded.",
        lambda feed, now: feed.source.undecodable,
        kind="counter",
    ),
)
