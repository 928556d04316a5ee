"""The Deployment of a consumer: a built-in one, with the user's template laid over it."""

import hashlib
import math
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
MANY = 10_000
"""Values of a template."""
_NAMES: list[Any] = [{}]
_CONTAINER = {"env": _NAMES, "ports": _NAMES, "volumeMounts": _NAMES}
_POD = {"containers": [_CONTAINER], "volumes": _NAMES}
_MARKED: dict[str, Any] = {"labels": {}, "annotations": {}}
_SHAPE = {"metadata": _MARKED, "spec": {"template": {"metadata": _MARKED, "spec": _POD}}}
"""The parts of a Deployment that lagless itself sets."""
_KEPT = ("apiVersion", "kind")


def slug(group: str) -> str:
    """Return a group as part of a Kubernetes name; two groups never share it."""
    plain = re.sub(r"[^a-z0-9-]", "-", group.lower()).strip("-")[:30].strip("-")
    if plain == group:
        return plain
    return f"{plain}-{hashlib.sha256(group.encode()).hexdigest()[:8]}".lstrip("-")


def name(group: str, consumer: Consumer) -> str:
    """Return the name of a consumer's Deployment."""
    return f"lagless-{slug(group)}-{consumer}"


def labels(group: str, consumer: Consumer | None = None) -> dict[str, str]:
    """Return the labels of a group's Deployments and pods, or of one consumer's."""
    common = {
        "app.kubernetes.io/name": "lagless",
        "app.kubernetes.io/component": "consumer",
        GROUP: slug(group),
    }
    return common if consumer is None else {**common, CONSUMER: str(consumer)}


def selector(group: str) -> str:
    """Return the label selector of a group's consumers."""
    return ",".join(f"{key}={value}" for key, value in labels(group).items())


def template(file: Path | None) -> dict[str, Any]:
    """Return the user's template: a Deployment, any part of which may be missing."""
    if file is None:
        return {}
    try:
        document = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise WrongSettings(
            f"provisioner.template: {file} cannot be read: {error.strerror}"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise WrongSettings(f"provisioner.template: {file} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise WrongSettings(f"provisioner.template: {file} should be a Deployment in YAML")
    if document.get("kind", "Deployment") != "Deployment":
        raise WrongSettings(
            f"provisioner.template: {file} is a {str(document['kind'])[:60]} and should be a "
            "Deployment"
        )
    trouble = _unfit(document, _SHAPE) or _not_json(document)
    if trouble:
        raise WrongSettings(f"provisioner.template: {file}: {trouble}")
    return document


def _unfit(value: Any, shape: Any, path: str = "") -> str:
    """Return where a template differs from the shape of a Deployment; "" if it does not."""
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            return f"{path or 'it'} should be a mapping"
        for key, inner in shape.items():
            if key in value and (trouble := _unfit(value[key], inner, f"{path}.{key}".lstrip("."))):
                return trouble
    elif isinstance(shape, list):
        if not _named(value):
            return f"{path} should be a list of mappings with a name each"
        for entry in value:
            if not isinstance(entry["name"], str):
                return f"{path} should be a list of mappings with a name each"
            if trouble := _unfit(entry, shape[0], f"{path}.{entry['name']}"):
                return trouble
    return ""


def _not_json(document: Any) -> str:
    """Return what cannot be sent to the API server; "" if everything can.

    Aliases can make a short file stand for a huge document, or for an endless one.
    """
    count = 0
    waiting = [("", document)]
    while waiting:
        path, value = waiting.pop()
        count += 1
        if count > MANY:
            return f"it expands to more than {MANY} values, too many for a Deployment"
        if isinstance(value, dict):
            if not all(isinstance(key, str) and _is_unicode(key) for key in value):
                return f"{path or 'it'} has a key that is not text"
            waiting += [(f"{path}.{key}".lstrip("."), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(path, inner) for inner in value]
        elif isinstance(value, float) and not math.isfinite(value):
            return f"{path} is not a finite number"
        elif isinstance(value, str) and not _is_unicode(value):
            return f"{path} is not Unicode text"
        elif value is not None and not isinstance(value, str | int | float):
            return f"{path} should be text, a number, true or false; put it into quotes"
    return ""


def _is_unicode(text: str) -> bool:
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False


def deployment(
    settings: Settings,
    consumer: Consumer,
    birth: str,
    overlay: Mapping[str, Any],
    owner: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the Deployment of consumer N for one start of it."""
    merged = merge(_built_in(settings, consumer), overlay)
    assert isinstance(merged, dict)
    marks = labels(settings.group, consumer)
    # lagless identifies its Deployments by these fields, so a template cannot change them.
    merged["metadata"] |= {"name": name(settings.group, consumer)}
    merged["metadata"].setdefault("labels", {}).update(marks)
    merged["metadata"].setdefault("annotations", {})[BIRTH] = birth
    if owner is not None:
        merged["metadata"]["ownerReferences"] = [dict(owner)]
    spec = merged["spec"]
    spec |= {"replicas": 1, "selector": {"matchLabels": marks}, "strategy": {"type": "Recreate"}}
    spec["template"].setdefault("metadata", {}).setdefault("labels", {}).update(marks)
    for container in spec["template"]["spec"]["containers"]:
        if container["name"] == CONTAINER:
            own = {"LAGLESS_BIRTH": birth, "LAGLESS_CONSUMER__METRICS_PORT": str(METRICS_PORT)}
            env = [{"name": key, "value": value} for key, value in own.items()]
            container["env"] = merge(container.get("env", []), env)
            if not container.get("image"):
                raise WrongSettings(
                    "provisioner.image: is missing; set it to an image that contains lagless"
                )
    return merged


def _built_in(settings: Settings, consumer: Consumer) -> dict[str, Any]:
    probe = {"port": METRICS_PORT, "scheme": "HTTP"}
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": settings.provisioner.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["consumer", str(consumer), "--config", "/etc/lagless/lagless.toml"],
        "env": [{"name": "HOME", "value": "/tmp"}],  # nosec B108  # the pod's own
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
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # nosec B108  # the pod's own
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
    """Merge two values: mappings by key, lists of named items by name."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        merged = dict(base)
        for key, value in over.items():
            if key not in _KEPT:
                merged[key] = merge(base[key], value) if key in base else value
        return merged
    if _named(base) and _named(over):
        by_name = {entry["name"]: entry for entry in base}
        for entry in over:
            by_name[entry["name"]] = merge(by_name.get(entry["name"], {}), entry)
        return list(by_name.values())
    return over


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(e, Mapping) and "name" in e for e in value)
