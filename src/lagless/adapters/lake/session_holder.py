"""The Spark session of a consumer: opened when needed, and again after it was lost."""

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
        """Return the session; Away where Spark does not answer."""
        with self._lock:
            if self._session is None:
                self._knock()
                try:
                    self._session = self._opener()
                except Exception as error:
                    if self._url.startswith("sc://"):
                        raise Away(f"Spark at {self._url}: {first_line(error)}", "spark") from error
                    raise
                if self._url.startswith("sc://"):
                    _impatient(self._session)
            return self._session

    def check(self) -> bool:
        """Return whether the session answers a simple query in time; drop it if it does not."""
        session = self._session
        if session is None:
            return False
        answers: list[int] = []

        def ask() -> None:
            answers.append(session.range(1).count())

        trouble = "the Spark session does not answer"
        _start("spark-check", _quietly, trouble, ask).join(PATIENCE)
        if not answers:
            self.drop()
        return bool(answers)

    def interrupt(self) -> None:
        """Cancel the jobs of the session, and keep it if it answers: a new one starts cold."""
        session = self._session
        if session is None:
            return
        ending = _start("spark-interrupt", _interrupt, session)
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
            _start("spark-end", _leave, session)

    def close(self) -> None:
        """End the session, waiting a moment at most."""
        session, self._session = self._session, None
        if session is not None:
            _start("spark-end", _stop, session).join(3)

    def _knock(self) -> None:
        """Fail at once where no server listens: the client would try for minutes."""
        if not self._url.startswith("sc://"):
            return
        address = urlsplit(self._url)
        try:
            with socket.create_connection((address.hostname or "", address.port or 15002), 3):
                pass
        except OSError as error:
            raise Away(f"Spark at {self._url} does not answer: {error}", "spark") from error


def _start(name: str, target: Callable[..., None], *arguments: object) -> threading.Thread:
    """Call in a thread of its own: any call to a session may hang."""
    thread = threading.Thread(target=target, args=arguments, daemon=True, name=name)
    thread.start()
    return thread


def first_line(error: BaseException) -> str:
    """Return the line that names the cause: the first, or the last of a Python traceback."""
    details = getattr(error, "details", None)  # gRPC's own sentence, without its frame
    text = str(details() if callable(details) else error)
    if text.startswith("<_") and 'details = "' in text:
        text = text.split('details = "', 1)[1].split('"', 1)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in lines):
        lines = [line for line in reversed(lines) if not line.startswith(("SQLSTATE", "JVM"))]
    return (lines[0] if lines else type(error).__name__)[:500]


def _quietly(trouble: str, call: Callable[[], object]) -> None:
    """Call a function; only log its errors."""
    try:
        call()
    except Exception as error:
        log.info("%s: %s", trouble, first_line(error))


def _interrupt(session: Any) -> None:
    _quietly("Spark did not interrupt its running jobs", session.interruptAll)


def _leave(session: Any) -> None:
    _interrupt(session)
    if not hasattr(session, "_jvm"):
        _stop(session)


def _stop(session: SparkSession) -> None:
    _quietly("the Spark session was not stopped", session.stop)


def _impatient(session: Any) -> None:
    """Let the Connect client give up soon: the consumer has its own pauses and deadlines."""
    client = getattr(session, "client", None)
    if client is None or not hasattr(client, "set_retry_policies"):
        return
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=1000)])
    # A starved server answers a second attachment with INVALID_CURSOR.DISCONNECTED, and the client
    # waits for ever. Calls are short, and the next cycle repeats a broken one.
    client.disable_reattachable_execute()
