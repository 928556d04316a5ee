"""For your own consumers: follow a plan with confluent-kafka, where brokers take no plugins.

This is a public door; what is behind it is in `adapters.kafka`. Nothing of the roles may enter.
"""

from lagless import extras

with extras.needed("kafka"):
    from lagless.adapters.kafka.planned_consumer import PlannedConsumer

__all__ = ["PlannedConsumer"]
