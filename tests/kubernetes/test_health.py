"""What a consumer answers to whoever restarts it, and to whoever waits for it."""

from types import SimpleNamespace
from typing import Any

from lagless.consumer.pulse import Vitals
from lagless.settings import parse
from lagless.wiring import consumer

SETTINGS = parse({"group": "g", "topics": ["t"], "lake": {"path": "lake"}}, environ={})


def service(**vitals: Any) -> Any:
    return SimpleNamespace(vitals=Vitals(**vitals))


def test_who_warms_up_or_waits_is_alive_and_not_ready() -> None:
    cold, waits = service(), service(trouble="Spark does not answer", waiting_for="spark")
    assert consumer.unready(cold) == "it is warming up"
    assert consumer.unready(waits) == "Spark does not answer"
    assert consumer.stuck(cold, SETTINGS, 1e9) == consumer.stuck(waits, SETTINGS, 1e9) == ""


def test_who_is_warm_stays_ready_through_trouble_that_passes() -> None:
    troubled = service(ready=True, trouble="Kafka does not answer", waiting_for="kafka")
    assert consumer.unready(troubled) == consumer.stuck(troubled, SETTINGS, 1e9) == ""


def test_who_is_stuck_in_a_cycle_needs_a_new_start() -> None:
    deadline = SETTINGS.consumer.cycle_deadline
    reading = service(ready=True, cycle_began=1000.0)
    assert consumer.stuck(reading, SETTINGS, 1000 + deadline) == ""
    assert "has not ended for" in consumer.stuck(reading, SETTINGS, 1001 + 2 * deadline)
