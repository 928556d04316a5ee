"""Calls to the API server: which errors are worth a retry, and what is wrong with a pod."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from lagless.errors import GiveUp, LaglessError, TryAgain

T = TypeVar("T")
_PASSING = {408, 409, 429, 500, 502, 503, 504}
_OBJECT = re.compile("AlreadyExists|Precondition|UID")
TIMEOUT = (3.0, 5.0)
"""Seconds to connect and to answer: an API server that hangs must not block the controller."""


def ask(what: str, call: Callable[..., T], *arguments: Any, **more: Any) -> T:
    """Call the API server with a timeout; see `insist`."""
    return insist(what, partial(call, *arguments, **more, _request_timeout=TIMEOUT))


def insist(what: str, call: Callable[[], T], seconds: float = 5.0) -> T:
    """Call, and retry temporary errors with growing pauses.

    The controller waits meanwhile, so not for long: it tries again later by itself. The caller
    handles 404, and 409 about the object itself, by catching ApiException.
    """
    pause, until = 0.1, time.monotonic() + seconds
    while True:
        try:
            return call()
        except ApiException as error:
            trouble = words(error)
            if error.status in (401, 403):
                raise GiveUp(f"Kubernetes does not let lagless {what}: {trouble}") from error
            # A conflict is "already exists" or "another uid" too, which a retry cannot solve.
            conflicts = error.status == 409 and _OBJECT.search(str(error.body))
            if error.status not in _PASSING or conflicts:
                raise
        except (HTTPError, OSError) as error:
            trouble = f"{type(error).__name__}: {error}"
        if time.monotonic() + pause > until:
            raise TryAgain(f"Kubernetes could not {what} for {seconds:g} s: {trouble}")
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


@contextmanager
def refused(kind: type[LaglessError], doing: str, *but: int) -> Iterator[None]:
    """Raise `kind` where the API server refuses; a status in `but` only ends the block."""
    try:
        yield
    except ApiException as error:
        if error.status not in but:
            raise kind(f"{doing}: {words(error)}") from error


def words(error: ApiException) -> str:
    """Return the message of the API server."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"


_CALM = {"ContainerCreating", "PodInitializing"}
_HOPELESS = {"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError"}


def of(pod: dict[str, Any]) -> tuple[str, bool]:
    """Return what is wrong with a pod ("" if nothing), and whether it failed or only waits."""
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
    state, last = status.get("state") or {}, status.get("lastState") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or last.get("terminated") or {}
    reason = waiting.get("reason")
    if ended.get("reason") == "OOMKilled":
        return "the consumer needed more memory than its limit (OOMKilled)", True
    if reason and reason not in _CALM:
        detail = waiting.get("message")
        if reason == "CrashLoopBackOff" and ended.get("exitCode") is not None:
            detail = f"last exit status {ended['exitCode']}"
        return _sentence(reason, detail), reason in _HOPELESS
    if state.get("terminated"):
        return f"the consumer ended with status {ended.get('exitCode')}", True
    return "", False


def _sentence(what: str, message: str | None) -> str:
    return f"{what}: {' '.join(message.split())[:300]}" if message else what
