"""A consumer beside others on the same broker and the same records, and where its time goes.

    python -m benchmarks.consumer [--mb 400] [--only ours,…] [--report FILE]
    python -m benchmarks.consumer --lake s3 …    the lake in a bucket: see benchmarks.bucket

ours        this consumer, with 5 MB batches and with batches that grow with the backlog
streaming   one Structured Streaming query into Delta, with 5 MB batches and without limits,
            on the server that this consumer uses
stock       the same query in a Spark that was told nothing, in a process of its own
plain       confluent-kafka, pyarrow and deltalake in one Python process, without Spark
cycles      whole cycles of 1, 4, 8 and 16 consumers on one topic: together a second, and commits
commits     commits alone, one after the other, with 1, 4, 8 and 16 writers, and on an old table
process     a consumer's memory, and the seconds until it is ready
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

PARTITIONS = 8
RECORD = 500
SCHEMA = "topic STRING, partition INT, seq BIGINT, at DOUBLE, pad STRING"
TOPIC = "bench"
MANY = "many"
"""A topic with a partition for each of many consumers."""
READERS = (1, 4, 8, 16)
WARM_UP = 120.0
"""Seconds that our consumer runs before it is timed."""


def fill(bootstrap: str, topic: str, partitions: int, megabytes: float) -> int:
    """Write 500-byte JSON records, evenly over the partitions, and count them."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1 << 20}
        | {"queue.buffering.max.messages": 1_000_000}
    )
    count = int(megabytes * 1e6 / RECORD)
    pad = "abcdefghij" * 50
    for number in range(count):
        head = {"topic": topic, "partition": number % partitions, "seq": number // partitions}
        text = json.dumps({**head, "at": time.time(), "pad": ""})
        text = text[:-2] + pad[: RECORD - len(text)] + text[-2:]
        while True:
            try:
                producer.produce(topic, text, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    return count


def ours(world: "World") -> dict[str, Any]:
    """Read everything with 5 MB batches, and with growing ones; with a profile of a cycle."""
    found = {"5 MB, cold": read_all(world, 5e6)}
    # The JVM compiles for minutes, and a consumer runs for days. The rivals on Spark run later in
    # the same JVM.
    until = time.monotonic() + WARM_UP
    while time.monotonic() < until:
        read_all(world, 5e6)
    found["growing, cold"] = read_all(world, 50e6)
    found["5 MB"] = read_all(world, 5e6)
    found["growing"] = read_all(world, 50e6)
    return {**found, "profile of a 5 MB cycle": profile(world)}


def read_all(world: "World", batch: float) -> dict[str, float]:
    """Read everything into a new table, with batches of up to that many bytes."""
    one, held = world.cycle()
    for _ in range(12):  # a new session meets the server
        one.run(held, one.gather(held), 5e6)
    began, read, parts, cycles = time.perf_counter(), 0.0, [], 0
    while True:
        gathered = one.gather(held)
        if not gathered.spans:
            break
        report = one.run(held, gathered, batch)
        for error in report.troubles.values():
            raise error
        for taken in report.taken.values():
            read += taken.intake.bytes
            parts.append(dict(taken.intake.seconds))
        cycles += 1
    seconds = time.perf_counter() - began
    one.tables.close()
    return {
        "mb_per_second": read / seconds / 1e6,
        "cycles": cycles,
        "cycle_seconds": seconds / cycles,
        "spark_seconds": statistics.median(part["spark"] for part in parts),
        "commit_seconds": statistics.median(part["commit"] for part in parts),
    }


def profile(world: "World") -> dict[str, float]:
    """Return the median seconds of plan, read, parse and write, each by what it adds."""
    from pyspark.sql import Observation

    from lagless.adapters.lake import data_files, ingestion, store
    from lagless.adapters.lake.formats import json_format
    from lagless.adapters.spark.sessions import session
    from lagless.model import TopicPartition
    from lagless.ports import Span
    from lagless.settings import TopicSettings

    spark = session(world.spark_url)
    form = json_format.with_fields(spark, SCHEMA, TOPIC)
    kafka = ingestion.Source(world.kafka_options(), "profile", "read_committed")
    (topic, _) = world.offsets().topics([TOPIC])[TOPIC]
    folder = world.folder / "profile"
    folder.mkdir(exist_ok=True)
    each = int(5e6 / RECORD / PARTITIONS)

    def source(number: int, count: int = each) -> Any:
        spans = {
            TopicPartition(TOPIC, p): Span(number * each, number * each + count)
            for p in range(PARTITIONS)
        }
        work = ingestion.Work(topic, spans, {}, lambda: None)
        return kafka.read(spark, work, headers=False)

    def parsed(frame: Any) -> Any:
        settings = TopicSettings(format="json")
        return ingestion.observed(form.judge(frame), form, settings, Observation())

    def nothing(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    kept = ("value", "partition", "offset", "timestamp")
    steps: dict[str, Callable[[int], object]] = {
        "none": lambda n: nothing(source(n, 0).select(*kept)),
        "plan": lambda n: nothing(parsed(source(n, 0))),
        "read": lambda n: nothing(source(n).select(*kept)),
        "parse": lambda n: nothing(parsed(source(n))),
        "write": lambda n: data_files.write(parsed(source(n)), store.at(folder)),
    }
    taken: dict[str, float] = {}
    for name, step in steps.items():
        times = []
        for number in range(30):
            began = time.perf_counter()
            step(number % 10)
            times.append(time.perf_counter() - began)
        taken[name] = statistics.median(times[5:])
    spark.stop()
    read = taken["read"] - taken["none"]
    return {
        "plan": taken["plan"],
        "read": read,
        "parse": taken["parse"] - taken["plan"] - read,
        "write": taken["write"] - taken["parse"],
    }


def streamed(
    spark: Any, bootstrap: str, place: str, storage: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run one plain Structured Streaming query over the same records; small batches for a while."""
    from deltalake import DeltaTable
    from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

    found = {}
    for name, limit in (("5 MB", int(5e6 / RECORD)), ("unlimited", None)):
        reader = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
        )
        if limit is not None:
            reader = reader.option("maxOffsetsPerTrigger", limit)
        parsed = reader.load().select(
            F.col("partition").alias("_partition"),
            F.col("offset").alias("_offset"),
            F.col("timestamp").alias("_timestamp"),
            F.from_json(F.col("value").cast("string"), SCHEMA).alias("r"),
        )
        rows = parsed.select("_partition", "_offset", "_timestamp", "r.*").coalesce(1)
        mark = uuid.uuid4().hex
        target = f"{place}/streaming-{mark}"
        began = time.perf_counter()
        query = (
            rows.writeStream.format("delta")
            .option("checkpointLocation", f"{place}/checkpoint-{mark}")
            .trigger(availableNow=True)
            .start(target)
        )
        # 5 MB batches would take minutes: what was done after one of them is enough.
        query.awaitTermination(60 if limit else 600)
        seconds = time.perf_counter() - began
        query.stop()
        done = DeltaTable(target.replace("s3a://", "s3://"), storage_options=storage).count()
        found[name] = {"mb_per_second": done * RECORD / seconds / 1e6, "records": done}
    return found


def streaming(world: "World") -> dict[str, Any]:
    """Run the query on the server that our consumer uses, with all that it was told and warm."""
    from lagless.adapters.spark.sessions import session

    spark = session(world.spark_url)
    found = streamed(spark, world.bootstrap, str(world.folder))
    spark.stop()
    return found


def stock(world: "World") -> dict[str, Any]:
    """Run the query in a Spark as it comes: told of the connector and of Delta, nothing else."""
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    # A process that has met Connect cannot start Spark itself.
    process = spawn.Process(target=_stock, args=(world.bootstrap, str(world.folder), queue))
    process.start()
    found: dict[str, Any] = queue.get(timeout=900)
    process.join()
    return found


def _stock(bootstrap: str, folder: str, queue: Any) -> None:
    from pyspark.sql import SparkSession

    from lagless.adapters.spark import jars

    for name in [name for name in os.environ if name.startswith("SPARK_")]:
        del os.environ[name]
    delta = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.jars", ",".join(map(str, jars.spark_jars())))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", delta)
        .config("spark.sql.warehouse.dir", str(Path(folder) / "warehouse"))
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    streamed(spark, bootstrap, folder)  # the JVM compiles what it runs
    queue.put(streamed(spark, bootstrap, folder))
    spark.stop()


def plain(world: "World") -> dict[str, Any]:
    """Read with confluent-kafka and write with deltalake, without Spark."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place
    from deltalake import write_deltalake

    found = {}
    for name, size in (("5 MB", 5e6), ("50 MB", 50e6)):
        consumer = Consumer(
            {"bootstrap.servers": world.bootstrap, "group.id": "plain"}
            | {"enable.auto.commit": False, "queued.max.messages.kbytes": 200_000}
        )
        consumer.assign([Place(TOPIC, p, 0) for p in range(PARTITIONS)])
        table = str(world.folder / f"plain-{uuid.uuid4().hex}")
        began, read, batch, held = time.perf_counter(), 0, [], 0
        while read < world.records:
            for message in consumer.consume(2000, 1.0):
                value = message.value() or b""
                batch.append((message.partition(), message.offset(), value))
                held += len(value)
            if held >= size or read + len(batch) >= world.records:
                rows = [json.loads(value) for _, _, value in batch]
                data = pa.Table.from_pylist(rows)
                data = data.append_column("_offset", pa.array([o for _, o, _ in batch]))
                write_deltalake(table, data, mode="append")
                read, batch, held = read + len(batch), [], 0
        seconds = time.perf_counter() - began
        consumer.close()
        found[name] = {"mb_per_second": read * RECORD / seconds / 1e6}
    return found


def _reader(file: str, partition: int, seconds: float, start: Any, queue: Any) -> None:
    """Run cycles of 100 kB on one partition, as a consumer's process does, and give their times."""
    from lagless.settings import load

    one, held = claimed(load(Path(file)), MANY, [partition])
    for _ in range(10):
        one.run(held, one.gather(held), 1e5)
    start.wait(300)
    until, commits = time.monotonic() + seconds, []
    while time.monotonic() < until:
        report = one.run(held, one.gather(held), 1e5)
        for error in report.troubles.values():
            raise error
        commits += [taken.intake.seconds["commit"] for taken in report.taken.values()]
    queue.put(commits)


def cycles(world: "World") -> dict[str, Any]:
    """Let consumers, each a process, run cycles on one topic and table at once."""
    found: dict[str, Any] = {}
    spawn = multiprocessing.get_context("spawn")
    seconds = 20.0
    fill(world.bootstrap, MANY, max(READERS), 16.0 * max(READERS))
    for readers, old in [*((n, 0) for n in READERS), (8, 100_000)]:
        settings, file = world.config("cycles", MANY)
        if old:
            _age(settings.lake.path / MANY, old)
        queue, start = spawn.Queue(), spawn.Barrier(readers)
        processes = [
            spawn.Process(target=_reader, args=(str(file), p, seconds, start, queue))
            for p in range(readers)
        ]
        for process in processes:
            process.start()
        times = [one for _ in processes for one in queue.get(timeout=600)]
        for process in processes:
            process.join()
        found[f"{readers} consumers" + (f" after {old} commits" if old else "")] = {
            "cycles_per_second": len(times) / seconds,
            "commit_median_seconds": statistics.median(times),
        }
    return found


def _writer(path: str, partition: int, seconds: float, queue: Any) -> None:
    from lagless.adapters.lake import data_files, store
    from lagless.adapters.lake.schemas import ALWAYS
    from lagless.adapters.lake.table import Table
    from lagless.model import TopicPartition
    from lagless.ports import Span, Topic

    table = Table(store.at(Path(path)), "bench", Topic("t", "id"), ALWAYS)
    p = TopicPartition("t", partition)
    table.claim([p], None, lambda: {p: 0}, {p: 0})
    until = time.monotonic() + seconds
    times = []
    while time.monotonic() < until:
        at = table.look([p])[p]
        row: dict[str, object] = {"_partition": partition, "_offset": at.offset, "_timestamp": 0}
        file = data_files.write_rows([row], ALWAYS, table.store)
        wrote = time.perf_counter()
        assert table.commit([file], {p: Span(at.offset, at.offset + 1)}, {p: at.owner})
        times.append(time.perf_counter() - wrote)
    queue.put(times)


def commits(world: "World") -> dict[str, Any]:
    """Let writers commit to one table for some seconds, and on a table with an old, long log."""
    found: dict[str, Any] = {}
    spawn = multiprocessing.get_context("spawn")
    for writers, old in ((1, 0), (4, 0), (8, 0), (16, 0), (8, 100_000)):
        path = world.folder / f"commits-{writers}-{old}"
        if old:
            _age(path, old)
        queue = spawn.Queue()
        processes = [
            spawn.Process(target=_writer, args=(str(path), p, 10.0, queue)) for p in range(writers)
        ]
        for process in processes:
            process.start()
        times = [one for _ in processes for one in queue.get()]
        for process in processes:
            process.join()
        label = f"{writers} writers" + (f" after {old} commits" if old else "")
        found[label] = {
            "commits_per_second": len(times) / 10.0,
            "median_seconds": statistics.median(times),
            "p95_seconds": statistics.quantiles(times, n=20)[-1],
        }
    return found


def _age(path: Path, entries: int) -> None:
    """Make a table that has had so many commits, as a consumer and shortening leave its log."""
    from deltalake import DeltaTable

    from lagless.adapters.lake import delta, store
    from lagless.adapters.lake.schemas import ALWAYS

    delta.Handle(store.at(path), ALWAYS).open()
    log = path / "_delta_log"

    def commit(number: int) -> None:
        entry = [
            {"commitInfo": {"timestamp": 0, "operation": "WRITE"}},
            {"txn": {"appId": "bench/t/old", "version": number}},
        ]
        (log / f"{number:020}.json").write_text("\n".join(map(json.dumps, entry)) + "\n")

    commit(1)
    DeltaTable(str(path)).create_checkpoint()
    # What lies far before a checkpoint is deleted: only its number tells how many there were.
    at = entries - 10
    (log / f"{1:020}.checkpoint.parquet").rename(log / f"{at:020}.checkpoint.parquet")
    said = json.loads((log / "_last_checkpoint").read_text())
    (log / "_last_checkpoint").write_text(json.dumps({**said, "version": at}))
    for number in (0, 1):
        (log / f"{number:020}.json").unlink()
    for number in range(at - delta.KEPT, entries):
        commit(number)


def process(world: "World") -> dict[str, Any]:
    """Start a consumer as the provisioner does; measure until it is ready, and its memory."""
    from lagless.adapters.kafka import topic_records, topics

    config = world.config("process")
    topics.ensure(config[0])
    mail = topic_records.Reader(config[0].kafka, config[0].controller.metadata_topic, 0, "end")
    readies = []
    memory = 0.0
    for number in (1, 2, 3):
        began = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "lagless", "consumer", str(number), "--config", str(config[1])],
            stderr=subprocess.DEVNULL,
        )
        ready = False
        while not ready and time.perf_counter() - began < 120:
            for record in mail.drain(0.2):
                said = json.loads(record.value)
                ready = ready or (said.get("consumer") == number and said.get("state") == "ready")
        readies.append(time.perf_counter() - began)
        status = Path(f"/proc/{child.pid}/status").read_text().splitlines()
        memory = max(memory, float(next(x for x in status if x.startswith("VmHWM")).split()[1]))
        child.terminate()
        child.wait()
    mail.close()
    return {"ready_seconds": statistics.median(readies), "memory_mb": memory / 1024}


class World:
    """The broker, the Connect server and the records."""

    def __init__(self, folder: Path, megabytes: float, conf: dict[str, str] | None = None) -> None:
        from lagless.lab.parts.broker import Broker
        from lagless.lab.parts.connect import ConnectServer

        self.folder = folder
        self._broker = Broker(folder / "broker", heap="1g").start()
        self.bootstrap = self._broker.bootstrap
        self._connect = ConnectServer(folder / "connect", conf=conf).start()
        self.spark_url = self._connect.url
        self._connect.warm_up(self.bootstrap)
        self.records = fill(self.bootstrap, TOPIC, PARTITIONS, megabytes)

    def close(self) -> None:
        """End the parts."""
        self._connect.stop()
        self._broker.stop()

    def lake(self, name: str) -> str:
        """Return the settings of a fresh lake."""
        return f'path = "{self.folder / name}"\n'

    def config(self, mark: str, topic: str = TOPIC) -> tuple[Any, Path]:
        """Return settings of a fresh group and lake, and the file that holds them."""
        from lagless.settings import load

        name = f"{mark}-{uuid.uuid4().hex[:8]}"
        file = self.folder / f"{name}.toml"
        file.write_text(
            f'group = "{name}"\ntopics = ["{topic}"]\n[kafka]\nbootstrap = "{self.bootstrap}"\n'
            f'[spark]\nurl = "{self.spark_url}"\n[lake]\n{self.lake(name)}'
            f'[topic.{topic}]\nformat = "json"\nschema = "{SCHEMA}"\n'
        )
        return load(file), file

    def offsets(self) -> Any:
        """Ask Kafka about partitions."""
        from lagless.adapters.kafka.offsets import Offsets

        return Offsets(self.config("offsets")[0])

    def kafka_options(self) -> dict[str, str]:
        """Return the options of Spark's Kafka source."""
        return {"kafka.bootstrap.servers": self.bootstrap}

    def cycle(self) -> Any:
        """Return a consumer's cycle that has claimed everything."""
        return claimed(self.config("ours")[0], TOPIC, range(PARTITIONS))


def claimed(settings: Any, topic: str, partitions: Iterable[int]) -> Any:
    """Return a consumer's cycle on real parts that has claimed these partitions."""
    from lagless.adapters.kafka.offsets import Offsets
    from lagless.consumer.batches import Batch
    from lagless.consumer.cycle import Cycle
    from lagless.consumer.orders import Claims
    from lagless.errors import TryAgain
    from lagless.model import TopicPartition
    from lagless.wiring import consumer as wiring
    from lagless.wiring.clock import RealClock

    offsets = Offsets(settings)
    lake = wiring.make_lake(settings)
    claims = Claims(offsets, lake, "earliest")
    one = Cycle(offsets, lake, RealClock(), claims, Batch(5e6, 50e6), "fail", 300.0)
    while True:
        try:
            mine = [TopicPartition(topic, p) for p in partitions]
            return one, dict(claims.claim(topic, mine, None))
        except TryAgain:  # the first to ask a new broker for a group's offsets
            time.sleep(1)


PARTS: dict[str, Callable[[World], dict[str, Any]]] = {
    "ours": ours,
    "streaming": streaming,
    "stock": stock,
    "plain": plain,
    "cycles": cycles,
    "commits": commits,
    "process": process,
}


def main() -> None:
    """Run the parts that were asked for, and print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=400)
    parser.add_argument("--lake", choices=("folder", "s3"), default="folder")
    parser.add_argument("--only")
    parser.add_argument("--report", type=Path)
    given, more = parser.parse_known_args()
    if given.lake == "s3":
        from benchmarks import bucket

        bucket.main(given, more)
        return
    if more:
        parser.error(f"unknown without --lake s3: {' '.join(more)}")
    found: dict[str, Any] = {"load_average_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="lagless-bench-", ignore_cleanup_errors=True) as folder:
        world = World(Path(folder), given.mb)
        try:
            for name in given.only.split(",") if given.only else PARTS:
                found[name] = PARTS[name](world)
                print(json.dumps({name: found[name]}, indent=2), flush=True)
        finally:
            world.close()
    found["load_average_after"] = os.getloadavg()[0]
    if given.report is not None:
        given.report.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
