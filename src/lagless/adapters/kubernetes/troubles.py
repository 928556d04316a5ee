"""What is wrong with a pod, in a sentence. Pure: works on what the API server said."""

from typing import Any

_CALM = {"ContainerCreating", "PodInitializing"}
_HOPELESS = {"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError"}


def of(pod: dict[str, Any]) -> tuple[str, bool]:
    """Say what troubles a pod ("" nothing), and whether it has failed rather than waits."""
    status = pod.get("status") or {}
    if status.get("phase") == "Failed":
        reason = status.get("reason") or "failed"
        return _sentence(f"the pod was {reason.lower()}", status.get("message")), True
    for container in status.get("containerStatuses") or []:
        trouble, failed = _container(container)
        if trouble:
            return trouble, failed
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _sentence("no node has room for the pod", condition.get("message")), False
    return "", False


def _container(status: dict[str, Any]) -> tuple[str, bool]:
    waiting = (status.get("state") or {}).get("waiting") or {}
    ended = (status.get("lastState") or {}).get("terminated") or {}
    ended = (status.get("state") or {}).get("terminated") or ended
    reason = waiting.get("reason")
    if ended.get("reason") == "OOMKilled":
        return "the consumer needed more memory than its limit (OOMKilled)", True
    if reason and reason not in _CALM:
        said = waiting.get("message")
        if reason == "CrashLoopBackOff" and ended.get("exitCode") is not None:
            said = f"last exit status {ended['exitCode']}"
        return _sentence(reason, said), reason in _HOPELESS
    if ended and (status.get("state") or {}).get("terminated"):
        return f"the consumer ended with status {ended.get('exitCode')}", True
    return "", False


def _sentence(what: str, message: str | None) -> str:
    return f"{what}: {' '.join(message.split())[:300]}" if message else what
