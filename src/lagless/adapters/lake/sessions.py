"""The Spark session of a consumer: opened when needed, and opened anew after it was lost."""

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from lagless.errors import Away

log = logging.getLogger("lagless.lake")
PATIENCE = 10.0
"""Seconds that a session may take to answer the simplest question."""


class Sessions:
    """One session at a time, shared by the threads of a cycle."""

    def __init__(self, url: str, opener: Callable[[], SparkSession]) -> None:
        self._url = url
        self._opener = opener
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    def get(self) -> SparkSession:
        """Give the session; Away where Spark does not answer."""
        with self._lock:
            if self._session is None:
                self._knock()
                try:
                    self._session = self._opener()
                except Exception as error:
                    if self._url.startswith("sc://"):
                        raise Away(f"Spark at {self._url}: {first_line(error)}", "spark") from error
                    raise
                _impatient(self._session)
            return self._session

    def check(self) -> bool:
        """Ask the session something simple; drop it and say False if it does not answer in time."""
        session = self._session
        if session is None:
            return False
        answers: list[int] = []
        asking = threading.Thread(
            target=_ask, args=(session, answers), daemon=True, name="spark-check"
        )
        asking.start()
        asking.join(PATIENCE)
        if not answers:
            self.drop()
        return bool(answers)

    def interrupt(self) -> None:
        """End what runs in the session, and keep it if it answers: a new one begins cold."""
        session = self._session
        if session is None:
            return
        ending = threading.Thread(
            target=_interrupt, args=(session,), daemon=True, name="spark-interrupt"
        )
        ending.start()
        ending.join(PATIENCE)
        if ending.is_alive():
            self.drop()
        else:
            self.check()

    def drop(self) -> None:
        """Leave the session and what runs in it; the next one is new."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            # Both calls may hang as the session did.
            threading.Thread(target=_leave, args=(session,), daemon=True, name="spark-end").start()

    def close(self) -> None:
        """End the session, waiting a moment at most."""
        session, self._session = self._session, None
        if session is not None:
            ending = threading.Thread(target=_stop, args=(session,), daemon=True, name="spark-end")
            ending.start()
            ending.join(3)

    def _knock(self) -> None:
        """Fail at once where no server listens: the client would try for minutes."""
        if not self._url.startswith("sc://"):
            return
        place = urlsplit(self._url)
        try:
            with socket.create_connection((place.hostname or "", place.port or 15002), 3):
                pass
        except OSError as error:
            raise Away(f"Spark at {self._url} does not answer: {error}", "spark") from error


def first_line(error: BaseException) -> str:
    """Give the line that says what is wrong: the first, or of a trace of Python's the last."""
    details = getattr(error, "details", None)  # what gRPC has to say, without its frame
    said = str(details() if callable(details) else error)
    if said.startswith("<_") and 'details = "' in said:
        said = said.split('details = "', 1)[1].split('"', 1)[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in lines):
        lines = [line for line in reversed(lines) if not line.startswith(("SQLSTATE", "JVM"))]
    return (lines[0] if lines else type(error).__name__)[:500]


def _ask(session: SparkSession, answers: list[int]) -> None:
    try:
        answers.append(session.range(1).count())
    except Exception as error:
        log.info("the Spark session does not answer: %s", first_line(error))


def _interrupt(session: Any) -> None:
    try:
        session.interruptAll()
    except Exception as error:
        log.info("what ran in Spark was not interrupted: %s", first_line(error))


def _leave(session: Any) -> None:
    _interrupt(session)
    if not hasattr(session, "_jvm"):
        _stop(session)


def _stop(session: SparkSession) -> None:
    try:
        session.stop()
    except Exception as error:
        log.info("the Spark session was not stopped: %s", first_line(error))


def _impatient(session: Any) -> None:
    """Let the Connect client give up soon: the consumer has its own pauses and deadlines."""
    client = getattr(session, "client", None)
    if client is None or not hasattr(client, "set_retry_policies"):
        return
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
    # A starved server answers a second attachment with INVALID_CURSOR.DISCONNECTED, and the client
    # waits for ever. Calls are short, and a broken one is made again by the next cycle.
    client.disable_reattachable_execute()
