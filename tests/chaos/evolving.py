"""Records whose fields change in mid-run: the schema of values and keys gains optional fields.

Every record of version n has its number in the fields `seq` and `note_1` … `note_n`, and its key
has the same fields. So each row says whether a field of it was lost, mixed up, or made up.

json        as ever: one schema, no keys
avro        every topic has Avro with a registry, for values and keys
mixed       as avro, but for the topic `remade`, which has JSON without a schema for both
"""

import contextlib
import json
import os
import random
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from lagless.adapters.lake import queries
from lagless.adapters.lake.store import Store
from lagless.lab.parts.apicurio import Apicurio

MODES = ("json", "avro", "mixed")
KINDS = ("evolve", "registry")
"""The fields change and the consumer is killed; the same, and the registry does not answer."""
SCHEMA = "seq BIGINT, run STRING, pad STRING"


class Writing:
    """What the records of a run look like."""

    def __init__(self, mode: str, topics: Mapping[str, int], folder: Path, seed: int) -> None:
        self._topics = tuple(topics)
        self._random = random.Random(seed)
        self._mode = mode
        self._avro = [name for name in topics if mode == "avro" or name != "remade"]
        self._registry = None if mode == "json" else Apicurio(folder / "registry")
        self._serializers: dict[tuple[int, str], tuple[AvroSerializer, AvroSerializer]] = {}
        self.version = 0
        self._written: dict[tuple[str, int, int], int] = {}
        """The version of each record, by run, partition and number."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The faults that concern schemas."""
        return () if self._registry is None else KINDS

    def start(self) -> None:
        """Start the registry, and register the first schemas."""
        if self._registry is not None:
            self._registry.start()
            self._register(0)

    def stop(self) -> None:
        """Stop it."""
        if self._registry is not None:
            self._registry.stop()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the topics."""
        if self._registry is None:
            return {"topic": {name: {"format": "json", "schema": SCHEMA} for name in self._topics}}
        kinds = {name: "avro" if name in self._avro else "json" for name in self._topics}
        topic = {
            name: {"format": kind, "key_format": kind, "evolve": True}
            for name, kind in kinds.items()
        }
        return {"topic": topic, "registry": {"url": self._registry.url, "timeout": 2}}

    # ------------------------------------------------------------------ writing

    def record(
        self, topic: str, partition: int, run: str, seq: int, pad: str
    ) -> tuple[bytes | None, bytes]:
        """Return the key and the value of a record."""
        version = self.version
        self._written[run, partition, seq] = version
        fields = {"seq": seq, "run": run, "pad": pad}
        if self._registry is None:
            return None, json.dumps(fields).encode()
        notes = {f"note_{number}": str(seq) for number in range(1, version + 1)}
        key, value = {"seq": seq, **notes}, {**fields, **notes}
        if topic not in self._avro:
            return json.dumps(key).encode(), json.dumps(value).encode()
        keys, values = self._serializers[version, topic]
        parts = (keys, key, MessageField.KEY), (values, value, MessageField.VALUE)
        written = [it(record, SerializationContext(topic, part)) for it, record, part in parts]
        return written[0], written[1] or b""

    def _register(self, version: int) -> None:
        assert self._registry is not None
        client = SchemaRegistryClient({"url": self._registry.url})
        for topic in self._avro:
            key, value = (
                AvroSerializer(client, json.dumps(_schema(name, fields, version)))
                for name, fields in (
                    ("Key", {"seq": "long"}),
                    ("Value", {"seq": "long", "run": "string", "pad": "string"}),
                )
            )
            self._serializers[version, topic] = key, value
            # A serializer registers its schema with the first record.
            sample = {"seq": 0, "run": "", "pad": ""}
            key({"seq": 0}, SerializationContext(topic, MessageField.KEY))
            value(sample, SerializationContext(topic, MessageField.VALUE))

    # ------------------------------------------------------------------ faults

    def change(self, kind: str, until: Callable[[Callable[[], bool], float], object]) -> None:
        """Let records have another field from now on; perhaps while the registry is silent."""
        assert self._registry is not None
        self._register(self.version + 1)
        with contextlib.ExitStack() as stack:
            if kind == "registry":
                os.kill(self._registry.pid, signal.SIGSTOP)
                stack.callback(os.kill, self._registry.pid, signal.SIGCONT)
            self.version += 1
            until(lambda: False, self._random.uniform(0.3, 4.0))

    # ------------------------------------------------------------------ account

    def report(self, lake: Store) -> dict[str, Any]:
        """Count the rows in which a field is not what was written."""
        if self._registry is None:
            return {}
        wrong = rows = 0
        for topic in self._topics:
            table = lake.inside(topic)
            for row in queries.read(table.table()).to_pylist() if table.is_table() else ():
                version = self._written[row["run"], row["_partition"], row["seq"]]
                rows += 1
                for held in (row, row["_key"] or {}):
                    said = [held.get("seq")]
                    said += [held.get(f"note_{n + 1}") for n in range(self.version)]
                    text = str(row["seq"])
                    notes = [text if n < version else None for n in range(self.version)]
                    wrong += said != [row["seq"], *notes]
        return {"versions": self.version, "fields_wrong": wrong, "compared": rows}


def _schema(name: str, fields: Mapping[str, str], version: int) -> dict[str, Any]:
    listed: list[dict[str, Any]] = [{"name": it, "type": kind} for it, kind in fields.items()]
    for number in range(1, version + 1):
        listed.append({"name": f"note_{number}", "type": ["null", "string"], "default": None})
    return {"type": "record", "name": name, "fields": listed}
