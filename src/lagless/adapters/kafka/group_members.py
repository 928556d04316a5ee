"""A consumer group as its brokers describe it: who holds what, and how far each partition is read.

Describe on the group and its topics is enough; nothing joins the group, and nothing is written.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient

from lagless.adapters.kafka import connection, failures
from lagless.errors import TryAgain
from lagless.group_ports import GroupMember, Membership
from lagless.model import TopicPartition
from lagless.settings import KafkaSettings

TIMEOUT = 15.0


class GroupWatch:
    """Look at one group again and again."""

    def __init__(self, kafka: KafkaSettings, group: str) -> None:
        self._group = group
        self._admin = AdminClient(connection.confluent(kafka))

    def describe(self) -> Membership:
        """Return the group's members and what they hold now."""
        asked = self._admin.describe_consumer_groups([self._group], request_timeout=TIMEOUT)
        try:
            found = _answer(f"describing group {self._group}", asked[self._group])
        except LookupError:
            return Membership("dead", "unknown", "", ())
        members = sorted(map(_member, found.members), key=lambda member: member.name)
        kind = found.type if isinstance(found.type, ConsumerGroupType) else None
        return Membership(
            state=_state(found.state),
            protocol=kind.name.lower() if kind else "unknown",
            assignor=found.partition_assignor or "",
            members=tuple(members),
        )

    def committed(self) -> Mapping[TopicPartition, int]:
        """Return the next offset to read of every partition that the group committed one for."""
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group)], request_timeout=TIMEOUT
        )
        doing = f"requesting the offsets of group {self._group}"
        try:
            found = _answer(doing, asked[self._group])
        except LookupError:
            return {}
        return {
            TopicPartition(place.topic, place.partition): place.offset
            for place in found.topic_partitions
            if place.error is None and place.offset >= 0
        }

    def wait_described(self, seconds: float = TIMEOUT) -> Membership:
        """Describe the group; the first request may find a coordinator that is being elected."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.describe()
            except TryAgain:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def names(self) -> Sequence[str]:
        """Return the names of the groups that this user may see."""
        with failures.translated("listing groups"):
            listed = self._admin.list_consumer_groups(request_timeout=TIMEOUT).result(TIMEOUT)
        return sorted(one.group_id for one in listed.valid)


def _member(described: Any) -> GroupMember:
    held = described.assignment.topic_partitions if described.assignment else ()
    return GroupMember(
        id=described.member_id,
        instance=described.group_instance_id or "",
        client=described.client_id or "",
        host=(described.host or "").lstrip("/"),
        held=frozenset(TopicPartition(place.topic, place.partition) for place in held),
    )


def _state(state: Any) -> str:
    return state.name.lower() if isinstance(state, ConsumerGroupState) else "unknown"


def _answer(doing: str, future: "Future[Any]") -> Any:
    """Return an answer; LookupError where there is no such group."""
    try:
        return future.result(TIMEOUT + 5)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            raise LookupError(doing) from error
        raise failures.named(doing, error.args[0]) from error
    except TimeoutError as error:
        raise TryAgain(f"{doing}: no answer within {TIMEOUT + 5:g} s") from error
