"""Consumers as pods, on a cluster whose one node is this machine.

Pods take Python, the libraries and lagless itself from this machine by hostPath, so that no image
has to be built, and reach its broker and its Spark at the node's address. Everything is in a
namespace of its own, which is deleted in the end.
"""

import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lagless
from lagless import extras
from lagless.errors import GiveUp, WrongInput

IMAGE = "localhost/host:1"
"""Empty folders, into which this machine's are mounted."""
FILLER = "filler"
ASKED, LEFT = 50, 20
"""Thousandths of a core: what a consumer asks for, so that two cores have room for 20 of them, and
what a full node has left.
"""
GONE = 120.0
"""Seconds for the namespace's pods to end."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A namespace of its own on a cluster whose node is this machine."""

    kubeconfig: Path
    namespace: str
    address: str
    """Where pods reach this machine."""

    def provisioner(self, folder: Path) -> dict[str, Any]:
        """Return the settings of a provisioner whose consumers write below the folder."""
        lake = folder / "lake"
        lake.mkdir(parents=True, exist_ok=True)
        lake.chmod(0o777)
        overlay = template(
            lake,
            resources={"requests": {"cpu": f"{ASKED}m", "memory": "128Mi"}},
            env=[{"name": "PYTHONPATH", "value": os.environ.get("PYTHONPATH", "")}],
        )
        # An idle consumer holds nothing that it would have to end: a short grace is enough.
        overlay["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 10
        file = folder / "consumer.yaml"
        file.write_text(json.dumps(overlay))  # JSON is YAML
        return {
            "kind": "kubernetes",
            "kubeconfig": str(self.kubeconfig),
            "namespace": self.namespace,
            "image": IMAGE,
            "config_map": "lagless",
            "template": str(file),
        }

    def configure(self, config: Path) -> None:
        """Hand the settings to the pods, in a ConfigMap."""
        _core().create_namespaced_config_map(
            self.namespace,
            {"metadata": {"name": "lagless"}, "data": {"lagless.toml": config.read_text()}},
        )

    def fill(self) -> None:
        """Leave no room for another consumer: a pod that does nothing asks for the rest."""
        pause = {
            "name": FILLER,
            "image": "localhost/pause:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": {"cpu": f"{max(1, _free() - LEFT)}m"}},
        }
        pod = {"terminationGracePeriodSeconds": 0, "containers": [pause]}
        _core().create_namespaced_pod(self.namespace, {"metadata": {"name": FILLER}, "spec": pod})
        until = time.monotonic() + GONE
        while _core().read_namespaced_pod(FILLER, self.namespace).spec.node_name is None:
            if time.monotonic() > until:
                raise GiveUp("the pod that should fill the node does not fit on it")
            time.sleep(0.2)

    def free(self) -> None:
        """Make room again, as a new node would."""
        _core().delete_namespaced_pod(FILLER, self.namespace, grace_period_seconds=0)


def address(kubeconfig: Path) -> str:
    """Return the address at which pods reach this machine, which must be the cluster's one node."""
    with extras.needed("kubernetes"):
        from kubernetes import config
    try:
        config.load_kube_config(str(kubeconfig))
        nodes = _core().list_node().items
    except Exception as error:
        trouble = f"--kubeconfig {kubeconfig}: no cluster answers there ({error})"
        raise WrongInput(trouble) from error
    return _address(nodes, kubeconfig)


@contextmanager
def namespace(kubeconfig: Path) -> Iterator[Cluster]:
    """Make a namespace, and delete it with all that is in it."""
    where = address(kubeconfig)
    name = f"lagless-live-{uuid.uuid4().hex[:8]}"
    _core().create_namespace({"metadata": {"name": name}})
    try:
        until = time.monotonic() + 60
        while not _core().list_namespaced_service_account(name).items:
            if time.monotonic() > until:
                raise GiveUp(f"the namespace {name} has no service account after 60 s")
            time.sleep(0.1)
        yield Cluster(kubeconfig, name, where)
    finally:
        _core().delete_namespace(name)
        until = time.monotonic() + GONE
        while _core().list_namespaced_pod(name).items:
            if time.monotonic() > until:
                raise GiveUp(f"pods of the namespace {name} do not end")
            time.sleep(0.5)


def template(writable: Path, container: str = "consumer", **changes: Any) -> dict[str, Any]:
    """Return what is laid over a Deployment: this machine's Python, and a folder to write to."""
    mounted = [(path, True) for path in read_only()] + [(writable, False)]
    named = [(f"host-{index}", path, fixed) for index, (path, fixed) in enumerate(mounted)]
    overlay = {
        "name": container,
        "command": [sys.executable, "-m", "lagless"],
        "volumeMounts": [
            {"name": name, "mountPath": str(path), "readOnly": fixed} for name, path, fixed in named
        ],
        **changes,
    }
    volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path, _ in named]
    return {"spec": {"template": {"spec": {"containers": [overlay], "volumes": volumes}}}}


def read_only() -> list[Path]:
    """Return the folders that Python needs: the system's, its own, the environment's, lagless's."""
    source = Path(lagless.__file__).resolve().parents[1]
    wanted = [Path(p) for p in ("/usr", "/bin", "/lib", "/lib64", sys.base_prefix, sys.prefix)]
    found: list[Path] = []
    for path in [*wanted, source]:
        if path.exists() and not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def _address(nodes: list[Any], kubeconfig: Path) -> str:
    """Return the node's address, which has to be this machine's."""
    found = [a.address for node in nodes for a in node.status.addresses if a.type == "InternalIP"]
    if len(nodes) == 1 and len(found) == 1:
        with socket.socket() as probe:
            try:
                probe.bind((found[0], 0))
                return str(found[0])
            except OSError:
                pass
    raise WrongInput(
        f"--kubeconfig {kubeconfig}: the cluster should have one node, and that should be this "
        "machine, since its pods use the broker, the Spark and the Python that are here"
    )


def _free() -> int:
    """Return the thousandths of a core that nobody on the node has asked for."""
    (node,) = _core().list_node().items
    taken = 0
    for pod in _core().list_pod_for_all_namespaces().items:
        if pod.status.phase in ("Pending", "Running") and pod.spec.node_name is not None:
            for container in pod.spec.containers:
                asked = (container.resources.requests or {}) if container.resources else {}
                taken += _thousandths(asked.get("cpu", "0"))
    return _thousandths(node.status.allocatable["cpu"]) - taken


def _thousandths(text: str) -> int:
    """Read a number of cores: 2, 0.5 or 100m."""
    return int(text[:-1]) if text.endswith("m") else round(1000 * float(text))


def _core() -> Any:
    from kubernetes import client

    return client.CoreV1Api()
