"""The images that the Dockerfile describes, installed in each of the ways that the guide names.

`scripts/images` has built them; LAGLESS_TEST_IMAGES names its folder. What this cluster lacks is
added as a user would: a volume for the lake, an address where there is no DNS, less CPU for Spark.
"""

import json
import os
import shutil
import subprocess
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kubernetes import client

from lagless.lab import testbed
from lagless.lab.load import counting, flows, records
from lagless.lab.load.load import Load
from tests.kubernetes import hosted
from tests.kubernetes.conftest import DEPLOY, new_namespace
from tests.kubernetes.helm import CHART, HELM
from tests.waiting import until

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif("LAGLESS_TEST_IMAGES" not in os.environ, reason="no images were built"),
]
PARTITIONS = 4
IMAGES = {"lagless": "localhost/lagless", "lagless-spark": "localhost/lagless-spark"}
LESS = {"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests", "value": {}}


class Cluster:
    """A namespace, spoken to with kubectl and Helm."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.namespace = namespace
        self._where = ["--kubeconfig", str(kubeconfig), "-n", namespace]

    def kubectl(self, *words: str, text: str | None = None) -> str:
        return self._run("kubectl", *words, text=text)

    def helm(self, *words: str) -> str:
        return self._run(str(HELM.build()), *words)

    def pods(self, component: str) -> list[Any]:
        selector = f"app.kubernetes.io/component={component}"
        core = client.CoreV1Api()
        return list(core.list_namespaced_pod(self.namespace, label_selector=selector).items)

    def address(self, service: str) -> str:
        """Return a service's address: pods of this cluster resolve no names."""
        return str(
            client.CoreV1Api().read_namespaced_service(service, self.namespace).spec.cluster_ip
        )

    def start_seconds(self, component: str) -> list[float]:
        """Return how long each pod took from its creation to ready."""
        found = []
        for pod in self.pods(component):
            for condition in pod.status.conditions or []:
                if condition.type == "Ready" and condition.status == "True":
                    at = condition.last_transition_time
                    found.append((at - pod.metadata.creation_timestamp).total_seconds())
        return found

    def _run(self, *words: str, text: str | None = None) -> str:
        command = [words[0], *self._where, *words[1:]]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Way(NamedTuple):
    """A way to install lagless: what installs it, changes it and removes it."""

    install: Callable[[Cluster, Path, dict[str, Any]], None]
    change: Callable[[Cluster, Path, dict[str, Any]], None]
    remove: Callable[[Cluster, Path], None]
    roles: tuple[str, ...]


def folder(base: str, mine: Path, namespace: str, document: dict[str, Any]) -> None:
    """Write a user's folder: settings, images, and what this cluster lacks."""
    shutil.copytree(DEPLOY, mine.parent / "kubernetes", dirs_exist_ok=True)
    mine.mkdir(exist_ok=True)
    (mine / "lagless.toml").write_text(testbed.toml(document))
    shutil.copy(DEPLOY / base / "consumer.yaml", mine)
    kustomization = {
        "resources": [f"../kubernetes/{base}"],
        "namespace": namespace,
        "images": [
            {"name": name, "newName": image, "newTag": "test"} for name, image in IMAGES.items()
        ],
        "configMapGenerator": [
            {"name": "lagless", "behavior": "replace", "files": ["lagless.toml", "consumer.yaml"]}
        ],
    }
    if base == "shared-spark":
        target = {"kind": "Deployment", "name": "lagless-connect"}
        kustomization["patches"] = [{"target": target, "patch": yaml.safe_dump([LESS])}]
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))


def install_own(cluster: Cluster, at: Path, document: dict[str, Any]) -> None:
    base = tomllib.loads((DEPLOY / "base" / "lagless.toml").read_text())
    document["spark"] = base["spark"]
    document["provisioner"]["image"] = f"{IMAGES['lagless-spark']}:test"
    folder("base", at / "mine", cluster.namespace, document)
    cluster.kubectl("apply", "-k", str(at / "mine"))


def install_shared(cluster: Cluster, at: Path, document: dict[str, Any]) -> None:
    document["provisioner"]["image"] = f"{IMAGES['lagless']}:test"
    document["spark"] = {"url": "sc://unknown:15002"}
    folder("shared-spark", at / "mine", cluster.namespace, document)
    rendered = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(at / "mine"))))
    services = yaml.safe_dump_all(one for one in rendered if one["kind"] == "Service")
    cluster.kubectl("apply", "-f", "-", text=services)
    document["spark"] = {"url": f"sc://{cluster.address('lagless-connect')}:15002"}
    folder("shared-spark", at / "mine", cluster.namespace, document)
    cluster.kubectl("apply", "-k", str(at / "mine"))


def change_folder(cluster: Cluster, at: Path, document: dict[str, Any]) -> None:
    """Roll out other settings, as the guide says."""
    (at / "mine" / "lagless.toml").write_text(testbed.toml(document))
    cluster.kubectl("apply", "-k", str(at / "mine"))
    for role in ("monitor", "controller"):
        cluster.kubectl("rollout", "restart", f"deployment/lagless-{role}")


