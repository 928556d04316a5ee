"""Start and stop consumers as Deployments of a Kubernetes cluster."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from lagless import messages
from lagless.adapters.kubernetes import access, calls, manifest, pod_watch
from lagless.errors import GiveUp, LaglessError, WrongSettings
from lagless.model import Consumer
from lagless.ports import Instance
from lagless.settings import Settings

SIDE_BY_SIDE = 16


class KubernetesProvisioner:
    """One Deployment per consumer, identified by its labels."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        access.configure(settings.provisioner.kubeconfig)
        self._apps = client.AppsV1Api()
        self._namespace = access.namespace(settings.provisioner.namespace)
        self._overlay = manifest.template(settings.provisioner.template)
        self._owner = self._own_deployment()
        self._validate()
        where = {"namespace": self._namespace, "label_selector": manifest.selector(settings.group)}
        self._deployments = pod_watch.Followed(
            "Deployments", self._apps.list_namespaced_deployment, **where
        )
        self._pods = pod_watch.Followed("pods", client.CoreV1Api().list_namespaced_pod, **where)
        self._deployments.start()
        self._pods.start()

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        """Create the Deployments in parallel; one that already exists counts as created."""
        troubles = self._each(self._create, consumers)
        return {n: trouble for n, trouble in troubles.items() if trouble}

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        """Delete the Deployments whose consumers have these incarnations."""
        self._each(lambda n: self._delete(n, consumers[n]), consumers)

    def instances(self) -> Sequence[Instance]:
        """Return the Deployments that exist, with the problems of their pods."""
        pods: dict[str, list[dict[str, Any]]] = {}
        doing = "Kubernetes does not let lagless list and watch Deployments and pods"
        with calls.refused(GiveUp, doing):
            for pod in self._pods.objects():
                pods.setdefault(pod["metadata"]["labels"][manifest.CONSUMER], []).append(pod)
            deployments = self._deployments.objects()
        return [
            _instance(deployment, pods.get(deployment["metadata"]["labels"][manifest.CONSUMER], []))
            for deployment in deployments
        ]

    def close(self) -> None:
        """Stop following the cluster; consumers keep running."""
        self._deployments.stop()
        self._pods.stop()

    def _each(
        self, act: Callable[[Consumer], str], consumers: Collection[Consumer]
    ) -> dict[Consumer, str]:
        if not consumers:
            return {}
        with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(consumers))) as pool:
            return dict(zip(consumers, pool.map(act, consumers), strict=True))

    def _create(self, consumer: Consumer) -> str:
        try:
            created = self._post(consumer, uuid.uuid4().hex[:12])
        except ApiException as error:
            if error.status != 409:
                return f"Kubernetes refused consumer {consumer}: {calls.words(error)}"
            return self._exists(consumer)
        except LaglessError as error:
            return str(error)
        self._deployments.note(client.ApiClient().sanitize_for_serialization(created))
        return ""

    def _exists(self, consumer: Consumer) -> str:
        try:
            existing = self._read(consumer)
        except LaglessError as error:
            return str(error)
        if existing is not None and existing.metadata.deletion_timestamp is not None:
            return f"consumer {consumer} is still being deleted: wait until it is gone"
        return "" if existing is not None else f"consumer {consumer} was just deleted: try again"

    def _post(self, consumer: Consumer, birth: str, **more: Any) -> Any:
        body = manifest.deployment(self._settings, consumer, birth, self._overlay, self._owner)
        create = self._apps.create_namespaced_deployment
        return calls.ask("create a Deployment", create, self._namespace, body, **more)

    def _read(self, consumer: Consumer) -> Any:
        name = manifest.name(self._settings.group, consumer)
        read = self._apps.read_namespaced_deployment
        with calls.refused(GiveUp, f"Kubernetes does not return {name}", 404):
            return calls.ask("read a Deployment", read, name, self._namespace)
        return None

    def _delete(self, consumer: Consumer, incarnation: str) -> str:
        existing = self._read(consumer)
        if existing is None or existing.metadata.deletion_timestamp is not None:
            return ""
        meant = messages.birth(incarnation)
        if meant and (existing.metadata.annotations or {}).get(manifest.BIRTH) != meant:
            return ""  # a later start has the number now
        # Foreground: the name is free only once the pod is gone, so consumer N never runs twice.
        options = client.V1DeleteOptions(
            propagation_policy="Foreground",
            preconditions=client.V1Preconditions(uid=existing.metadata.uid),
        )
        delete = self._apps.delete_namespaced_deployment
        name = existing.metadata.name
        with calls.refused(GiveUp, f"Kubernetes does not delete {name}", 404, 409):
            calls.ask("delete a Deployment", delete, name, self._namespace, body=options)
        return ""

    def _own_deployment(self) -> dict[str, Any] | None:
        """Return the controller's Deployment as owner, so that consumers are deleted with it."""
        name = self._settings.provisioner.owner
        if name is None:
            return None
        read = self._apps.read_namespaced_deployment
        doing = f"provisioner.owner: Kubernetes does not know the Deployment {name!r}"
        with calls.refused(WrongSettings, doing):
            existing = calls.ask("read its own Deployment", read, name, self._namespace)
        uid = existing.metadata.uid
        return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid}

    def _validate(self) -> None:
        """Let the API server validate the manifest in a dry run."""
        doing = "provisioner.template: Kubernetes refuses the manifest"
        with calls.refused(WrongSettings, doing, 409):
            self._post(0, "check", dry_run="All")


def _instance(deployment: Mapping[str, Any], pods: Sequence[dict[str, Any]]) -> Instance:
    metadata = deployment["metadata"]
    trouble, failed, running = "", False, False
    for pod in pods:
        reason, bad = calls.of(pod)
        trouble, failed = trouble or reason, failed or bad
        conditions = (pod.get("status") or {}).get("conditions") or []
        running |= any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    ends = bool(metadata.get("deletionTimestamp"))
    return Instance(
        consumer=int(metadata["labels"][manifest.CONSUMER]),
        phase="deleting" if ends else "running" if running else "failed" if failed else "starting",
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]).timestamp(),
        trouble=trouble,
        birth=(metadata.get("annotations") or {}).get(manifest.BIRTH, ""),
    )
