"""A consumer whose lake is in a bucket, beside a folder and beside Structured Streaming into Delta.

    python -m benchmarks.consumer --lake s3 [--mb 400] [--only handover,…] [--latency 50]
        [--consumers 1,4,8] [--put-price 0.005] [--get-price 0.0004] [--report FILE] [--docs]

The store is MinIO on the same machine, everything in one run:

handover    seconds until 5 MB of rows are a file of the lake: Spark into a folder, Spark into the
            bucket through S3A, and handed over as Arrow to the consumer, which uploads them
rate        this consumer into a folder and into the bucket, with 5 MB batches and growing ones
streaming   one Structured Streaming query into Delta in the same bucket, through S3A
distance    1, 4 and 8 consumers, each a process, with and without `--latency` ms added to every
            request: rate and cycles of a backlog, requests and what they cost; and how late
            records of a steady load are

Prices are of 1,000 requests, in the currency of your bill; the defaults are AWS's list prices in
dollars. Deletions are free there. A report that exists is added to, so that parts can be measured
one after the other; rate and streaming belong into one run. `--docs` puts the tables into
docs/guides/bucket.md, each between the marks that carry its name.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.consumer import PARTITIONS, RECORD, SCHEMA, TOPIC, WARM_UP, World, claimed, read_all

STEADY = 100_000
"""Bytes/s of the steady load per partition."""
BATCH = 5e6
PAGE = Path(__file__).parent.parent / "docs" / "guides" / "bucket.md"
PAIRS = (("5 MB", "5 MB"), ("growing", "unlimited"))
"""Our batches, and those of Structured Streaming that they are compared with."""
GETS = {"get", "head"}
FREE = {"delete", "delete many", "abort upload"}


class BucketWorld(World):
    """The broker, the Connect server, the records, and an S3 server behind a proxy."""

    def __init__(self, folder: Path, megabytes: float, given: argparse.Namespace) -> None:
        from lagless.lab.parts import s3a
        from lagless.lab.parts.faulty_proxy import FaultyProxy
        from lagless.lab.parts.object_store import ObjectStore

        self.server = ObjectStore(folder / "s3").start()
        os.environ.update(self.server.environment)
        self.server.make_bucket("bench")
        self.proxy = FaultyProxy(self.server.port).start()
        self.endpoint = self.server.url
        self.in_bucket = True
        self.given = given
        super().__init__(folder, megabytes, {"spark.jars": ",".join(map(str, s3a.all_jars()))})

    def close(self) -> None:
        """End the parts."""
        super().close()
        self.proxy.stop()
        self.server.stop()

    def lake(self, name: str) -> str:
        """Return the settings of a fresh lake: a folder or in the bucket."""
        if not self.in_bucket:
            return super().lake(name)
        return f'path = "s3://bench/{name}"\nstorage.endpoint = "{self.endpoint}"\n'

    def session(self) -> Any:
        """Open a session in which Spark itself reaches the bucket."""
        from lagless.adapters.spark.sessions import session
        from lagless.lab.parts import s3a

        spark = session(self.spark_url)
        for key, value in s3a.options(self.server.url, self.server.environment).items():
            spark.conf.set(key, value)
        return spark


def handover(world: BucketWorld) -> dict[str, float]:
    """Measure the ways of rows into a file of the lake, each in turn."""
    from lagless.adapters.lake import data_files, formats, ingestion, store
    from lagless.adapters.lake.formats import json_format
    from lagless.model import TopicPartition
    from lagless.ports import Span
    from lagless.settings import Bucket, StorageSettings, TopicSettings

    spark = world.session()
    form = json_format.with_fields(spark, SCHEMA, TOPIC)
    kafka = ingestion.Source(world.kafka_options(), "handover", "read_committed")
    (topic, _) = world.offsets().topics([TOPIC])[TOPIC]
    folder = store.at(world.folder / "handover")
    folder.prepare()
    bucket = store.at(Bucket("bench", "handover"), StorageSettings(endpoint=world.server.url))
    each = int(BATCH / RECORD / PARTITIONS)

    def rows() -> Any:
        spans = {TopicPartition(TOPIC, p): Span(0, each) for p in range(PARTITIONS)}
        work = ingestion.Work(topic, spans, {}, lambda: None)
        judged = form.judge(kafka.read(spark, work, headers=False))
        return formats.good(judged, form, TopicSettings(format="json"))

    def by_s3a(version: int) -> None:
        spark.conf.set("mapreduce.fileoutputcommitter.algorithm.version", str(version))
        target = f"s3a://bench/handover/{uuid.uuid4().hex}"
        rows().coalesce(1).write.parquet(target)

    ways: dict[str, Callable[[], object]] = {
        "Spark, folder": lambda: data_files.write(rows(), folder),
        "Spark by S3A, committer 1": lambda: by_s3a(1),
        "Spark by S3A, committer 2": lambda: by_s3a(2),
        "Arrow to the consumer, bucket": lambda: data_files.write(rows(), bucket),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(world.given.rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            taken[name].append(time.perf_counter() - began)
    spark.stop()
    return {name: statistics.median(times[len(times) // 4 :]) for name, times in taken.items()}


def rate(world: BucketWorld) -> dict[str, Any]:
    """Read everything into a folder and into the bucket, by turns and warm."""
    until = time.monotonic() + world.given.warm_up
    while True:
        read_all(world, BATCH)
        if time.monotonic() >= until:
            break
    found: dict[str, Any] = {}
    for name, batch in (("5 MB", BATCH), ("growing", 50e6)):
        for place in ("folder", "bucket"):
            world.in_bucket = place == "bucket"
            found[f"{place}, {name}"] = read_all(world, batch)
        both = [found[f"{place}, {name}"]["mb_per_second"] for place in ("bucket", "folder")]
        found[f"bucket by folder, {name}"] = both[0] / both[1]
    world.in_bucket = True
    return found


def streaming(world: BucketWorld) -> dict[str, Any]:
    """Run the query into the same bucket, on the server that our consumer uses."""
    from benchmarks.consumer import streamed

    spark = world.session()
    options = world.server.options()
    streamed(spark, world.bootstrap, "s3a://bench", options)  # the JVM compiles what it runs
    found = streamed(spark, world.bootstrap, "s3a://bench", options)
    spark.stop()
    return found


def _backlog(file: str, mine: list[int], seconds: float, start: Any, queue: Any) -> None:
    """Read a backlog in cycles of one batch, as a consumer's process does."""
    from lagless.settings import load

    one, held = claimed(load(Path(file)), TOPIC, mine)
    one.run(held, one.gather(held), 1e5)
    start.wait(300)
    until, cycles, read, records = time.monotonic() + seconds, 0, 0.0, 0
    while time.monotonic() < until:
        gathered = one.gather(held)
        if not gathered.spans:
            break
        report = one.run(held, gathered, BATCH)
        for error in report.troubles.values():
            raise error
        cycles += 1
        read += sum(taken.intake.bytes for taken in report.taken.values())
        records += sum(taken.intake.records for taken in report.taken.values())
    taken_seconds = seconds + time.monotonic() - until
    one.tables.close()
    queue.put((cycles, read, records, taken_seconds))


