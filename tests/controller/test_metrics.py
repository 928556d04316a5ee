"""What Prometheus is told."""

from prometheus_client import generate_latest

from lagless.adapters.controller_metrics import ControllerMetrics
from lagless.messages import Decision
from tests.controller.test_decisions import POLICY, A, B, state


def decision(kind: str, **details: object) -> Decision:
    return Decision(
        group="g",
        decision=kind,
        reason="r",
        at=1,
        phase="Sentinel",
        generation=4,
        details=details,
    )


def scraped(metrics: ControllerMetrics) -> dict[str, float]:
    lines = generate_latest(metrics.registry).decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


def test_before_the_first_turn_there_is_nothing_to_tell_but_histograms() -> None:
    found = scraped(ControllerMetrics(POLICY))
    assert found["lagless_dt2_seconds_count"] == 0
    assert "lagless_consumers" not in found


def test_consumers_loads_phase_and_timings_are_told() -> None:
    metrics = ControllerMetrics(POLICY)
    group = state({A: 1, B: 2}, {A: 40, B: 60})
    metrics.saw(
        group,
        [
            decision("assignment", migrations=[["t", 0, 1, 2]], rscore=0.4),
            decision("timing", dt3=2.0),
            decision("timing", dt4=4.0),
            decision("lost"),
        ],
    )
    metrics.requested(0.05)
    found = scraped(metrics)
    assert found["lagless_consumers"] == 2
    assert found['lagless_consumer_load_bytes_per_second{consumer="2"}'] == 60
    assert found['lagless_consumer_capacity_bytes_per_second{consumer="1"}'] == 100
    assert found["lagless_rscore"] == 0.4
    assert found["lagless_migrations_total"] == 1
    assert found["lagless_lost_total"] == 1
    assert found['lagless_phase{phase="Sentinel"}'] == 1
    assert found['lagless_phase{phase="Group Management"}'] == 0
    assert found["lagless_unread_partitions"] == 0
    assert found["lagless_seconds_since_measurement"] == 0
    assert found["lagless_dt2_seconds_sum"] == 0.05
    assert found["lagless_dt3_seconds_sum"] == 2
    assert found["lagless_dt4_seconds_sum"] == 4
