"""The names under which a table's log keeps offsets and owners (Delta's app transactions).

A name holds Kafka's id of the topic, so that a topic made anew never meets its old offsets.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lagless.ports import Topic

OWNER = "/owner"


def marker(group: str, topic: str) -> str:
    """Name the mark that the group has met a topic of this name."""
    return f"{group}/{topic}"


def place(group: str, topic: Topic, partition: int) -> str:
    """Name the entry whose version is the next offset to read."""
    return f"{group}/{topic.name}/{topic.id}/{partition}"


def owner(group: str, topic: Topic, partition: int) -> str:
    """Name the entry whose version is the generation of the order under which it is read."""
    return place(group, topic, partition) + OWNER


@dataclass(frozen=True, slots=True)
class Former:
    """A partition of a topic that had the same name and is no more."""

    topic_id: str
    partition: int
    offset: int

    def place(self, group: str, topic: str) -> str:
        """Name the entry of its next offset."""
        return place(group, Topic(topic, self.topic_id), self.partition)


def former(
    entries: Iterable[tuple[str, int]], group: str, topic: Topic, partitions: Iterable[int]
) -> list[Former]:
    """Find, among a log's entries, where reading stopped in earlier topics of this name."""
    wanted = set(partitions)
    found = []
    for name, version in entries:
        parts = name.split("/")
        if len(parts) != 4 or parts[:2] != [group, topic.name] or parts[2] == topic.id:
            continue
        if parts[3].isdigit() and int(parts[3]) in wanted:
            found.append(Former(parts[2], int(parts[3]), version))
    return sorted(found, key=lambda one: (one.topic_id, one.partition))
