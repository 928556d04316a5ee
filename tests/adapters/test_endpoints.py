"""What /metrics, /health and /ready answer."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lagless.adapters import endpoints
from lagless.metrics import Distribution, Metric


@dataclass
class Oven:
    heat: float = 200.0
    loaves: int = 0
    racks: dict[tuple[str, ...], float] = field(default_factory=dict)
    baked: Distribution = field(default_factory=lambda: Distribution((1, 2.5)))


METRICS: tuple[Metric[Oven], ...] = (
    Metric("oven_heat", "Degrees.", lambda oven, now: oven.heat),
    Metric("oven_loaves", "Loaves.", lambda oven, now: oven.loaves or None, kind="counter"),
    Metric("oven_rack", "Loaves on a rack.", lambda oven, now: oven.racks, labels=("rack",)),
    Metric("oven_age", "Seconds since 100.", lambda oven, now: now - 100),
    Metric("oven_baked", "Hours.", lambda oven, now: oven.baked, kind="histogram"),
)


def scraped(oven: Oven | None) -> dict[str, float]:
    answer, kind = endpoints.exposed(endpoints.registry(METRICS, lambda: oven, lambda: 103.0))
    assert kind.startswith("text/plain")
    lines = [line for line in answer.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_scrape_reads_the_role_as_it_is_then() -> None:
    oven = Oven(loaves=3, racks={("upper",): 2.0, ("lower",): 1.0})
    oven.heat = 180.0
    found = scraped(oven)
    assert found["oven_heat"] == 180
    assert found["oven_loaves_total"] == 3
    assert found['oven_rack{rack="upper"}'] == 2
    assert found["oven_age"] == 3


def test_a_metric_without_a_value_and_a_role_that_is_not_there_are_left_out() -> None:
    assert "oven_loaves_total" not in scraped(Oven())
    assert scraped(None) == {}


def test_a_distribution_counts_up_to_each_bound() -> None:
    oven = Oven()
    for hours in (0.5, 1, 2, 9):
        oven.baked.observe(hours)
    found = scraped(oven)
    assert found['oven_baked_bucket{le="1.0"}'] == 2
    assert found['oven_baked_bucket{le="2.5"}'] == 3
    assert found['oven_baked_bucket{le="+Inf"}'] == found["oven_baked_count"] == 4
    assert found["oven_baked_sum"] == 12.5


@contextmanager
def served(trouble: list[str]) -> Iterator[str]:
    registry = endpoints.registry(METRICS, Oven, lambda: 0.0)
    endpoint = endpoints.serve(
        0, registry, lambda: "", "127.0.0.1", ready=lambda: trouble[0] if trouble else ""
    )
    try:
        yield f"http://127.0.0.1:{endpoint.port}"
    finally:
        endpoint.close()


def asked(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_and_readiness_are_two_questions() -> None:
    with served(["it is warming up"]) as url:
        assert asked(f"{url}/health")[0] == 200
        status, body = asked(f"{url}/ready")
        assert (status, json.loads(body)["trouble"]) == (503, "it is warming up")
        assert "oven_heat 200.0" in asked(f"{url}/metrics?name=all")[1]
        assert asked(f"{url}/else")[0] == 404
