"""Avro beside JSON: a consumer's cycles over the same records, in turns, in one run.

    python -m benchmarks.formats [--records 400000] [--rounds 5] [--report FILE]

Prints for both the records per second, and per second of CPU that the Spark server used, and the
ratios Avro / JSON of the medians. On a machine that has other work, only the second ratio means
something. The first round is not counted: the JVM compiles.
"""

import argparse
import io
import json
import os
import statistics
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fastavro
import psutil  # type: ignore[import-untyped]  # it ships no types

from benchmarks.consumer import claimed
from lagless import settings
from lagless.lab.parts.apicurio import Apicurio
from lagless.lab.parts.broker import Broker
from lagless.lab.parts.connect import ConnectServer

PARTITIONS = 4
WARM_UP = 4
"""Cycles before those that count: the JVM compiles."""
TYPES = {"id": "long", "customer": "string", "amount": "double", "count": "int", "paid": "boolean"}
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        *({"name": name, "type": kind} for name, kind in TYPES.items()),
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "to",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": name, "type": "string"} for name in ("street", "city", "zip")],
            },
        },
    ],
}
DDL = (
    "id BIGINT, customer STRING, amount DOUBLE, count INT, paid BOOLEAN, note STRING, "
    "tags ARRAY<STRING>, to STRUCT<street: STRING, city: STRING, zip: STRING>"
)


def order(number: int) -> dict[str, Any]:
    """Return a record; all of them are alike, and none is the same."""
    return {
        "id": number,
        "customer": f"customer {number % 9973}",
        "amount": number % 100_000 / 100,
        "count": number % 17,
        "paid": number % 3 == 0,
        "note": "please leave it with a neighbour " * (number % 4) or None,
        "tags": ["new", "gift", "fragile"][: number % 4],
        "to": {"street": f"{number % 300} Long Street", "city": "Springfield", "zip": "01109"},
    }


def register(url: str) -> int:
    """Register the schema, and return its id."""
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

    client = SchemaRegistryClient({"url": url})
    return int(client.register_schema("orders-value", Schema(json.dumps(SCHEMA), "AVRO")))


def fill(bootstrap: str, topic: str, count: int, head: bytes | None) -> float:
    """Write the records, as Avro behind a header or as JSON; return the mean size of a value."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    parsed, size = fastavro.parse_schema(SCHEMA), 0
    for number in range(count):
        if head is None:
            value = json.dumps(order(number)).encode()
        else:
            out = io.BytesIO(head)
            out.seek(len(head))
            fastavro.schemaless_writer(out, parsed, order(number))
            value = out.getvalue()
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return size / count


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def read(tree: settings.Settings, topic: str, offsets: int, spark: psutil.Process) -> list[float]:
    """Read the topic into a new table, in cycles of so many offsets.

    Return records per second, and per second of Spark's CPU.
    """
    one, held = claimed(tree, topic, range(PARTITIONS))
    one.limits.offsets[topic] = offsets
    seconds = records = cycles = cpu = 0.0
    while (gathered := one.gather(held)).spans:
        began, used = time.perf_counter(), cpu_seconds(spark)
        report = one.run(held, gathered, 1e12)
        taken, used = time.perf_counter() - began, cpu_seconds(spark) - used
        for error in report.troubles.values():
            raise error
        for done in report.taken.values():
            one.limits.offsets[topic] = offsets
            if done.intake.landed and cycles >= WARM_UP:
                seconds += taken
                cpu += used
                records += done.intake.records
            assert done.intake.rejected == 0
        cycles += 1
    one.tables.close()
    return [records / seconds, records / cpu]


def main() -> None:
    """Fill two topics with the same records, read them in turns, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--offsets", type=int, default=20_000, help="records of a cycle")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {"load_average_before": os.getloadavg()[0]}
    with ExitStack() as parts:
        broker = parts.enter_context(Broker())
        registry = parts.enter_context(Apicurio())
        connect = parts.enter_context(ConnectServer(bootstrap=broker.bootstrap))
        folder = parts.enter_context(tempfile.TemporaryDirectory(prefix="lagless-bench-"))
        head = b"\0" + register(registry.url).to_bytes(4)
        of_topic: dict[str, Any] = {"avro": {"format": "avro"}}
        of_topic["json"] = {"format": "json", "schema": DDL}
        names = {name: f"{name}-{uuid.uuid4().hex[:8]}" for name in of_topic}
        for name in of_topic:
            mark = head if name == "avro" else None
            found[f"{name}_bytes"] = fill(broker.bootstrap, names[name], given.records, mark)
        spark = psutil.Process(connect.pid)
        rates: dict[str, list[list[float]]] = {name: [] for name in of_topic}
        for number in range(given.rounds + 1):
            for name, topic in names.items():
                document = {
                    "group": f"round-{number}-{name}",
                    "topics": [topic],
                    "kafka": {"bootstrap": broker.bootstrap},
                    "spark": {"url": connect.url},
                    "lake": {"path": f"{folder}/{number}"},
                    "registry": {"url": registry.url},
                    "topic": {topic: of_topic[name]},
                }
                measured = read(settings.parse(document), topic, given.offsets, spark)
                rates[name] += [measured] if number else []
                print(f"round {number} {name}: {measured[0]:,.0f}, {measured[1]:,.0f}", flush=True)
    for index, per in enumerate(("second", "cpu_second")):
        each = {name: [pair[index] for pair in many] for name, many in rates.items()}
        medians = {name: statistics.median(many) for name, many in each.items()}
        ratio = medians["avro"] / medians["json"]
        found[f"records_per_{per}"] = {**each, "median": medians, "ratio": ratio}
    found["load_average_after"] = os.getloadavg()[0]
    print(json.dumps(found, indent=2))
    if given.report is not None:
        given.report.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