def _steadily(file: str, topic: str, mine: list[int], start: Any, ending: Any) -> None:
    """Read what is there, cycle after cycle, until told to end and nothing is left."""
    from lagless.settings import load

    one, held = claimed(load(Path(file)), topic, mine)
    start.wait(300)
    while True:
        gathered = one.gather(held)
        if gathered.spans:
            for error in one.run(held, gathered, BATCH).troubles.values():
                raise error
        elif ending.is_set():
            break
        else:
            time.sleep(0.05)
    one.tables.close()


def distance(world: BucketWorld) -> dict[str, Any]:
    """Let consumers work at a distance from the store."""
    found: dict[str, Any] = {}
    world.endpoint = world.proxy.url
    try:
        for latency in (0.0, world.given.latency):
            world.proxy.latency = latency / 1000
            for consumers in map(int, world.given.consumers.split(",")):
                name = f"{latency:g} ms, {consumers} consumers"
                found[name] = {**_at_work(world, consumers), **_at_ease(world, consumers)}
                print(json.dumps({name: found[name]}, indent=2), flush=True)
    finally:
        world.proxy.latency = 0.0
        world.endpoint = world.server.url
    return found


def _at_work(world: BucketWorld, consumers: int) -> dict[str, Any]:
    spawn = multiprocessing.get_context("spawn")
    _, file = world.config("backlog")
    queue, start = spawn.Queue(), spawn.Barrier(consumers + 1)
    processes = [
        spawn.Process(
            target=_backlog,
            args=(
                str(file),
                list(range(n, PARTITIONS, consumers)),
                world.given.seconds,
                start,
                queue,
            ),
        )
        for n in range(consumers)
    ]
    for process in processes:
        process.start()
    start.wait(300)
    before = Counter(world.proxy.counts)
    results = [queue.get(timeout=600) for _ in processes]
    requests = Counter(world.proxy.counts) - before
    for process in processes:
        process.join()
    cycles, _, records = (sum(result[i] for result in results) for i in range(3))
    return {
        "mb_per_second": sum(read / seconds / 1e6 for _, read, _, seconds in results),
        "cycles_per_second": sum(count / seconds for count, _, _, seconds in results),
        "requests_per_cycle": {kind: count / cycles for kind, count in sorted(requests.items())},
        "cost_per_million_records": cost(requests, world.given) / records * 1e6,
    }


