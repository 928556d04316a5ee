"""The user's own workload, scaled by a real API server and its controllers with real pods."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lagless.adapters.kubernetes import emptied_pods
from lagless.adapters.kubernetes.workload_scaler import WorkloadScaler
from lagless.errors import GiveUp, WrongSettings
from lagless.group_ports import GroupMember
from lagless.settings import parse
from tests.kubernetes.conftest import SERVES
from tests.kubernetes.test_rights import bound
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

RULES = [
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
]
Make = Callable[..., WorkloadScaler]


@pytest.fixture
def make(kubeconfig: Path, namespace: str) -> Make:
    """Return a function that makes a scaler of the workload `orders`."""

    def scaler(kind: str, **more: Any) -> WorkloadScaler:
        provisioner = {"kind": kind, "workload": "orders", "namespace": namespace} | more
        provisioner.setdefault("kubeconfig", str(kubeconfig))
        document = {"group": "orders", "topics": ["orders"], "members": {"kind": "group"}}
        return WorkloadScaler(parse({**document, "provisioner": provisioner}))

    return scaler


def workload(kubeconfig: Path, namespace: str, kind: str, replicas: int) -> None:
    """Create the user's workload; its pods do nothing and end at once."""
    from kubernetes import client, config

    config.load_kube_config(str(kubeconfig))
    labels = {"app": "orders"}
    container = {"name": "c", "image": "localhost/py:1", "command": ["python3", "-c", SERVES]}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    apps = client.AppsV1Api()
    if kind == "statefulset":
        spec |= {"serviceName": "orders", "podManagementPolicy": "Parallel"}
    create = getattr(apps, f"create_namespaced_{kind.replace('statefulset', 'stateful_set')}")
    create(namespace, {"metadata": {"name": "orders"}, "spec": spec})


def pods(namespace: str) -> dict[str, str]:
    """Return the addresses of the running pods by name."""
    from kubernetes import client

    listed: Any = client.CoreV1Api().list_namespaced_pod(namespace, label_selector="app=orders")
    return {
        pod.metadata.name: pod.status.pod_ip
        for pod in listed.items
        if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
    }


def running(namespace: str, count: int) -> dict[str, str]:
    """Wait until so many pods run, and return them."""
    until(lambda: len(pods(namespace)) == count, f"{count} pods to run")
    return pods(namespace)


def test_the_pods_that_the_plan_empties_are_those_that_go(
    make: Make, kubeconfig: Path, namespace: str
) -> None:
    workload(kubeconfig, namespace, "deployment", 1)
    scaler = make("deployment")
    assert not scaler.ordered
    scaler.scale(4, [])
    there = running(namespace, 4)
    first, second, *stay = sorted(there)
    idle = [
        GroupMember("a", client=f"{first}-consumer"),
        GroupMember("b", host=f"/{there[second]}"),
    ]
    scaler.scale(2, idle)
    assert running(namespace, 2).keys() == set(stay)


def test_a_pod_with_work_stays_although_fewer_are_wanted_and_marks_are_taken_back(
    make: Make, kubeconfig: Path, namespace: str
) -> None:
    from kubernetes import client

    workload(kubeconfig, namespace, "deployment", 3)
    there = sorted(running(namespace, 3))
    scaler = make("deployment")
    scaler.scale(1, [])
    scaler.scale(1, [GroupMember("a", client="unknown")])
    assert sorted(pods(namespace)) == there

    def cost() -> str | None:
        pod: Any = client.CoreV1Api().read_namespaced_pod(there[0], namespace)
        return (pod.metadata.annotations or {}).get(emptied_pods.COST)

    idle = [GroupMember("a", instance=there[0])]
    scaler.scale(3, idle)
    assert cost() == emptied_pods.IDLE
    scaler.scale(3, [])
    assert cost() is None
    scaler.scale(1, idle)
    assert sorted(running(namespace, 2)) == there[1:]


def test_all_pods_go_and_come_back_only_where_that_is_allowed(
    make: Make, kubeconfig: Path, namespace: str
) -> None:
    workload(kubeconfig, namespace, "deployment", 1)
    (name,) = running(namespace, 1)
    make("deployment").scale(0, [GroupMember("a", instance=name)])
    assert len(pods(namespace)) == 1
    scaler = make("deployment", scale_to_zero=True)
    scaler.scale(1, [])
    assert len(pods(namespace)) == 1
    scaler.scale(0, [])
    running(namespace, 0)
    scaler.scale(2, [])
    running(namespace, 2)


def test_with_keda_pods_are_marked_and_the_number_is_left_alone(
    make: Make, kubeconfig: Path, namespace: str
) -> None:
    from kubernetes import client

    workload(kubeconfig, namespace, "deployment", 2)
    there = sorted(running(namespace, 2))
    scaler = make("keda")
    scaler.scale(1, [GroupMember("a", instance=there[0])])
    scaler.scale(4, [GroupMember("a", instance=there[0])])
    pod: Any = client.CoreV1Api().read_namespaced_pod(there[0], namespace)
    assert pod.metadata.annotations[emptied_pods.COST] == emptied_pods.IDLE
    read = client.AppsV1Api().read_namespaced_deployment_scale("orders", namespace)
    assert read.spec.replicas == 2


def test_a_stateful_set_loses_its_highest_pods_once_they_have_no_work(
    make: Make, kubeconfig: Path, namespace: str
) -> None:
    workload(kubeconfig, namespace, "statefulset", 3)
    running(namespace, 3)
    scaler = make("statefulset")
    assert scaler.ordered
    scaler.scale(2, [GroupMember("a", instance="orders-0")])
    assert len(pods(namespace)) == 3
    scaler.scale(1, [GroupMember("c", instance="orders-2")])
    assert running(namespace, 2).keys() == {"orders-0", "orders-1"}


def test_a_workload_that_is_not_there_is_named_at_the_start(make: Make) -> None:
    with pytest.raises(WrongSettings, match=r"provisioner\.workload: .*deployment 'orders'"):
        make("deployment")


def test_four_rights_are_enough_and_a_missing_one_is_named(
    make: Make, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    workload(kubeconfig, namespace, "deployment", 2)
    there = sorted(running(namespace, 2))
    own = bound(kubeconfig, namespace, tmp_path, RULES)
    scaler = make("deployment", kubeconfig=str(own))
    scaler.scale(1, [GroupMember("a", instance=there[0])])
    assert sorted(running(namespace, 1)) == there[1:]
    scaler.scale(2, [])


def test_without_the_right_to_mark_pods_nothing_is_scaled_down(
    make: Make, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    workload(kubeconfig, namespace, "deployment", 2)
    there = sorted(running(namespace, 2))
    rules = [RULES[0], RULES[1] | {"verbs": ["list"]}]
    scaler = make("deployment", kubeconfig=str(bound(kubeconfig, namespace, tmp_path, rules)))
    with pytest.raises(GiveUp, match="cannot patch resource"):
        scaler.scale(1, [GroupMember("a", instance=there[0])])
    assert sorted(pods(namespace)) == there
