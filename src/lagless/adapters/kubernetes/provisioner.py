"""Start and stop consumers as Deployments of a Kubernetes cluster."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from lagless import messages
from lagless.adapters.kubernetes import calls, manifest, troubles, watching
from lagless.errors import GiveUp, LaglessError, WrongSettings
from lagless.model import Consumer
from lagless.ports import Instance
from lagless.settings import Settings

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
SIDE_BY_SIDE = 16


class KubernetesProvisioner:
    """One Deployment per consumer, found again by its labels."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        _configure(settings.provisioner.kubeconfig)
        self._apps = client.AppsV1Api()
        self._namespace = settings.provisioner.namespace or _own_namespace()
        self._overlay = manifest.template(settings.provisioner.template)
        self._owner = self._own_deployment()
        self._validate()
        core = client.CoreV1Api()
        selection = {
            "namespace": self._namespace,
            "label_selector": manifest.selector(settings.group),
        }
        self._deployments = watching.Followed(
            "Deployments", self._apps.list_namespaced_deployment, **selection
        )
        self._pods = watching.Followed("pods", core.list_namespaced_pod, **selection)
        self._deployments.start()
        self._pods.start()

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        """Create the Deployments side by side; what exists is a success."""
        return {n: said for n, said in self._each(self._create, list(consumers)).items() if said}

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        """Delete Deployments whose consumer is of the incarnation that is meant."""
        self._each(lambda n: self._delete(n, consumers[n]), list(consumers))

    def instances(self) -> Sequence[Instance]:
        """Give what exists, with what troubles its pods."""
        pods: dict[str, list[dict[str, Any]]] = {}
        try:
            for pod in self._pods.objects():
                pods.setdefault(pod["metadata"]["labels"][manifest.CONSUMER], []).append(pod)
            deployments = self._deployments.objects()
        except ApiException as error:
            raise GiveUp(
                f"Kubernetes does not let lagless list and watch Deployments and pods: "
                f"{calls.said(error)}"
            ) from error
        return [
            _instance(found, pods.get(found["metadata"]["labels"][manifest.CONSUMER], []))
            for found in deployments
        ]

    def close(self) -> None:
        """Follow the cluster no longer; consumers go on."""
        self._deployments.stop()
        self._pods.stop()

    def _each(
        self, act: Callable[[Consumer], str], consumers: Sequence[Consumer]
    ) -> dict[Consumer, str]:
        if not consumers:
            return {}
        with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(consumers))) as pool:
            return dict(zip(consumers, pool.map(act, consumers), strict=True))

    def _create(self, consumer: Consumer) -> str:
        body = manifest.deployment(
            self._settings, consumer, uuid.uuid4().hex[:12], self._overlay, self._owner
        )
        try:
            made = calls.insist(
                "create a Deployment",
                lambda: self._apps.create_namespaced_deployment(
                    self._namespace, body, _request_timeout=calls.TIMEOUT
                ),
            )
        except ApiException as error:
            if error.status != 409:
                return f"Kubernetes refused consumer {consumer}: {calls.said(error)}"
            return self._exists(consumer)
        except LaglessError as error:
            return str(error)
        self._deployments.note(client.ApiClient().sanitize_for_serialization(made))
        return ""

    def _exists(self, consumer: Consumer) -> str:
        try:
            found = self._read(consumer)
        except LaglessError as error:
            return str(error)
        if found is not None and found.metadata.deletion_timestamp is not None:
            return f"consumer {consumer} is just being deleted: wait until it is gone"
        return "" if found is not None else f"consumer {consumer} was just deleted: try again"

    def _read(self, consumer: Consumer) -> Any:
        name = manifest.name(self._settings.group, consumer)
        try:
            return calls.insist(
                "read a Deployment",
                lambda: self._apps.read_namespaced_deployment(
                    name, self._namespace, _request_timeout=calls.TIMEOUT
                ),
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise GiveUp(f"Kubernetes does not tell of {name}: {calls.said(error)}") from error

    def _delete(self, consumer: Consumer, incarnation: str) -> str:
        found = self._read(consumer)
        if found is None or found.metadata.deletion_timestamp is not None:
            return ""
        meant = messages.birth(incarnation)
        if meant and (found.metadata.annotations or {}).get(manifest.BIRTH) != meant:
            return ""  # a later start has the number now
        # Foreground: the name is free only when the pod is gone, so never two of N run.
        options = client.V1DeleteOptions(
            propagation_policy="Foreground",
            preconditions=client.V1Preconditions(uid=found.metadata.uid),
        )
        try:
            calls.insist(
                "delete a Deployment",
                lambda: self._apps.delete_namespaced_deployment(
                    found.metadata.name,
                    self._namespace,
                    body=options,
                    _request_timeout=calls.TIMEOUT,
                ),
            )
        except ApiException as error:
            if error.status not in (404, 409):
                raise GiveUp(
                    f"Kubernetes does not delete {found.metadata.name}: {calls.said(error)}"
                ) from error
        return ""

    def _own_deployment(self) -> dict[str, Any] | None:
        """Refer to the controller's own Deployment, so that consumers are deleted with it."""
        name = self._settings.provisioner.owner
        if name is None:
            return None
        try:
            found = calls.insist(
                "read its own Deployment",
                lambda: self._apps.read_namespaced_deployment(
                    name, self._namespace, _request_timeout=calls.TIMEOUT
                ),
            )
        except ApiException as error:
            raise WrongSettings(
                f"provisioner.owner: Kubernetes does not know the Deployment {name!r}: "
                f"{calls.said(error)}"
            ) from error
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": name,
            "uid": found.metadata.uid,
        }

    def _validate(self) -> None:
        """Have the API server check the manifest, without keeping it."""
        body = manifest.deployment(self._settings, 0, "check", self._overlay, self._owner)
        try:
            calls.insist(
                "create a Deployment",
                lambda: self._apps.create_namespaced_deployment(
                    self._namespace, body, dry_run="All", _request_timeout=calls.TIMEOUT
                ),
            )
        except ApiException as error:
            if error.status != 409:
                raise WrongSettings(
                    f"provisioner.template: Kubernetes refuses the manifest: {calls.said(error)}"
                ) from error


