"""The Deployment of a consumer, and what is said of pods that do not do well."""

from pathlib import Path
from typing import Any

import pytest

from lagless.adapters.kubernetes import calls, manifest
from lagless.errors import WrongSettings
from lagless.settings import Settings, parse


def settings(group: str = "orders", **provisioner: Any) -> Settings:
    return parse(
        {
            "group": group,
            "topics": ["orders"],
            "lake": {"path": "lake"},
            "provisioner": {"kind": "kubernetes", "image": "lagless:1", **provisioner},
        }
    )


def test_name_and_labels_carry_the_group_and_the_number() -> None:
    made = manifest.deployment(settings(), 7, "b", {})
    assert made["metadata"]["name"] == "lagless-orders-7"
    assert made["metadata"]["labels"]["lagless.consumer"] == "7"
    assert made["spec"]["strategy"] == {"type": "Recreate"}
    assert made["spec"]["selector"]["matchLabels"] == made["spec"]["template"]["metadata"]["labels"]


def test_groups_that_kubernetes_cannot_name_get_names_of_their_own() -> None:
    names = {manifest.slug(group) for group in ("a.b", "a_b", "a-b", "A-b", "a" * 60, "a" * 61)}
    assert len(names) == 6
    assert all(len(name) <= 40 and name == name.lower() for name in names)
    assert manifest.slug("orders") == "orders"


def test_pods_are_modest_by_default() -> None:
    pod = manifest.deployment(settings(), 1, "b", {})["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]


def test_the_users_template_is_laid_over_without_losing_what_lagless_needs() -> None:
    overlay = {
        "metadata": {"name": "mine", "labels": {"team": "data"}},
        "spec": {
            "replicas": 3,
            "template": {
                "spec": {
                    "nodeSelector": {"disk": "ssd"},
                    "priorityClassName": "high",
                    "containers": [
                        {
                            "name": "consumer",
                            "resources": {"limits": {"memory": "1Gi"}},
                            "env": [{"name": "A", "value": "1"}],
                        },
                        {"name": "sidecar", "image": "x"},
                    ],
                    "volumes": [{"name": "lake", "hostPath": {"path": "/lake"}}],
                }
            },
        },
    }
    made = manifest.deployment(settings(), 1, "born", overlay)
    pod = made["spec"]["template"]["spec"]
    consumer, sidecar = pod["containers"]
    assert made["metadata"]["name"] == "lagless-orders-1"
    assert made["metadata"]["labels"]["team"] == "data"
    assert made["spec"]["replicas"] == 1
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["priorityClassName"] == "high"
    assert consumer["resources"]["limits"] == {"memory": "1Gi"}
    assert consumer["resources"]["requests"]["memory"] == "256Mi"
    assert {"name": "A", "value": "1"} in consumer["env"]
    assert {"name": "LAGLESS_BIRTH", "value": "born"} in consumer["env"]
    assert consumer["args"][:2] == ["consumer", "1"]
    assert sidecar == {"name": "sidecar", "image": "x"}
    assert [volume["name"] for volume in pod["volumes"]] == ["tmp", "lake"]


def test_a_consumer_without_an_image_is_a_wrong_setting() -> None:
    with pytest.raises(WrongSettings, match=r"provisioner\.image: is missing"):
        manifest.deployment(settings(image=None), 1, "b", {})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- a\n- b\n", "should be a Deployment in YAML"),
        ("kind: Pod\n", "is a Pod and should be a Deployment"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_template_that_is_no_deployment_is_refused(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(text)
    with pytest.raises(WrongSettings, match=sentence):
        manifest.template(file)
    with pytest.raises(WrongSettings, match="cannot be read"):
        manifest.template(tmp_path / "nothing.yaml")


def waiting(why: str, **last: Any) -> dict[str, Any]:
    state: dict[str, Any] = {"state": {"waiting": {"reason": why}}}
    return {"status": {"containerStatuses": [{**state, "lastState": {"terminated": last}}]}}


@pytest.mark.parametrize(
    ("pod", "says", "failed"),
    [
        ({"status": {"phase": "Running"}}, "", False),
        (waiting("ContainerCreating"), "", False),
        (waiting("ImagePullBackOff"), "ImagePullBackOff", False),
        (waiting("CrashLoopBackOff", exitCode=1), "CrashLoopBackOff: last exit status 1", True),
        (
            waiting("CrashLoopBackOff", exitCode=137, reason="OOMKilled"),
            "the consumer needed more memory than its limit (OOMKilled)",
            True,
        ),
        (
            {"status": {"phase": "Failed", "reason": "Evicted", "message": "disk is full"}},
            "the pod was evicted: disk is full",
            True,
        ),
        (
            {
                "status": {
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "message": "Insufficient cpu"}
                    ]
                }
            },
            "no node has room for the pod: Insufficient cpu",
            False,
        ),
    ],
)
def test_troubles_of_a_pod_are_said_in_a_sentence(
    pod: dict[str, Any], says: str, failed: bool
) -> None:
    assert calls.of(pod) == (says, failed)
