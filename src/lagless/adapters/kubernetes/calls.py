"""Calls of the API server: which answers are passing, and how long to insist."""

import json
import time
from collections.abc import Callable
from typing import TypeVar

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from lagless.errors import GiveUp, TryAgain

T = TypeVar("T")
_PASSING = {408, 409, 429, 500, 502, 503, 504}
TIMEOUT = (3.0, 5.0)
"""Seconds for a connection and for an answer: an API server that hangs must not hold us up."""


def insist(what: str, call: Callable[[], T], seconds: float = 5.0) -> T:
    """Call, and again with growing pauses while the trouble is a passing one.

    The controller waits meanwhile, and asks again later by itself: so not for long. 404 and 409
    about the object itself are the caller's to handle: catch ApiException.
    """
    pause, until = 0.1, time.monotonic() + seconds
    while True:
        try:
            return call()
        except ApiException as error:
            trouble = said(error)
            if error.status in (401, 403):
                raise GiveUp(f"Kubernetes does not let lagless {what}: {trouble}") from error
            if error.status not in _PASSING or _is_about_the_object(error):
                raise
        except (HTTPError, OSError) as error:
            trouble = f"{type(error).__name__}: {error}"
        if time.monotonic() + pause > until:
            raise TryAgain(f"Kubernetes could not {what} for {seconds:g} s: {trouble}")
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


def _is_about_the_object(error: ApiException) -> bool:
    """Tell "it exists already" and "its uid is another" from a conflict that passes."""
    body = str(error.body or "")
    return error.status == 409 and any(
        word in body for word in ("AlreadyExists", "Precondition", "UID")
    )


def said(error: ApiException) -> str:
    """Give the API server's own words."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"
