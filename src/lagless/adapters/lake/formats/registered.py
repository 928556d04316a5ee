"""Confluent's header: the byte 0, then the id of a schema in four bytes, then the value.

Spark cannot ask a registry. So a cycle is planned with the ids that a topic has had so far; records
with another id are counted, and then the cycle is planned again with that schema. Ids are few, and
in all other cycles this costs nothing.
"""

import threading
from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.errors import GiveUp, TooMuch
from lagless.ports import Registry, Schema

MAGIC = b"\0"
HEADER = 5
"""Bytes before the value."""
MOST = 200
"""Ids that are asked for in one cycle, and ids without a schema that are remembered. Records that
were never written with a registry may seem to have any number of them."""


class Met:
    """The ids that a topic's records have had, and what the registry says of them."""

    def __init__(self, topic: str, registry: Registry | None) -> None:
        self._topic = topic
        self._registry = registry
        self._schemas: dict[int, Schema | None] = {}
        self._lock = threading.Lock()
        self._of_keys: Met | None = None

    @property
    def of_keys(self) -> "Met":
        """Return the ids that the keys have had: they tell nothing about values."""
        with self._lock:
            self._of_keys = self._of_keys or Met(self._topic, self._registry)
            return self._of_keys

    @property
    def can_ask(self) -> bool:
        """Return whether there is a registry."""
        return self._registry is not None

    @property
    def schemas(self) -> Mapping[int, Schema | None]:
        """Return the schema of each id, None if the registry has none, in the order of the ids."""
        with self._lock:
            return dict(sorted(self._schemas.items()))

    def meet(self, heads: Iterable[bytes]) -> bool:
        """Ask for the schemas of these headers, and return whether something new was learnt."""
        if self._registry is None:
            raise GiveUp(
                f"topic {self._topic}: its format needs a schema registry: set registry.url"
            )
        numbers = sorted({int.from_bytes(head[1:HEADER]) for head in heads})
        if len(numbers) > MOST:
            raise TooMuch(
                f"topic {self._topic}: {len(numbers)} new schema ids in one cycle, more than "
                f"{MOST}: was it written with a schema registry?"
            )
        is_new = False
        for number in numbers:
            schema = self._registry.schema(number)
            with self._lock:
                is_new |= number not in self._schemas or self._schemas[number] != schema
                self._schemas[number] = schema
        self._forget(numbers)
        return is_new

    def _forget(self, needed: Collection[int]) -> None:
        """Forget ids without a schema once there are too many, but for those needed now."""
        with self._lock:
            missing = {number for number, schema in self._schemas.items() if schema is None}
            for number in missing.difference(needed) if len(missing) > MOST else ():
                del self._schemas[number]


def head(number: int) -> Column:
    """Return the header of an id."""
    return F.lit(MAGIC + number.to_bytes(HEADER - 1))


def head_of(value: Column) -> Column:
    """Return the header of a value."""
    return F.substring(value, 1, HEADER)


def body_of(value: Column) -> Column:
    """Return what follows the header."""
    return F.substring(value, HEADER + 1, 2**31 - 1)


def has_head(value: Column) -> Column:
    """Return whether a value begins with a header."""
    return (F.octet_length(value) >= HEADER) & (F.substring(value, 1, 1) == F.lit(MAGIC))


def either(numbers: Iterable[int], head: Column) -> Column:
    """Return whether a header is that of one of the ids."""
    heads = [MAGIC + number.to_bytes(HEADER - 1) for number in numbers]
    return head.isin(*map(F.lit, heads)) if heads else F.lit(False)


MISSING = "is not in the registry"
"""Why the records of an id without a schema are rejected."""


def id_of(value: Column) -> Column:
    """Return the id in a header as text, for people to read."""
    return F.conv(F.hex(F.substring(value, 2, HEADER - 1)), 16, 10)


def refuse(reason: Column, reasons: Mapping[int, str], value: Column) -> Column:
    """Add to a chain of reasons those of ids whose records are rejected."""
    for words in sorted(set(reasons.values())):
        numbers = [number for number, other in reasons.items() if other == words]
        sentence = F.concat(F.lit("schema "), id_of(value), F.lit(f" {words}"))
        reason = reason.when(either(numbers, head_of(value)), sentence)
    return reason
