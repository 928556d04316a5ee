"""What a consumer answers to whoever restarts it, and to whoever waits for it."""

from types import SimpleNamespace
from typing import Any

from lagless.consumer import metrics
from lagless.consumer.heartbeat import Vitals
from lagless.settings import parse

SETTINGS = parse({"group": "g", "topics": ["t"], "lake": {"path": "lake"}}, environ={})
DEADLINE = SETTINGS.consumer.cycle_deadline


def service(**vitals: Any) -> Any:
    return SimpleNamespace(vitals=Vitals(**vitals))


def test_who_warms_up_or_waits_is_alive_and_not_ready() -> None:
    cold, waits = service(), service(trouble="Spark does not answer", waiting_for="spark")
    assert metrics.unready(cold) == "it is warming up"
    assert metrics.unready(waits) == "Spark does not answer"
    assert metrics.stuck(cold, DEADLINE, 1e9) == metrics.stuck(waits, DEADLINE, 1e9) == ""


def test_who_is_warm_stays_ready_through_trouble_that_passes() -> None:
    troubled = service(ready=True, trouble="Kafka does not answer", waiting_for="kafka")
    assert metrics.unready(troubled) == metrics.stuck(troubled, DEADLINE, 1e9) == ""


def test_who_is_stuck_in_a_cycle_needs_a_new_start() -> None:
    reading = service(ready=True, cycle_began=1000.0)
    assert metrics.stuck(reading, DEADLINE, 1000 + DEADLINE) == ""
    assert "has not ended for" in metrics.stuck(reading, DEADLINE, 1001 + 2 * DEADLINE)
