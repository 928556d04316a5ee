"""Which answers of an API server are insisted on, and which are the caller's."""

import json
from collections.abc import Callable

import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ReadTimeoutError

from lagless.adapters.kubernetes import calls
from lagless.errors import GiveUp, TryAgain


def answer(status: int, message: str = "", reason: str = "") -> ApiException:
    found = ApiException(status=status, reason=reason)
    found.body = json.dumps({"message": message, "reason": reason})
    return found


def after(*troubles: Exception) -> tuple[Callable[[], str], list[int]]:
    """Return a call that fails so often, and how often it was made."""
    left, made = list(troubles), [0]

    def call() -> str:
        made[0] += 1
        if left:
            raise left.pop(0)
        return "done"

    return call, made


@pytest.mark.parametrize("status", [409, 429, 500, 503, 504])
def test_trouble_that_passes_is_insisted_on(status: int) -> None:
    call, made = after(answer(status), answer(status))
    assert calls.insist("try", call) == "done"
    assert made == [3]


def test_a_connection_that_breaks_is_made_again() -> None:
    silent = ReadTimeoutError(None, "/", "timed out")  # type: ignore[arg-type]  # no pool here
    call, made = after(silent, ConnectionResetError())
    assert calls.insist("try", call) == "done"
    assert made == [3]


def test_insisting_ends_and_says_what_was_heard_last() -> None:
    call, _ = after(*[answer(503, "etcd is away")] * 100)
    with pytest.raises(TryAgain, match=r"could not make a Deployment for .* etcd is away"):
        calls.insist("make a Deployment", call, 0.3)


@pytest.mark.parametrize(("status", "reason"), [(404, "NotFound"), (409, "AlreadyExists")])
def test_what_is_about_the_object_is_the_callers(status: int, reason: str) -> None:
    call, made = after(answer(status, reason=reason))
    with pytest.raises(ApiException):
        calls.insist("try", call)
    assert made == [1]


@pytest.mark.parametrize("status", [401, 403])
def test_a_right_that_is_missing_is_named_at_once(status: int) -> None:
    call, made = after(answer(status, 'cannot create resource "deployments"'))
    with pytest.raises(GiveUp, match='does not let lagless try: cannot create resource "deplo'):
        calls.insist("try", call)
    assert made == [1]
