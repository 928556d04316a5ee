"""Consumers as real pods of the test cluster, from this machine's own virtual environment.

The cluster's node is this machine: pods take Python, the libraries and lagless itself from it by
hostPath, reach its broker and Connect server at the node's address, and write to a folder of it.
"""

import compileall
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import yaml

import lagless
from lagless.lab.live import pods
from lagless.lab.testbed import Testbed

IMAGE = pods.IMAGE
"""Empty folders, into which the host's are mounted."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A testbed that pods reach."""

    kubeconfig: Path
    bed: Testbed

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return self.bed.bootstrap

    @property
    def spark(self) -> str:
        """The Connect server's address."""
        return self.bed.spark


@contextmanager
def stage(kubeconfig: Path, folder: Path) -> Iterator[Stage]:
    """Run a broker and a warm Connect server that pods reach."""
    # Pods cannot write beside the source: each would compile it again.
    compileall.compile_dir(Path(lagless.__file__).parent, quiet=2)
    with Testbed(folder, address=pods.address(kubeconfig)) as bed:
        yield Stage(kubeconfig, bed)


def write_template(file: Path, writable: Path) -> Path:
    """Write the template to a file, and open the folder to every user."""
    writable.mkdir(parents=True, exist_ok=True)
    writable.chmod(0o777)
    file.write_text(yaml.safe_dump(pods.template(writable)))
    return file


def config_map(namespace: str, *files: Path) -> None:
    """Create the ConfigMap `lagless` of the pods: each file under its own name."""
    from kubernetes import client

    data = {path.name: path.read_text() for path in files}
    client.CoreV1Api().create_namespaced_config_map(
        namespace, {"metadata": {"name": "lagless"}, "data": data}
    )


def processes(role: str = "consumer") -> dict[str, psutil.Process]:
    """Return the processes of a role in pods as the host sees them, by pod."""
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
    """Return pods a copy of the compiled kernels that lie beside the source, which they cannot use.

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
