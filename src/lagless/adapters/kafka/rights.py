"""Which ACLs lagless needs, and which of them are missing.

Kafka tells a user its rights on what exists. Nothing is changed to find out: what is not there
yet is made on trial only.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from kafka import errors as kafka_errors

from lagless.adapters.kafka import connection, contact, failures, log_sizes, topics
from lagless.errors import TryAgain
from lagless.settings import Security, Settings

TIMEOUT = 15.0
Kind = Literal["cluster", "topic", "group", "transactional-id"]
Role = Literal["monitor", "controller", "consumer"]
Operation = Literal["Describe", "Read", "Write", "Create", "Alter"]
_MAKE: tuple[Operation, ...] = ("Create", "Read", "Write")
_COORDINATOR = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
_USE: tuple[Operation, ...] = ("Read", "Write")


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on something, and the role that needs it."""

    kind: Kind
    name: str
    operation: Operation
    role: Role
    prefixed: bool = False
    """Whether it is asked for everything whose name begins so."""

    def command(self, user: str) -> str:
        """Return the words after `kafka-acls.sh --bootstrap-server …` that grant it."""
        thing = "--cluster" if self.kind == "cluster" else f"--{self.kind} {self.name}"
        pattern = " --resource-pattern-type prefixed" if self.prefixed else ""
        principal = f"'User:{user}'" if " " in user else f"User:{user}"
        return f"--add --allow-principal {principal} --operation {self.operation} {thing}{pattern}"


def needed(settings: Settings, names: Iterable[str]) -> Iterator[Right]:
    """List the rights that each role needs to read the topics `names`; docs/security.md has them.

    Own topics, groups and transactional ids begin with the group's name, so that one right for the
    prefix serves all; Read, Write and Alter bring Describe along.
    """
    speeds, mail = settings.monitor.topic, settings.controller.metadata_topic
    own = f"{settings.group}."
    names = list(names)
    yield Right("cluster", "kafka-cluster", "Describe", "monitor")
    for name in names:
        yield Right("topic", name, "Describe", "monitor")
    yield Right("topic", speeds, "Create", "monitor")
    yield Right("topic", speeds, "Write", "monitor")
    yield Right("topic", speeds, "Read", "controller")
    yield Right("topic", mail, "Alter", "controller")
    for operation in _MAKE:
        yield Right("topic", mail, operation, "controller")
        yield Right("topic", own, operation, "controller", prefixed=True)
    yield Right("group", settings.group, "Read", "controller", prefixed=True)
    yield Right("transactional-id", own, "Write", "controller", prefixed=True)
    if settings.of_others:
        for name in names:
            yield Right("topic", name, "Describe", "controller")
        return
    for name in names:
        yield Right("topic", name, "Read", "consumer")
    yield Right("topic", speeds, "Read", "consumer")
    for operation in _USE:
        yield Right("topic", mail, operation, "consumer")
        yield Right("topic", own, operation, "consumer", prefixed=True)
    yield Right("group", settings.group, "Read", "consumer", prefixed=True)


def check(settings: Settings) -> list[str]:
    """Return a sentence for each missing right or topic, with the command that grants it."""
    contact.reach(settings.kafka)
    admin = AdminClient(connection.confluent(settings.kafka))
    names, problems = _topics_of_interest(admin, settings)
    user = _principal(settings.kafka.security)
    held = _Held(admin, settings)
    missing: dict[tuple[str, str, str], tuple[Right, list[str]]] = {}
    for right in needed(settings, names):
        for name in held.without(right):
            key = (right.kind, name, right.operation)
            missing.setdefault(key, (right, []))[1].append(right.role)
    for name in sorted(held.absent):
        problems.append(f"topic {name} does not exist: create it, or remove it from topics")
    for (kind, name, operation), (right, roles) in missing.items():
        thing = "the cluster" if kind == "cluster" else f"{kind} {name}"
        problems.append(
            f"{thing}: the ACL for {operation} is missing, which {' and '.join(roles)} "
            f"need{'s' if len(roles) == 1 else ''}: kafka-acls.sh {right.command(user)}"
        )
    return problems