def _instance(deployment: Mapping[str, Any], pods: Sequence[dict[str, Any]]) -> Instance:
    metadata = deployment["metadata"]
    trouble, failed, running = "", False, False
    for pod in pods:
        said, bad = troubles.of(pod)
        trouble, failed = trouble or said, failed or bad
        conditions = (pod.get("status") or {}).get("conditions") or []
        running |= any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return Instance(
        consumer=int(metadata["labels"][manifest.CONSUMER]),
        phase=(
            "deleting"
            if metadata.get("deletionTimestamp")
            else "running"
            if running
            else "failed"
            if failed
            else "starting"
        ),
        created_at=_seconds(metadata["creationTimestamp"]),
        trouble=trouble,
        birth=(metadata.get("annotations") or {}).get(manifest.BIRTH, ""),
    )


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _configure(kubeconfig: Path | None) -> None:
    try:
        if kubeconfig is not None:
            config.load_kube_config(str(kubeconfig))
        else:
            try:
                config.load_incluster_config()
            except ConfigException:
                config.load_kube_config()
    except (ConfigException, OSError) as error:
        raise WrongSettings(
            f"provisioner.kubeconfig: there is no way to a cluster: {error}"
        ) from error
    # urllib3 would try again by itself, without a pause, and three times as long.
    chosen = client.Configuration.get_default_copy()
    chosen.retries = False
    client.Configuration.set_default(chosen)


def _own_namespace() -> str:
    return _NAMESPACE.read_text().strip() if _NAMESPACE.exists() else "default"
