"""Scale the user's own Deployment or StatefulSet, so that the pods without work are those that go.

lagless changes two things of a workload: the number in its scale subresource, and one annotation of
its pods. It never deletes a pod.
"""

import logging
from collections.abc import Callable, Collection
from typing import Any

from kubernetes import client

from lagless.adapters.kubernetes import access, calls, emptied_pods
from lagless.adapters.kubernetes.emptied_pods import Pod
from lagless.errors import GiveUp, TryAgain, WrongSettings
from lagless.group_ports import GroupMember
from lagless.settings import Settings

log = logging.getLogger("lagless.kubernetes")


class WorkloadScaler:
    """A `group_ports.Scaler` of the workload in the settings; with KEDA, it only marks pods."""

    def __init__(self, settings: Settings) -> None:
        chosen = settings.provisioner
        access.configure(chosen.kubeconfig)
        self._namespace = access.namespace(chosen.namespace)
        self._name = str(chosen.workload)
        self._only_marks = chosen.kind == "keda"
        self._kind = "deployment" if self._only_marks else chosen.kind
        self._least = 0 if chosen.scale_to_zero else 1
        self._warned = ""
        apps = client.AppsV1Api()
        self._pods = client.CoreV1Api()
        call = {"deployment": "deployment", "statefulset": "stateful_set"}[self._kind]
        self._read: Callable[..., Any] = getattr(apps, f"read_namespaced_{call}_scale")
        self._patch: Callable[..., Any] = getattr(apps, f"patch_namespaced_{call}_scale")
        doing = f"provisioner.workload: Kubernetes does not know the {self._what}"
        with calls.refused(WrongSettings, doing):
            self._scale()

    @property
    def ordered(self) -> bool:
        """Whether the pods go by their ordinal, the highest first."""
        return self._kind == "statefulset"

    def scale(self, size: int, idle: Collection[GroupMember]) -> None:
        """Ask for `size` replicas, and mark the pods of the idle members; raise TryAgain."""
        size = max(size, self._least)
        with calls.refused(TryAgain, f"Kubernetes does not scale the {self._what}"):
            scale = self._scale()
            current = scale.spec.replicas or 0
            pods = self._list(scale.status.selector)
            free = emptied_pods.of(idle, pods)
            if not self.ordered:
                self._mark(emptied_pods.marks(pods, free))
            if self._only_marks:
                return
            removable = emptied_pods.removable(pods, free, self.ordered)
            # No members wanted means that there is no work, whatever the plan says.
            wanted = emptied_pods.replicas(current, size, removable) if size else 0
            self._explain(size, wanted, len(idle), len(free))
            if wanted != current:
                log.info("scaling the %s from %s to %s pods", self._what, current, wanted)
                body = {"spec": {"replicas": wanted}}
                calls.ask(f"scale the {self._what}", self._patch, self._name, self._namespace, body)

    @property
    def _what(self) -> str:
        return f"{self._kind} {self._name!r} in namespace {self._namespace!r}"

    def _scale(self) -> Any:
        doing = f"read the scale of the {self._what}"
        return calls.ask(doing, self._read, self._name, self._namespace)

    def _list(self, selector: str) -> list[Pod]:
        listed = self._pods.list_namespaced_pod
        found = calls.ask("list pods", listed, self._namespace, label_selector=selector)
        return [_pod(pod) for pod in found.items if _counts(pod)]

    def _mark(self, marks: dict[str, str | None]) -> None:
        patch = self._pods.patch_namespaced_pod
        for name, cost in marks.items():
            body = {"metadata": {"annotations": {emptied_pods.COST: cost}}}
            # A pod may be gone by now.
            with calls.refused(GiveUp, f"Kubernetes does not mark pod {name!r}", 404):
                calls.ask("mark a pod", patch, name, self._namespace, body)

    def _explain(self, size: int, wanted: int, idle: int, found: int) -> None:
        """Warn once if fewer pods should run, but it is unclear which of them may be removed."""
        warning = ""
        if wanted > size and found < idle:
            warning = (
                f"not scaling the {self._what} below {wanted} pods: of {idle} members without "
                f"work, {found} could be matched to a pod; set group.instance.id or client.id to "
                "the pod's name, and run one member per pod"
            )
        if warning and warning != self._warned:
            log.warning("%s", warning)
        self._warned = warning


def _counts(pod: Any) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in (
        "Succeeded",
        "Failed",
    )


def _pod(pod: Any) -> Pod:
    conditions = pod.status.conditions or []
    return Pod(
        name=pod.metadata.name,
        address=pod.status.pod_ip or "",
        ready=any(c.type == "Ready" and c.status == "True" for c in conditions),
        cost=(pod.metadata.annotations or {}).get(emptied_pods.COST, ""),
    )
