"""The provisioner on a real cluster with real pods."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lagless.adapters.kubernetes.provisioner import KubernetesProvisioner
from lagless.errors import WrongSettings
from lagless.ports import Instance
from lagless.settings import Settings
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

Make = Callable[..., Settings]


@contextmanager
def running(settings: Settings) -> Iterator[KubernetesProvisioner]:
    provisioner = KubernetesProvisioner(settings)
    try:
        yield provisioner
    finally:
        provisioner.delete({found.consumer: "" for found in provisioner.instances()})
        until(lambda: not provisioner.instances(), "the consumers to be gone")
        provisioner.close()


def phases(provisioner: KubernetesProvisioner) -> dict[int, str]:
    return {found.consumer: found.phase for found in provisioner.instances()}


def one(provisioner: KubernetesProvisioner, test: Callable[[Instance], Any]) -> Instance:
    """Wait until the one consumer that there is passes the test."""

    def look() -> Instance | None:
        found = provisioner.instances()
        return found[0] if len(found) == 1 and test(found[0]) else None

    found = until(look, "the consumer to be as expected")
    assert isinstance(found, Instance)
    return found


def test_consumers_start_side_by_side_and_are_found_again(settings: Make) -> None:
    with running(settings()) as provisioner:
        assert provisioner.create([1, 2, 5]) == {}
        assert provisioner.create([2]) == {}, "what exists is a success"
        until(
            lambda: phases(provisioner) == {1: "running", 2: "running", 5: "running"},
            "three consumers to be ready",
        )
        second = KubernetesProvisioner(settings())
        assert {found.consumer for found in second.instances()} == {1, 2, 5}
        second.close()


def test_deletion_means_one_incarnation_and_a_name_is_free_only_when_its_pod_is_gone(
    settings: Make,
) -> None:
    with running(settings()) as provisioner:
        provisioner.create([1])
        born = one(provisioner, lambda found: found.phase == "running").birth
        provisioner.delete({1: "another.incarnation"})
        assert phases(provisioner) == {1: "running"}
        provisioner.delete({1: f"{born}.x", 9: ""})
        assert "still being deleted" in provisioner.create([1])[1]
        until(lambda: not provisioner.instances(), "the consumer to be gone")
        assert provisioner.create([1]) == {}
        assert one(provisioner, lambda found: found.phase == "running").birth != born


def test_a_pod_without_room_is_said_to_wait(settings: Make) -> None:
    greedy = {"resources": {"requests": {"cpu": "500", "memory": "1Mi"}}}
    with running(settings(greedy)) as provisioner:
        provisioner.create([1])
        found = one(provisioner, lambda found: found.trouble)
        assert found.phase == "starting"
        assert "no node has room" in found.trouble


def test_an_image_that_is_not_there_is_named(settings: Make) -> None:
    with running(settings(image="localhost/nothing:1")) as provisioner:
        provisioner.create([1])
        found = one(provisioner, lambda found: "Image" in found.trouble)
        assert found.phase == "starting"


def test_a_consumer_that_keeps_dying_has_failed(settings: Make) -> None:
    with running(settings({"command": ["python3", "-c", "raise SystemExit(3)"]})) as provisioner:
        provisioner.create([1])
        found = one(provisioner, lambda found: found.phase == "failed")
        assert "status 3" in found.trouble


def test_a_consumer_that_needs_too_much_memory_has_failed(settings: Make) -> None:
    hungry = {
        "command": ["python3", "-c", "x = bytearray(200 << 20)"],
        "resources": {"requests": {"memory": "16Mi"}, "limits": {"memory": "32Mi"}},
    }
    with running(settings(hungry)) as provisioner:
        provisioner.create([1])
        assert "OOMKilled" in one(provisioner, lambda found: "OOM" in found.trouble).trouble


def test_a_template_that_the_cluster_refuses_is_named_at_the_start(settings: Make) -> None:
    with pytest.raises(WrongSettings, match=r"provisioner\.template: Kubernetes refuses"):
        KubernetesProvisioner(settings({"resources": {"limits": {"memory": "much"}}}))
    with pytest.raises(WrongSettings, match=r"provisioner\.owner: .*'nobody'"):
        KubernetesProvisioner(settings(owner="nobody"))


def test_consumers_are_deleted_with_their_owner(settings: Make, namespace: str) -> None:
    from kubernetes import client

    apps = client.AppsV1Api()
    labels = {"app": "controller"}
    pod = {"containers": [{"name": "pause", "image": "localhost/pause:1"}]}
    apps.create_namespaced_deployment(
        namespace,
        {
            "metadata": {"name": "controller"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    )
    with running(settings(owner="controller")) as provisioner:
        provisioner.create([1])
        one(provisioner, lambda found: found.phase == "running")
        apps.delete_namespaced_deployment("controller", namespace)
        until(lambda: not provisioner.instances(), "the consumer to go with its owner")
