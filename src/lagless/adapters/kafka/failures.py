"""Kafka's errors as lagless's own, which are named by the reaction that they call for."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from lagless.errors import Fenced, GiveUp, LaglessError, TryAgain

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_FORBIDDEN = "the ACLs do not allow this; see docs/security.md"
_HOPELESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _FORBIDDEN,
    KafkaError.SASL_AUTHENTICATION_FAILED: "Kafka rejects the credentials; check kafka.security",
    KafkaError._AUTHENTICATION: "Kafka rejects the credentials; check kafka.security",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic",
    KafkaError.POLICY_VIOLATION: "a policy of the cluster forbids it",
}


def named(doing: str, error: KafkaError) -> LaglessError:
    """Return lagless's error for Kafka's, with what was being done."""
    code = error.code()
    if code in _FENCED:
        return Fenced(f"{doing}: another producer has taken over ({error.str()})")
    if code in _HOPELESS:
        return GiveUp(f"{doing}: {error.str()}: {_HOPELESS[code]}")
    return TryAgain(f"{doing}: {error.str()}")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise lagless's error for whatever Kafka raises inside the block."""
    try:
        yield
    except KafkaException as error:
        raise named(doing, error.args[0]) from error
