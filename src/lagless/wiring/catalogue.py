"""Every metric that the roles give, collected from stand-ins for what only runs live."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from lagless.adapters import metrics as endpoint
from lagless.adapters.controller_metrics import ControllerMetrics
from lagless.consumer.pulse import Vitals
from lagless.controller import machine
from lagless.controller.facts import Policy
from lagless.messages import ControllerState
from lagless.model import TopicPartition
from lagless.wiring import consumer, dashboard, monitor


def metrics() -> Iterator[tuple[str, Metric]]:
    """Give each metric with the role that gives it."""
    for role, registry in _registries():
        for metric in registry.collect():
            yield role, metric


def _registries() -> Iterator[tuple[str, CollectorRegistry]]:
    """Give what each role's endpoint answers from."""
    reading = SimpleNamespace(speed=1.0, measured_at=0.0, stale=False)
    measuring: Any = SimpleNamespace(
        readings={TopicPartition("orders", 0): reading},
        round_seconds=0.1,
        rounds=1,
        published=1,
        errors=0,
    )
    yield (
        "monitor",
        endpoint.registry(
            lambda: monitor.families(measuring, cast(Any, SimpleNamespace(errors=0)), 1.0)
        ),
    )
    seen = ControllerMetrics(Policy("orders", 1e6, lambda speeds, capacity, previous: previous))
    known = ControllerState(group="orders", generation=1, members={1: "one"}, at=0.0)
    seen.saw(machine.begin(known, 0.0), [])
    yield "controller", seen.registry
    service: Any = SimpleNamespace(vitals=Vitals(), state=SimpleNamespace(held={}))
    yield "consumer", endpoint.registry(lambda: consumer.families(service, 1.0))
    link = SimpleNamespace(heard=True, trouble="")
    desk: Any = SimpleNamespace(snapshot=SimpleNamespace(link=link, plain_kafka=3), messages=9)
    yield (
        "dashboard",
        endpoint.registry(
            lambda: dashboard.families(desk, cast(Any, SimpleNamespace(undecodable=0)))
        ),
    )