def _principal(security: Security) -> str:
    if security.mechanism is None and security.certificate_file is not None:
        # What the broker makes of the certificate's subject is the broker's own setting.
        return f"<principal of {security.certificate_file.name}>"
    return security.username or security.client_id or "ANONYMOUS"


def _topics_of_interest(admin: AdminClient, settings: Settings) -> tuple[list[str], list[str]]:
    with failures.translated(f"Kafka at {settings.kafka.bootstrap} does not answer"):
        visible = admin.list_topics(timeout=TIMEOUT).topics
    if settings.topic_names is not None:
        return list(settings.topic_names), []
    names = sorted(name for name in visible if settings.of_interest(name))
    none = f"no topic matches {', '.join(settings.topics)}: create one, or allow Describe on "
    return names, [] if names else [none + "the existing ones"]


class _Held:
    """The rights of the user, requested once per resource."""

    def __init__(self, admin: AdminClient, settings: Settings) -> None:
        self._admin = admin
        self._settings = settings
        self.absent: set[str] = set()
        """Topics to read that do not exist."""
        self._topics: dict[str, set[str] | None] = {}

    def without(self, right: Right) -> list[str]:
        """Return the resources on which the right is missing."""
        if right.kind == "topic":
            own = [name for name in self._settings.own_topics if name.startswith(right.name)]
            names = sorted(own) if right.prefixed else [right.name]
            return [name for name in names if not self._on_topic(name, right.operation)]
        if right.kind == "transactional-id":
            return [] if self._may_write_transactions() else [right.name]
        held = self._on_cluster if right.kind == "cluster" else self._on_group
        return [] if right.operation in held else [right.name]

    def _on_topic(self, name: str, operation: str) -> bool:
        if name not in self._topics:
            self._topics[name] = self._ask_topic(name)
        held = self._topics[name]
        if held is not None:
            # An existing topic need not be created.
            return operation == "Create" or operation in held
        if name not in self._settings.own_topics:
            self.absent.add(name)
            return True
        return operation != "Create" or self._may_make(name)

    def _ask_topic(self, name: str) -> set[str] | None:
        """Return the operations allowed on a topic; None if it is not there."""
        asked = self._admin.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=TIMEOUT
        )
        try:
            return _words(asked[name].result(TIMEOUT).authorized_operations)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return set()
            raise failures.named(f"describing topic {name}", error.args[0]) from error

    def _may_make(self, name: str) -> bool:
        trial = self._admin.create_topics(
            [topics.plans(self._settings)[name]], validate_only=True, request_timeout=TIMEOUT
        )
        try:
            trial[name].result(TIMEOUT)
        except KafkaException as error:
            return bool(error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED)
        return True

    @cached_property
    def _on_cluster(self) -> set[str]:
        with failures.translated("describing the cluster"):
            asked = self._admin.describe_cluster(
                include_authorized_operations=True, request_timeout=TIMEOUT
            )
            return _words(asked.result(TIMEOUT).authorized_operations)

    def _may_write_transactions(self) -> bool:
        # confluent-kafka cannot describe transactions.
        try:
            with log_sizes.connect(self._settings.kafka) as client:
                client.describe_transactions([self._settings.leader_topic])
        except kafka_errors.TransactionalIdAuthorizationFailedError:
            return False
        except kafka_errors.BrokerResponseError:
            return True  # unknown so far: the broker checks ACLs first
        except kafka_errors.KafkaError as error:
            raise TryAgain(f"describing transactions: {error}") from error
        return True

    @cached_property
    def _on_group(self) -> set[str]:
        name = self._settings.group
        deadline = time.monotonic() + TIMEOUT
        while True:
            asked = self._admin.describe_consumer_groups(
                [name], include_authorized_operations=True, request_timeout=TIMEOUT
            )
            try:
                return _words(asked[name].result(TIMEOUT).authorized_operations)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    return set()
                # The coordinator is elected at the first request.
                if code not in _COORDINATOR or time.monotonic() > deadline:
                    raise failures.named(f"describing group {name}", error.args[0]) from error
                time.sleep(0.3)


def _words(operations: Iterable[Any] | None) -> set[str]:
    return {operation.name.title() for operation in operations or ()}
