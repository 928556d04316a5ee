"""A Connect server with a token: it serves those who have it, and nobody else."""

from collections.abc import Iterator

import pytest

from lagless.adapters.lake.session_holder import Sessions
from lagless.adapters.spark.sessions import session
from lagless.errors import Away
from lagless.lab.parts.connect import TOKEN, ConnectServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]
VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


@pytest.fixture(scope="module")
def guarded() -> Iterator[ConnectServer]:
    with ConnectServer(conf={TOKEN: "let-me-in"}, memory="600m", warm=False) as running:
        yield running


def test_who_has_the_token_is_served(
    guarded: ConnectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "let-me-in")
    spark = session(guarded.url)
    assert spark.range(3).count() == 3
    spark.stop()


@pytest.mark.parametrize("token", [None, "let-me-guess"])
def test_strangers_are_refused_and_told_so(
    guarded: ConnectServer, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if token is not None:
        monkeypatch.setenv(VARIABLE, token)
    sessions = Sessions(guarded.url, lambda: session(guarded.url))
    with pytest.raises(Away, match=r"(?i)token|authenticat") as refused:
        sessions.get()
    assert "let-me" not in str(refused.value)
