"""What Prometheus is told."""

from dataclasses import replace
from typing import Any

from lagless.adapters import endpoints
from lagless.controller.metrics import METRICS, Record
from lagless.controller.state import Member, State
from lagless.messages import AnyDecision
from tests import said
from tests.controller.test_decisions import POLICY, A, B, state


def decision(kind: str, **details: Any) -> AnyDecision:
    return said.decision("g", kind, "r", 1, "Sentinel", 4, **details)


def scraped(record: Record) -> dict[str, float]:
    answer, _ = endpoints.exposed(endpoints.registry(METRICS, lambda: record, lambda: 0.0))
    lines = answer.decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


def test_before_the_first_turn_there_is_nothing_to_tell_but_histograms() -> None:
    found = scraped(Record(POLICY))
    assert found["lagless_dt2_seconds_count"] == 0
    assert "lagless_consumers" not in found


def test_spares_are_told_apart_from_consumers() -> None:
    one = replace(POLICY, spare_consumers=1)
    group = state({A: 1, B: 2}, {A: 40, B: 60}).with_member(Member(3, "b3.1", heard_at=0))
    group = replace(group, team=frozenset({1, 2, 3}), target={A: 1, B: 2})
    names = ("consumers", "consumers_wanted", "spares", "spares_wanted")

    def told(group: State) -> list[float]:
        record = Record(one)
        record.saw(group, [])
        found = scraped(record)
        return [found[f"lagless_{name}"] for name in names]

    assert told(group) == [2, 2, 0, 1], "it still starts"
    assert told(group.with_member(replace(group.members[3], ready=True))) == [2, 2, 1, 1]


def test_consumers_loads_phase_and_timings_are_told() -> None:
    record = Record(POLICY)
    group = state({A: 1, B: 2}, {A: 40, B: 60})
    record.saw(
        group,
        [
            decision(
                "assignment",
                assignment={},
                migrations=[["t", 0, 1, 2]],
                rscore=0.4,
                weight_moved=0.6,
            ),
            decision("timing", dt3=2.0),
            decision("timing", dt4=4.0),
            decision("lost"),
        ],
    )
    record.requested(0.05)
    found = scraped(record)
    assert found["lagless_consumers"] == 2
    assert found['lagless_consumer_load_bytes_per_second{consumer="2"}'] == 60
    assert found['lagless_consumer_capacity_bytes_per_second{consumer="1"}'] == 100
    assert found["lagless_rscore"] == 0.4
    assert found["lagless_weight_moved"] == 0.6
    assert found["lagless_migrations_total"] == 1
    assert found["lagless_lost_total"] == 1
    assert found['lagless_phase{phase="Sentinel"}'] == 1
    assert found['lagless_phase{phase="Group Management"}'] == 0
    assert found["lagless_unread_partitions"] == 0
    assert found["lagless_seconds_since_measurement"] == 0
    assert found["lagless_dt2_seconds_sum"] == 0.05
    assert found["lagless_dt3_seconds_sum"] == 2
    assert found["lagless_dt4_seconds_sum"] == 4
