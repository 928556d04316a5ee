"""The Deployment of a consumer: a built-in one, with the user's template laid over it."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lagless.errors import WrongSettings
from lagless.model import Consumer
from lagless.settings import Settings

GROUP, CONSUMER, BIRTH = "lagless.group", "lagless.consumer", "lagless.birth"
CONTAINER = "consumer"
METRICS_PORT = 9400
_KEPT = ("apiVersion", "kind")


def slug(group: str) -> str:
    """Turn a group into a part of a Kubernetes name; two groups never share one."""
    plain = re.sub(r"[^a-z0-9-]", "-", group.lower()).strip("-")[:30].strip("-")
    if plain == group:
        return plain
    return f"{plain}-{hashlib.sha256(group.encode()).hexdigest()[:8]}".lstrip("-")


def name(group: str, consumer: Consumer) -> str:
    """Name the Deployment of a consumer."""
    return f"lagless-{slug(group)}-{consumer}"


def labels(group: str, consumer: Consumer | None = None) -> dict[str, str]:
    """Give the labels of a group's Deployments and pods, or of one consumer's."""
    found = {
        "app.kubernetes.io/name": "lagless",
        "app.kubernetes.io/component": "consumer",
        GROUP: slug(group),
    }
    return found if consumer is None else {**found, CONSUMER: str(consumer)}


def selector(group: str) -> str:
    """Give the label selector of a group's consumers."""
    return ",".join(f"{key}={value}" for key, value in labels(group).items())


def template(file: Path | None) -> dict[str, Any]:
    """Read the user's template: a Deployment of which any part may be left out."""
    if file is None:
        return {}
    try:
        document = yaml.safe_load(file.read_text())
    except OSError as error:
        raise WrongSettings(
            f"provisioner.template: {file} cannot be read: {error.strerror}"
        ) from error
    except yaml.YAMLError as error:
        raise WrongSettings(f"provisioner.template: {file} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise WrongSettings(f"provisioner.template: {file} should be a Deployment in YAML")
    if document.get("kind", "Deployment") != "Deployment":
        raise WrongSettings(
            f"provisioner.template: {file} is a {document['kind']} and should be a Deployment"
        )
    return document


def deployment(
    settings: Settings,
    consumer: Consumer,
    birth: str,
    overlay: Mapping[str, Any],
    owner: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Give the Deployment of consumer N for one start of it."""
    merged = merge(_built_in(settings, consumer), overlay)
    assert isinstance(merged, dict)
    marks = labels(settings.group, consumer)
    # What lagless finds its own by is not the user's to change.
    merged["metadata"] |= {"name": name(settings.group, consumer)}
    merged["metadata"].setdefault("labels", {}).update(marks)
    merged["metadata"].setdefault("annotations", {})[BIRTH] = birth
    if owner is not None:
        merged["metadata"]["ownerReferences"] = [dict(owner)]
    spec = merged["spec"]
    spec |= {"replicas": 1, "selector": {"matchLabels": marks}, "strategy": {"type": "Recreate"}}
    spec["template"].setdefault("metadata", {}).setdefault("labels", {}).update(marks)
    containers = spec["template"]["spec"]["containers"]
    for container in containers:
        if container["name"] == CONTAINER:
            container["env"] = merge(container.get("env", []), _env(birth))
            if not container.get("image"):
                raise WrongSettings(
                    "provisioner.image: is missing; name the image that has lagless in it"
                )
    return merged


def _env(birth: str) -> list[dict[str, str]]:
    return [
        {"name": "LAGLESS_BIRTH", "value": birth},
        {"name": "LAGLESS_CONSUMER__METRICS_PORT", "value": str(METRICS_PORT)},
    ]


def _built_in(settings: Settings, consumer: Consumer) -> dict[str, Any]:
    probe = {"port": METRICS_PORT, "scheme": "HTTP"}
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": settings.provisioner.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["consumer", str(consumer), "--config", "/etc/lagless/lagless.toml"],
        "env": [{"name": "HOME", "value": "/tmp"}],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "readinessProbe": {
            "httpGet": {**probe, "path": "/ready"},
            "periodSeconds": 2,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": {**probe, "path": "/health"},
            "initialDelaySeconds": 30,
            "periodSeconds": 10,
            "failureThreshold": 6,
        },
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if settings.provisioner.config_map is not None:
        container["volumeMounts"].append({"name": "config", "mountPath": "/etc/lagless"})
        volumes.append({"name": "config", "configMap": {"name": settings.provisioner.config_map}})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {},
        "spec": {
            "progressDeadlineSeconds": int(max(30, settings.consumer.start_deadline)),
            "revisionHistoryLimit": 0,
            "template": {
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": int(settings.consumer.cycle_deadline),
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 10001,
                        "runAsGroup": 10001,
                        "fsGroup": 10001,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container],
                    "volumes": volumes,
                }
            },
        },
    }


def merge(base: Any, over: Any) -> Any:
    """Lay one value over another: mappings by key, lists of named things by name."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        merged = dict(base)
        for key, value in over.items():
            if key not in _KEPT:
                merged[key] = merge(base[key], value) if key in base else value
        return merged
    if _named(base) and _named(over):
        found = {entry["name"]: entry for entry in base}
        for entry in over:
            found[entry["name"]] = merge(found.get(entry["name"], {}), entry)
        return list(found.values())
    return over


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(e, Mapping) and "name" in e for e in value)