def cost(requests: Counter[str], given: argparse.Namespace) -> float:
    """Return what requests cost."""
    gets = sum(count for kind, count in requests.items() if kind in GETS)
    puts = sum(count for kind, count in requests.items() if kind not in GETS | FREE)
    return float(gets * given.get_price + puts * given.put_price) / 1000


def _at_ease(world: BucketWorld, consumers: int) -> dict[str, Any]:
    """Measure how late records of a steady load are in the table."""
    from lagless.adapters.lake import store
    from lagless.lab.load import counting, flows, records
    from lagless.lab.load.load import Load

    topic = f"steady-{uuid.uuid4().hex[:8]}"
    flow = flows.steady(flows.spread({topic: PARTITIONS}), STEADY)
    records.make_topics(world.bootstrap, {topic: PARTITIONS})
    settings, file = world.config("steady", topic)
    spawn = multiprocessing.get_context("spawn")
    start, ending = spawn.Barrier(consumers + 1), spawn.Event()
    processes = [
        spawn.Process(
            target=_steadily,
            args=(str(file), topic, list(range(n, PARTITIONS, consumers)), start, ending),
        )
        for n in range(consumers)
    ]
    for process in processes:
        process.start()
    start.wait(300)
    before = Counter(world.proxy.counts)
    tally = Load(world.bootstrap, flow).run(world.given.seconds)
    requests = Counter(world.proxy.counts) - before
    ending.set()
    for process in processes:
        process.join()
    lake = store.of(settings.lake)
    count = counting.count(lake, {topic: topic}, tally.produced)
    versions = lake.inside(topic).table().version()
    return {
        "late_median_seconds": count.delay(0.5),
        "late_p99_seconds": count.delay(0.99),
        "steady_requests_per_commit": requests.total() / max(1, versions),
        "steady_cost_per_million_records": cost(requests, world.given) / tally.records * 1e6,
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def tables(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the tables of what was measured, by the names of their marks."""
    made: dict[str, list[str]] = {}
    if "handover" in found:
        rows = [(name, f"{seconds:.2f} s") for name, seconds in found["handover"].items()]
        made["handover"] = table(("rows become a file by", "median of 5 MB"), rows)
    if {"rate", "streaming"} <= found.keys():
        ours, theirs = found["rate"], found["streaming"]
        rows = []
        for title, batch, rival in (("5 MB batches", *PAIRS[0]), ("growing batches", *PAIRS[1])):
            bucket = ours[f"bucket, {batch}"]["mb_per_second"]
            folder = ours[f"folder, {batch}"]["mb_per_second"]
            streamed = theirs[rival]["mb_per_second"]
            speeds = [f"{speed:.1f} MB/s" for speed in (folder, bucket, streamed)]
            rows.append((title, *speeds, f"{bucket / folder:.2f}", f"{bucket / streamed:.1f}"))
        head = ("", "folder", "bucket", "Structured Streaming, bucket")
        made["rate"] = table((*head, "bucket : folder", "bucket : streaming"), rows)
    if "distance" in found:
        head = ("", "MB/s", "cycles/s", "requests per cycle", "per million records")
        rows = []
        for name, seen in found["distance"].items():
            requests = ", ".join(
                f"{count:.1f} {kind}" for kind, count in seen["requests_per_cycle"].items()
            )
            late = f"{seen['late_median_seconds']:.2f} s ({seen['late_p99_seconds']:.2f} s)"
            prices = [f"{seen[f'{load}cost_per_million_records']:.5f}" for load in ("", "steady_")]
            speed, often = seen["mb_per_second"], seen["cycles_per_second"]
            rows.append(
                (name, f"{speed:.1f}", f"{often:.1f}", requests, prices[0], late, prices[1])
            )
        steady = ("readable after (p99)", "per million, steady")
        made["distance"] = table((*head, *steady), rows)
    return made


def publish(made: Mapping[str, Sequence[str]], page: Path = PAGE) -> None:
    """Put tables into the page, each between its marks."""
    text = page.read_text()
    for name, lines in made.items():
        head, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- /{name} -->")
        if not end:
            raise SystemExit(f"{page} has no marks for {name}")
        text = head + begin + "\n".join(lines) + "\n" + end + tail
    page.write_text(text)


PARTS: dict[str, Callable[[BucketWorld], dict[str, Any]]] = {
    "handover": handover,
    "rate": rate,
    "streaming": streaming,
    "distance": distance,
}


def main(given: argparse.Namespace, more: Sequence[str]) -> None:
    """Run the parts that were asked for, and print and write what was measured."""
    parser = argparse.ArgumentParser("python -m benchmarks.consumer --lake s3", description=__doc__)
    parser.add_argument("--latency", type=float, default=50.0, help="ms added to each request")
    parser.add_argument("--consumers", default="1,4,8", help="numbers of consumers at a distance")
    parser.add_argument("--seconds", type=float, default=20, help="of each step at a distance")
    parser.add_argument(
        "--put-price", type=float, default=0.005, help="of 1,000 puts, lists and copies"
    )
    parser.add_argument("--get-price", type=float, default=0.0004, help="of 1,000 gets and heads")
    parser.add_argument("--warm-up", type=float, default=WARM_UP, help="seconds before timing")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of the hand-over")
    parser.add_argument("--docs", action="store_true", help="put the tables into the guide")
    parser.parse_args(more, namespace=given)
    if given.mb < 90:
        parser.error("--mb should be at least 90: a session's first cycles read 60 unmeasured")
    found: dict[str, Any] = {}
    if given.report is not None and given.report.exists():
        found = json.loads(given.report.read_text())
    found["load_average_before"] = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="lagless-bench-", ignore_cleanup_errors=True) as folder:
        world = BucketWorld(Path(folder), given.mb, given)
        try:
            for name in given.only.split(",") if given.only else PARTS:
                found[name] = PARTS[name](world)
                print(json.dumps({name: found[name]}, indent=2), flush=True)
        finally:
            world.close()
    if {"rate", "streaming"} <= found.keys():
        found["bucket by streaming"] = {
            ours: found["rate"][f"bucket, {ours}"]["mb_per_second"]
            / found["streaming"][theirs]["mb_per_second"]
            for ours, theirs in PAIRS
        }
        print(json.dumps(found["bucket by streaming"], indent=2), flush=True)
    found["load_average_after"] = os.getloadavg()[0]
    if given.report is not None:
        given.report.write_text(json.dumps(found, indent=2))
    made = tables(found)
    for lines in made.values():
        print("", *lines, sep="\n", flush=True)
    if given.docs:
        publish(made)
