"""A pod like a consumer's that runs another command of lagless once, and what it printed.

It has the consumers' image, resources, volumes and environment, so it measures what a consumer can
do. It has no label of theirs: the controller must not take it for one.
"""

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from lagless.adapters.kubernetes import access, calls, manifest
from lagless.errors import GiveUp
from lagless.settings import Settings

LOOK = 2.0
"""Seconds between two looks at the pod."""
WAITS = 300.0
"""Seconds that a pod may wait for its image and for room on a node."""
LINES = 50
"""Last lines of the log that tell why a pod failed."""


def pod(settings: Settings, words: Sequence[str], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod that runs `lagless WORDS` once with what a consumer is given."""
    consumer = manifest.deployment(settings, 1, "measuring", overlay)
    spec = consumer["spec"]["template"]["spec"]
    spec["restartPolicy"] = "Never"
    for container in spec["containers"]:
        if container["name"] == manifest.CONTAINER:
            container["args"] = [*words, "--config", _config(container)]
            for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
                container.pop(probe, None)
    name = f"lagless-{manifest.slug(settings.group)}-{words[0]}-{uuid.uuid4().hex[:6]}"
    labels = {"app.kubernetes.io/name": "lagless", "app.kubernetes.io/component": words[0]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def run(settings: Settings, words: Sequence[str], note: Callable[[str], None]) -> dict[str, Any]:
    """Run the pod and return the JSON object that it printed; the pod is deleted at the end."""
    access.configure(settings.provisioner.kubeconfig)
    overlay = manifest.template(settings.provisioner.template)
    namespace = access.namespace(settings.provisioner.namespace)
    return follow(client.CoreV1Api(), namespace, pod(settings, words, overlay), note)


def follow(
    core: Any, namespace: str, body: dict[str, Any], note: Callable[[str], None], look: float = LOOK
) -> dict[str, Any]:
    """Create the pod, wait until it has ended, and return what it printed."""
    name = body["metadata"]["name"]
    with calls.refused(GiveUp, f"the pod {name} cannot be created"):
        calls.ask("create a pod", core.create_namespaced_pod, namespace, body)
    note(f"pod {name} in the namespace {namespace}")
    try:
        phase = _ended(core, namespace, name, look)
        log = calls.ask("read a pod's log", core.read_namespaced_pod_log, name, namespace)
        if phase != "Succeeded":
            last = " / ".join(log.splitlines()[-LINES:][-3:])
            raise GiveUp(f"the pod {name} failed: {last or 'its log is empty'}")
        return _printed(name, log)
    finally:
        with contextlib.suppress(ApiException):
            calls.ask("delete a pod", core.delete_namespaced_pod, name, namespace)


def _ended(core: Any, namespace: str, name: str, look: float) -> str:
    """Wait for the end of the pod, and return its phase; GiveUp if it never starts."""
    until = time.monotonic() + WAITS
    while True:
        with calls.refused(GiveUp, f"the pod {name} is gone"):
            found = calls.ask("read a pod", core.read_namespaced_pod, name, namespace)
        status = client.ApiClient().sanitize_for_serialization(found.status)
        phase = str(status.get("phase"))
        if phase in ("Succeeded", "Failed"):
            return phase
        trouble, failed = calls.of({"status": status})
        if failed or (phase == "Pending" and time.monotonic() > until):
            raise GiveUp(f"the pod {name} does not start: {trouble or 'the reason is unknown'}")
        time.sleep(look)


def _printed(name: str, log: str) -> dict[str, Any]:
    """Return the object among the notes of a log: stdout and stderr of a pod are one."""
    at = log.find("\n{") + 1 if not log.startswith("{") else 0
    try:
        printed, _ = json.JSONDecoder().raw_decode(log[at:])
    except ValueError as error:
        raise GiveUp(f"the pod {name} printed no result: {log[-200:]!r}") from error
    assert isinstance(printed, dict)
    return printed


def _config(container: Mapping[str, Any]) -> str:
    arguments = list(container["args"])
    return str(arguments[arguments.index("--config") + 1])
