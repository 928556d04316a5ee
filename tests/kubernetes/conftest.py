"""A namespace of the real test cluster for each test, and pods that do what a test says."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagless.settings import Settings, parse
from tests.kubernetes import hosted
from tests.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
BASE = DEPLOY / "base"
SERVES = """
import http.server, signal, sys
class Fine(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.HTTPServer(("", 9400), Fine).serve_forever()
"""


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    """Name the test cluster's kubeconfig."""
    return Path(os.environ["LAGLESS_TEST_KUBECONFIG"])


@pytest.fixture(scope="session")
def stage(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hosted.Stage]:
    """Run a broker and a Connect server that pods reach."""
    with hosted.stage(kubeconfig, tmp_path_factory.mktemp("stage")) as running:
        yield running


@contextmanager
def new_namespace(kubeconfig: Path) -> Iterator[str]:
    """Make a namespace that ends with the block."""
    from kubernetes import client, config

    config.load_kube_config(str(kubeconfig))
    core = client.CoreV1Api()
    name = f"lagless-test-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    until(lambda: core.list_namespaced_service_account(name).items, "its service account")
    try:
        yield name
    finally:
        core.delete_namespace(name)


@pytest.fixture
def namespace(kubeconfig: Path) -> Iterator[str]:
    """Make a namespace for one test."""
    with new_namespace(kubeconfig) as name:
        yield name


@pytest.fixture
def settings(kubeconfig: Path, namespace: str, tmp_path: Path) -> Callable[..., Settings]:
    """Return settings whose consumers are small HTTP servers, or what `container` says."""

    def make(container: dict[str, Any] | None = None, **provisioner: Any) -> Settings:
        overlay = {"name": "consumer", "command": ["python3", "-c", SERVES], **(container or {})}
        spec = {"terminationGracePeriodSeconds": 2, "containers": [overlay]}
        file = tmp_path / "template.yaml"
        file.write_text(yaml.safe_dump({"spec": {"template": {"spec": spec}}}))
        return parse(
            {
                "group": "Orders_1",
                "topics": ["orders"],
                "lake": {"path": "lake"},
                "provisioner": {
                    "kind": "kubernetes",
                    "kubeconfig": str(kubeconfig),
                    "namespace": namespace,
                    "image": "localhost/py:1",
                    "template": str(file),
                    **provisioner,
                },
            }
        )

    return make
