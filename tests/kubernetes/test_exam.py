"""The exam of every provisioner, on a real cluster with real pods."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lagless.adapters.kubernetes import manifest
from lagless.adapters.kubernetes.provisioner import KubernetesProvisioner
from lagless.model import Consumer
from lagless.ports import Provisioner
from lagless.settings import Settings
from tests.adapters.provisioner_exam import ProvisionerExam
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@pytest.fixture
def provisioner(settings: Callable[..., Settings]) -> Iterator[KubernetesProvisioner]:
    made = KubernetesProvisioner(settings())
    yield made
    made.delete({found.consumer: "" for found in made.instances()})
    until(lambda: not made.instances(), "the consumers to be gone")
    made.close()


class TestExam(ProvisionerExam):
    patience = 60.0

    @pytest.fixture(autouse=True)
    def _place(self, namespace: str) -> None:
        self.namespace = namespace

    def running(self, provisioner: Provisioner) -> set[Consumer]:
        from kubernetes import client

        pods: Any = client.CoreV1Api().list_namespaced_pod(self.namespace).items
        return {
            int(pod.metadata.labels[manifest.CONSUMER])
            for pod in pods
            if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        }
