"""Grafana's dashboard and the alert rules use metrics that the roles really give."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from lagless.consumer import metrics as consumer
from lagless.controller import metrics as controller
from lagless.dashboard import metrics as dashboard
from lagless.metrics import Metric
from lagless.monitor import metrics as monitor

DEPLOY = Path(__file__).parents[2] / "deploy"
GRAFANA = DEPLOY / "grafana" / "lagless.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"


METRICS: list[Metric[Any]] = [
    metric for role in (monitor, controller, consumer, dashboard) for metric in role.METRICS
]
SUFFIXES = {"gauge": [""], "counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
NAMES = {f"{metric.name}{suffix}" for metric in METRICS for suffix in SUFFIXES[metric.kind]}
"""What Prometheus stores."""


def _used(expressions: Iterable[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"\blagless_\w+", text)}


def _panels() -> list[dict[str, Any]]:
    return list(json.loads(GRAFANA.read_text())["panels"])


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_grafana_uses_metrics_that_exist() -> None:
    expressions = [target["expr"] for panel in _panels() for target in panel["targets"]]
    used = _used(expressions)
    assert len(used) > 15
    assert used - NAMES == set()


def test_alerts_use_metrics_that_exist() -> None:
    used = _used(rule["expr"] for rule in _rules())
    assert len(used) > 8
    assert used - NAMES == set()


def test_labels_that_are_asked_for_exist() -> None:
    labels = {label for metric in METRICS for label in metric.labels}
    texts = [target["expr"] for panel in _panels() for target in panel["targets"]]
    texts += [rule["expr"] for rule in _rules()]
    asked = {
        label.strip()
        for text in texts
        for group in re.findall(r"by \(([^)]*)\)", text)
        for label in group.split(",")
    }
    assert asked - labels - {"le"} == set()
    assert asked


def test_every_alert_says_what_to_do() -> None:
    rules = _rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["action"].endswith(".")


def test_expressions_are_whole() -> None:
    texts = [target["expr"] for panel in _panels() for target in panel["targets"]]
    texts += [rule["expr"] for rule in _rules()]
    for text in texts:
        assert all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}")), text


def test_panels_have_their_own_place_and_a_title() -> None:
    panels = _panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["title"]


def test_names_follow_the_conventions() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"lagless_[a-z0-9_]+", metric.name), metric.name
        assert metric.help.endswith("."), metric.name
        assert not re.search(r"_(ms|millis|minutes|kb|mb|percent)(_|$)", metric.name), metric.name
    assert len({metric.name for metric in METRICS}) == len(METRICS)
