"""Kafka's errors in lagless's words: named by the reaction that they call for."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from lagless.errors import Fenced, GiveUp, LaglessError, TryAgain

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_HOPELESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the ACLs do not allow it; docs/security.md lists them",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the ACLs do not allow it; docs/security.md lists them",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the ACLs do not allow it; docs/security.md lists "
    "them",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the ACLs do not allow it; docs/security.md "
    "lists them",
    KafkaError.SASL_AUTHENTICATION_FAILED: "Kafka refuses user and password; check kafka.security",
    KafkaError._AUTHENTICATION: "Kafka refuses user and password; check kafka.security",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise max.message.bytes of the topic",
    KafkaError.POLICY_VIOLATION: "the cluster's policy forbids it",
}


def named(doing: str, error: KafkaError) -> LaglessError:
    """Turn Kafka's error into the one that names the reaction, with what was being done."""
    code = error.code()
    if code in _FENCED:
        return Fenced(f"{doing}: another producer has taken over ({error.str()})")
    if code in _HOPELESS:
        return GiveUp(f"{doing}: {error.str()}: {_HOPELESS[code]}")
    return TryAgain(f"{doing}: {error.str()}")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise what Kafka raises inside the block in lagless's words."""
    try:
        yield
    except KafkaException as error:
        raise named(doing, error.args[0]) from error
