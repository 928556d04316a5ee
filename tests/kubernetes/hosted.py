"""Consumers as real pods of the test cluster, from this machine's own virtual environment.

The cluster's node is this machine: pods take Python, the libraries and lagless itself from it by
hostPath, reach its broker and Connect server at the node's address, and write to a folder of it.
"""

import compileall
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import yaml

import lagless
from lagless.embedded import ports
from lagless.embedded.broker import Broker
from lagless.embedded.spark import ConnectServer
from lagless.live import pods

IMAGE = pods.IMAGE
"""Empty folders, into which the host's are mounted."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What pods find outside of the cluster, at addresses that they reach."""

    kubeconfig: Path
    broker: Broker
    connect: ConnectServer
    address: str

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return self.broker.listeners["PODS"]

    @property
    def spark(self) -> str:
        """The Connect server's address."""
        return f"sc://{self.address}:{self.connect.url.rpartition(':')[2]}"


@contextmanager
def stage(kubeconfig: Path, folder: Path) -> Iterator[Stage]:
    """Run a broker and a warm Connect server that pods reach."""
    # Pods cannot write beside the source: each would compile it anew.
    compileall.compile_dir(Path(lagless.__file__).parent, quiet=2)
    where = pods.address(kubeconfig)
    port = ports.free()[0]
    listeners = {
        "listeners": f"PODS://0.0.0.0:{port}",
        "advertised.listeners": f"PODS://{where}:{port}",
        "listener.security.protocol.map": "PODS:PLAINTEXT",
    }
    # Spark is root's here, and the consumers' user has no name: what one writes, the other has to
    # be able to delete. On a user's cluster both are one user.
    conf = {"spark.hadoop.fs.permissions.umask-mode": "000"}
    with Broker(folder / "broker", settings=listeners) as broker:
        server = ConnectServer(
            folder / "connect", conf=conf, host="0.0.0.0", bootstrap=broker.listeners["PODS"]
        )
        before = os.umask(0)
        try:
            server.start()
        finally:
            os.umask(before)
        with server:
            yield Stage(kubeconfig, broker, server, where)


def write_template(file: Path, writable: Path) -> Path:
    """Write the template to a file, and open the folder to every user."""
    writable.mkdir(parents=True, exist_ok=True)
    writable.chmod(0o777)
    file.write_text(yaml.safe_dump(pods.template(writable)))
    return file


def config_map(namespace: str, *files: Path) -> None:
    """Give the pods their settings, in a ConfigMap `lagless`: each file under its own name."""
    from kubernetes import client

    data = {path.name: path.read_text() for path in files}
    client.CoreV1Api().create_namespaced_config_map(
        namespace, {"metadata": {"name": "lagless"}, "data": data}
    )


def processes(role: str = "consumer") -> dict[str, psutil.Process]:
    """Give the processes of a role in pods as the host sees them, by pod."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if role in words and "/etc/lagless/lagless.toml" in words:
            try:
                found[process.environ()["HOSTNAME"]] = process
            except (psutil.Error, KeyError):
                continue  # it has just ended, or just begun
    return found


def kernels(folder: Path) -> Path:
    """Give pods a copy of the compiled kernels that lie beside the source, which they cannot use.

    Numba wants to be able to write where it reads; without them each controller compiles its own.
    """
    source = Path(lagless.__file__).resolve().parent / "packing"
    # This is how numba names the folder of a module under NUMBA_CACHE_DIR.
    target = folder / f"{source.name}_{hashlib.sha1(str(source).encode()).hexdigest()}"
    target.mkdir(parents=True)
    for file in (source / "__pycache__").glob("*.nb?"):
        shutil.copy(file, target)
    for path in (folder, target, *target.iterdir()):
        path.chmod(0o777)
    return folder
