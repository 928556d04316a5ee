"""A copy of the group's Deployments and pods that follows the API server.

List once, then watch for changes; when a watch breaks or is too old, list again.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from lagless.adapters.kubernetes import calls
from lagless.errors import TryAgain

WATCH = 5
"""Seconds that a watch lasts; the next one continues where it ended."""


class Followed:
    """All objects of one kind, by name, as plain dictionaries."""

    def __init__(self, what: str, list_call: Callable[..., Any], **selection: str) -> None:
        self._what = what
        self._list = list_call
        self._selection = selection
        self._objects: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._heard_at = -float("inf")
        self._trouble = "there was no answer yet"
        self._refused: Exception | None = None
        self._plain = client.ApiClient()
        self._stream: watch.Watch | None = None
        self._ending = threading.Event()
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"watch-{what}", daemon=True)

    def start(self) -> None:
        """Start to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._ending.set()
        if self._stream is not None:
            self._stream.stop()

    def objects(self, patience: float = 10.0, stale: float = 15.0) -> list[dict[str, Any]]:
        """Return the objects; raise TryAgain if the API server has been silent too long."""
        self._first.wait(patience)
        with self._lock:
            if self._refused is not None:
                raise self._refused
            if time.monotonic() - self._heard_at > stale:
                raise TryAgain(f"Kubernetes does not list its {self._what}: {self._trouble}")
            return list(self._objects.values())

    def note(self, created: dict[str, Any]) -> None:
        """Add an object that was just created, before the watch reports it."""
        with self._lock:
            self._keep(created)

    def _keep(self, item: dict[str, Any]) -> None:
        """Keep an object unless a newer version of it is known: the watch may be behind."""
        held = self._objects.get(item["metadata"]["name"])
        if held is None or _version(held) <= _version(item):
            self._objects[item["metadata"]["name"]] = item

    def _follow(self) -> None:
        pause = 0.2
        while not self._ending.is_set():
            try:
                version = self._relist()
                pause = 0.2
                while not self._ending.is_set():
                    version = self._watch(version)
            except ApiException as error:
                if error.status in (401, 403):
                    with self._lock:
                        self._refused = error
                    self._first.set()
                    pause = 5.0
                self._trouble = f"{error.status} {error.reason}"
            except (HTTPError, OSError) as error:
                self._trouble = f"{type(error).__name__}: {error}"
            self._ending.wait(pause)
            pause = min(2 * pause, 5.0)

    def _relist(self) -> str:
        with self._lock:
            before = dict(self._objects)
        listed = self._list(**self._selection, _request_timeout=calls.TIMEOUT)
        plain = self._plain.sanitize_for_serialization(listed)
        with self._lock:
            # Objects created while the answer was on its way may be missing from it.
            self._objects = {
                name: held for name, held in self._objects.items() if before.get(name) is not held
            }
            for item in plain.get("items") or []:
                self._keep(item)
            self._heard_at, self._refused = time.monotonic(), None
        self._first.set()
        return str(plain["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        """Follow for `WATCH` seconds and return the version reached; no event is an answer too."""
        self._stream = watch.Watch()
        events = self._stream.stream(
            self._list,
            **self._selection,
            resource_version=version,
            timeout_seconds=WATCH,
            # Without a timeout, a connection that died silently would be waited on forever.
            _request_timeout=(calls.TIMEOUT[0], WATCH + calls.TIMEOUT[1]),
        )
        for event in events:
            if event is None:  # a line that was cut off: its content is unknown
                raise HTTPError("a watch was cut off")
            item = self._plain.sanitize_for_serialization(event["object"])
            name = item["metadata"]["name"]
            with self._lock:
                self._keep(item)
                if event["type"] == "DELETED" and self._objects[name] is item:
                    del self._objects[name]
                self._heard_at = time.monotonic()
        with self._lock:
            self._heard_at = time.monotonic()
        return str(self._stream.resource_version or version)


def _version(item: dict[str, Any]) -> int:
    """Return the version of an object; newer versions are larger."""
    return int(item["metadata"]["resourceVersion"])
