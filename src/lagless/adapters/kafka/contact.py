"""First contact with Kafka: say within seconds that nobody answers, or who is not let in.

Kafka's clients try again behind the scenes, whatever is wrong, and tell the reason only to a
callback. So a command or a role asks here first, before it makes the clients that it works with.
"""

import logging
import re
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from lagless.adapters.kafka import connection
from lagless.errors import GiveUp, TryAgain
from lagless.settings import KafkaSettings

PATIENCE = 2.0
"""Seconds in which a broker has to answer."""
SURE = 1.0
"""Seconds after which a refused connection or an unknown name counts."""
BUSY = 3.0
"""Seconds more for a broker that accepts connections and is slow to answer."""
SLICE = 0.2
LOOKED_AT = 3
"""Brokers of the cluster that are tried, of which one has to be reachable."""
_VAGUE = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}
"""Errors that say less than the sentence around them."""
_HTTP = str(int.from_bytes(b"HTTP"))
"""The size of an answer, as a client of Kafka reads it, that begins with "HTTP"."""
_SILENT = logging.getLogger("lagless.kafka.contact")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


def reach(kafka: KafkaSettings, patience: float = PATIENCE) -> None:
    """Return once Kafka answers; GiveUp if it rejects the credentials, TryAgain if nobody answers.

    TryAgain names the addresses, and the reason as far as a client knows it.
    """
    errors: list[KafkaError] = []
    config = connection.confluent(kafka, reconnect_backoff_ms=200)
    # The client's log would say the same many times over.
    silence = {"logger": _SILENT, "error_cb": errors.append}
    admin = AdminClient(config | silence)
    began = time.monotonic()
    while True:
        with suppress(KafkaException):
            cluster = admin.list_topics(timeout=SLICE)
            addresses = [(str(broker.host), broker.port) for broker in cluster.brokers.values()]
            return _look_at(kafka, addresses)
        admin.poll(0)
        refused = [error for error in errors if error.code() == KafkaError._AUTHENTICATION]
        if refused:
            raise _refusal(kafka, refused[-1])
        reasons = dict(_reason(error) for error in errors if error.code() not in _VAGUE)
        waited = time.monotonic() - began
        known_of_all = len(reasons) >= kafka.bootstrap.count(",") + 1
        if waited < (SURE if known_of_all else patience):
            continue
        if not reasons and waited < patience + BUSY and _accepts(kafka.bootstrap):
            continue
        known = ", ".join(f"{address} ({reason})" for address, reason in reasons.items())
        raise TryAgain(
            f"Kafka cannot be reached at {known or f'{kafka.bootstrap} (no answer)'}; check "
            "kafka.bootstrap, kafka.security and that the broker is running"
        )


def greet(kafka: KafkaSettings, tell: Callable[[str], None]) -> None:
    """Let a role begin: GiveUp if Kafka rejects the credentials; if nobody answers, only say so."""
    try:
        reach(kafka)
    except TryAgain as error:
        tell(f"{error}; waiting for it")


def _accepts(bootstrap: str) -> bool:
    """Return whether any address of a list accepts a connection."""
    for server in bootstrap.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        with suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), 0.5).close()
            return True
    return False


def _refusal(kafka: KafkaSettings, error: KafkaError) -> GiveUp | TryAgain:
    security = kafka.security
    if security.mechanism == "OAUTHBEARER":
        sentence = (
            f"Kafka at {kafka.bootstrap}: no access for client {security.client_id} with a token "
            f"of {security.token_url}: {_short(error)}"
        )
        # A token endpoint that does not answer may do so later; one that says no will not.
        denied = any(word in error.str() for word in ("invalid_", "unauthorized", "401", "400"))
        return GiveUp(sentence) if denied or "acquire" not in error.str() else TryAgain(sentence)
    return GiveUp(
        f"Kafka at {kafka.bootstrap} rejects user {security.username} or the password "
        f"({security.mechanism}): {_short(error)}; check kafka.security"
    )


def _short(error: KafkaError) -> str:
    return _reason(error)[1]


def _reason(error: KafkaError) -> tuple[str, str]:
    """Return the address that an error of the client is about, and the error without it.

    The client writes "sasl_ssl://host:9092/bootstrap: Connect to ipv4#… failed: Connection refused
    (after 0ms in state CONNECT)".
    """
    address, _, words = error.str().strip().partition(": ")
    address = address.partition("://")[2] or address
    words = words.partition(" (after ")[0].rstrip(". ")
    if _HTTP in words:
        words = "an HTTP server answers there, not Kafka"
    connecting = re.fullmatch(r"(?:Connect to|Failed to resolve) \S+? ?(?:failed)?: (.*)", words)
    return address.partition("/")[0], connecting[1] if connecting else words or error.str()


def _look_at(kafka: KafkaSettings, addresses: Sequence[tuple[str, int]]) -> None:
    """Raise TryAgain if none of the addresses that the brokers name of themselves accepts."""
    failures: list[str] = []
    for host, port in addresses[:LOOKED_AT]:
        try:
            socket.create_connection((host, port), 1).close()
            return
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
    if failures:
        raise TryAgain(
            f"Kafka at {kafka.bootstrap} answers, but the address that its brokers advertise "
            f"cannot be reached from here: {', '.join(failures)}; check advertised.listeners"
        )
