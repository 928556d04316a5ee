"""The pod that measures what a consumer can read."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import V1PodStatus

from lagless.adapters.kubernetes import manifest, measuring_pod
from lagless.errors import GiveUp, WrongSettings
from lagless.lab import calibration
from lagless.settings import Settings, parse

OVERLAY = {
    "spec": {
        "template": {
            "spec": {
                "containers": [{"name": "consumer", "resources": {"limits": {"cpu": "1"}}}],
                "nodeSelector": {"disk": "fast"},
            }
        }
    }
}


def settings(kind: str = "kubernetes") -> Settings:
    provisioner = {"kind": kind, "image": "lagless-spark:1", "config_map": "lagless-config"}
    return parse(
        {
            "group": "orders",
            "topics": ["orders"],
            "lake": {"path": "lake"},
            "provisioner": provisioner,
        }
    )


class Cluster:
    """An API server whose pod goes through some phases and has a log."""

    def __init__(self, log: str, *phases: str) -> None:
        self.log = log
        self.phases = list(phases)
        self.created: dict[str, Any] = {}
        self.deleted: list[str] = []

    def create_namespaced_pod(self, namespace: str, body: dict[str, Any], **_: Any) -> None:
        self.created = {"namespace": namespace, **body}

    def read_namespaced_pod(self, name: str, namespace: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(status=V1PodStatus(phase=self.phases.pop(0)))

    def read_namespaced_pod_log(self, name: str, namespace: str, **_: Any) -> str:
        return self.log

    def delete_namespaced_pod(self, name: str, namespace: str, **_: Any) -> None:
        self.deleted.append(name)


def test_it_has_what_a_consumer_has_and_is_not_taken_for_one() -> None:
    words = ["calibrate", "--json"]
    pod = measuring_pod.pod(settings(), words, OVERLAY)
    consumer = manifest.deployment(settings(), 1, "b", OVERLAY)["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (like,) = consumer["spec"]["containers"]
    for key in ("image", "resources", "volumeMounts", "securityContext"):
        assert container[key] == like[key]
    assert container["resources"]["limits"]["cpu"] == "1"
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    assert container["args"] == [*words, "--config", "/etc/lagless/lagless.toml"]
    assert "livenessProbe" not in container
    assert pod["spec"]["restartPolicy"] == "Never"
    assert not pod["metadata"]["labels"].items() >= manifest.labels("orders").items()


def test_its_result_is_found_among_its_notes() -> None:
    told = {"max_rate": 4e6, "conditions": {}}
    cluster = Cluster(f"condition 1: 6 MB\n{json.dumps(told)}\n", "Pending", "Running", "Succeeded")
    notes: list[str] = []
    pod = measuring_pod.pod(settings(), ["calibrate"], {})
    assert measuring_pod.follow(cluster, "data", pod, notes.append, look=0.0) == told
    name = pod["metadata"]["name"]
    assert cluster.created["namespace"] == "data"
    assert cluster.deleted == [name]
    assert notes == [f"pod {name} in the namespace data"]


@pytest.mark.parametrize(
    ("log", "phase", "says"),
    [
        ("lagless: no broker\n", "Failed", "failed: lagless: no broker"),
        ("nothing to see\n", "Succeeded", "printed no result"),
    ],
)
def test_a_pod_that_fails_is_told_and_deleted(log: str, phase: str, says: str) -> None:
    cluster = Cluster(log, phase)
    pod = measuring_pod.pod(settings(), ["calibrate"], {})
    with pytest.raises(GiveUp, match=says):
        measuring_pod.follow(cluster, "data", pod, lambda _: None, look=0.0)
    assert cluster.deleted == [pod["metadata"]["name"]]


def test_pods_need_a_cluster(tmp_path: Any) -> None:
    with pytest.raises(WrongSettings, match="--pod needs"):
        calibration.run_in_pod(settings("processes"), ["calibrate"], tmp_path, lambda _: None)