def remove_folder(cluster: Cluster, at: Path) -> None:
    cluster.kubectl("delete", "-k", str(at / "mine"), "--wait=true")


def chart_values(at: Path, document: dict[str, Any]) -> Path:
    said = {key: value for key, value in document.items() if key not in ("provisioner", "lake")}
    values = {
        "settings": said,
        "image": {"repository": IMAGES["lagless"], "tag": "test"},
        "sparkImage": {"repository": IMAGES["lagless-spark"], "tag": "test"},
    }
    (at / "values.yaml").write_text(yaml.safe_dump(values))
    return at / "values.yaml"


def install_chart(cluster: Cluster, at: Path, document: dict[str, Any]) -> None:
    cluster.helm("install", "lagless", str(CHART), "-f", str(chart_values(at, document)))


def change_chart(cluster: Cluster, at: Path, document: dict[str, Any]) -> None:
    cluster.helm("upgrade", "lagless", str(CHART), "-f", str(chart_values(at, document)))


def remove_chart(cluster: Cluster, at: Path) -> None:
    cluster.helm("uninstall", "lagless", "--wait")
    # The claim is kept on purpose, with the tables.
    left = client.CoreV1Api().list_namespaced_persistent_volume_claim(cluster.namespace).items
    assert [claim.metadata.name for claim in left] == ["lagless-lake"]


ROLES = ("controller", "monitor", "dashboard")
WAYS = {
    "base": Way(install_own, change_folder, remove_folder, ROLES),
    "shared-spark": Way(install_shared, change_folder, remove_folder, (*ROLES, "connect")),
    "chart": Way(install_chart, change_chart, remove_chart, ROLES),
}


@contextmanager
def volume(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Offer a volume on the node for the lake's claim."""
    folder.mkdir()
    folder.chmod(0o777)
    spec = {
        "capacity": {"storage": "100Gi"},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": str(folder)},
        "claimRef": {"namespace": cluster.namespace, "name": "lagless-lake"},
    }
    name = f"lake-{cluster.namespace}"
    document = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }
    cluster.kubectl("apply", "-f", "-", text=json.dumps(document))
    try:
        yield folder
    finally:
        client.CoreV1Api().delete_persistent_volume(name)


@pytest.mark.parametrize("way", WAYS)
def test_it_runs_from_the_images_takes_a_change_and_leaves_nothing(
    way: str, stage: hosted.Stage, kubeconfig: Path, tmp_path: Path
) -> None:
    install, change, remove, roles = WAYS[way]
    name = f"images-{uuid.uuid4().hex[:6]}"
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    document: dict[str, Any] = {
        "group": name,
        "topics": [name],
        "kafka": {"bootstrap": stage.bootstrap},
        "consumer": {"max_rate": 1_000_000},
        "topic": {name: {"format": "json", "schema": records.SCHEMA}},
        "lake": {"path": "/lake"},
        "provisioner": {
            "kind": "kubernetes",
            "config_map": "lagless",
            "template": "/etc/lagless/consumer.yaml",
            "owner": "lagless-controller",
        },
    }
    tables = {name: name}
    flow = flows.steady(flows.spread({name: PARTITIONS}), 20_000)
    with (
        new_namespace(kubeconfig) as namespace,
        Load(stage.bootstrap, flow) as load,
        volume(cluster := Cluster(kubeconfig, namespace), tmp_path / "lake") as lake,
    ):
        began = time.monotonic()
        install(cluster, tmp_path, document)
        until(
            lambda: (lake / name / "_delta_log").is_dir() and counting.arrived(lake, tables),
            "the first records in the lake",
            600,
        )
        print(f"{way}: first records after {time.monotonic() - began:.0f} s")
        for component in (*roles, "consumer"):
            print(component, "ready after", cluster.start_seconds(component), "s")
        for role in roles:
            (restarts,) = {p.status.container_statuses[0].restart_count for p in cluster.pods(role)}
            assert restarts == 0, f"{role} was restarted"
        before = {pod.metadata.name for pod in cluster.pods("monitor")}
        document["monitor"] = {"interval": 4}
        change(cluster, tmp_path, document)
        until(
            lambda: before.isdisjoint(pod.metadata.name for pod in cluster.pods("monitor")),
            "another monitor",
            300,
        )
        load.ask_to_stop()
        tally = until(lambda: (t := load.tally()).complete and t, "the load to end")
        until(lambda: counting.arrived(lake, tables) >= tally.records, "every record", 300)
        count = counting.count(lake, tables, tally.produced)
        assert count.landed == count.produced > 0
        assert count.duplicated == count.out_of_order == count.lost == 0
        for pod in cluster.pods("consumer"):
            assert pod.status.container_statuses[0].restart_count == 0
        remove(cluster, tmp_path)
        until(lambda: not cluster.pods("consumer"), "the consumers to go", 120)
        left = client.AppsV1Api().list_namespaced_deployment(namespace).items
        assert left == []
        assert counting.arrived(lake, tables) == tally.records
