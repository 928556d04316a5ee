"""One cycle of one topic: read from Kafka, judge, write, reject, commit."""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import data_files, formats, partitions, schemas, transforms
from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.drafts import Ahead, Draft
from lagless.adapters.lake.formats import Format
from lagless.adapters.lake.formats.registered import Met
from lagless.adapters.lake.session_holder import first_line
from lagless.adapters.lake.side_tables import Rejected
from lagless.adapters.lake.table import Table
from lagless.errors import TooMuch, TryAgain
from lagless.model import TopicPartition
from lagless.ports import Intake, Span, Topic
from lagless.settings import TopicSettings

log = logging.getLogger("lagless.lake")
MANY_OFFSETS = 25_000
"""Offsets above which all cores parse; below, handing rows over takes longer than it saves."""
FILE_OFFSETS = 500_000
"""Offsets above which a cycle writes more than one file."""
MANY_VALUES = 100
"""Files of one cycle above which the partition columns are a mistake."""
POLL = 20_000
"""Milliseconds that Spark waits for records before it gives up: below every deadline."""
SWIFT = {
    # The defaults, 64 kB and 500, make a task wait for the network again and again.
    "kafka.receive.buffer.bytes": "-1",
    "kafka.max.poll.records": "5000",
    # Spark's offset query shares a connection with the next fetch; at the log's end that fetch
    # blocks for fetch.max.wait.ms, per partition and cycle. Keep it short.
    "kafka.fetch.max.wait.ms": "10",
    # Each cycle creates a client to ask about the partitions; registering some hundred JMX beans,
    # which nobody reads, takes longer than the question.
    "kafka.auto.include.jmx.reporter": "false",
}
"""Options of Spark's own Kafka consumers, unless the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Work:
    """One cycle's work on one topic."""

    topic: Topic
    spans: Mapping[TopicPartition, Span]
    generations: Mapping[TopicPartition, int]
    check: Callable[[], None]

    @property
    def offsets(self) -> int:
        """Return how many offsets all spans have."""
        return sum(map(len, self.spans.values()))

    @property
    def is_large(self) -> bool:
        """Return whether it pays to use all cores."""
        return self.offsets > MANY_OFFSETS


@dataclass(frozen=True, slots=True)
class Source:
    """Kafka as Spark reads it."""

    options: Mapping[str, str]
    group: str
    isolation: str

    def read(self, spark: SparkSession, work: Work, headers: bool) -> DataFrame:
        """Return the records of a cycle's spans as a frame; nothing is read yet."""
        options = {
            **SWIFT,
            **self.options,
            "assign": json.dumps({work.topic.name: sorted(p.partition for p in work.spans)}),
            "startingOffsets": _offsets(work, lambda span: span.first),
            "endingOffsets": _offsets(work, lambda span: span.until),
            # Without it Spark would silently skip what it cannot find.
            "failOnDataLoss": "true",
            "includeHeaders": str(headers).lower(),
            "kafka.isolation.level": self.isolation,
            # Executors keep their consumers from cycle to cycle under a name that stays the same.
            # With the topic's id in it they never serve what they had buffered of a deleted topic.
            "kafka.group.id": f"{self.group}.spark.{work.topic.id}",
            "kafkaConsumer.pollTimeoutMs": str(POLL),
        }
        frame = spark.read.format("kafka").options(**options).load()
        # One task from here on: else Spark compiles the parser's code once for every partition.
        return frame if work.is_large else frame.coalesce(1)


def _offsets(work: Work, end: Callable[[Span], int]) -> str:
    offsets = {str(p.partition): end(span) for p, span in sorted(work.spans.items())}
    return json.dumps({work.topic.name: offsets})


@dataclass(slots=True)
class Pipeline:
    """A topic's pipeline: format and transform, and the tables at the end."""

    table: Table
    rejected: Rejected
    settings: TopicSettings
    transform: transforms.Transform | None
    met: Met
    """The schemas that the registry has for the ids in the topic's records."""
    form: Format | None = None
    """The format with its schema, once that is settled."""
    ahead: Ahead | None = None
    """The spans that the next cycle will need if nothing changes."""
    seconds: dict[str, float] = field(default_factory=dict)

    def take_ahead(
        self, spans: Mapping[TopicPartition, Span], form: Format, deadline: float
    ) -> Ahead | None:
        """Return what was begun ahead if it is of these spans; otherwise delete it."""
        ahead, self.ahead = self.ahead, None
        if ahead is None or ahead.usable(form, deadline) == spans:
            return ahead
        ahead.drop()
        return None


def draft(pipeline: Pipeline, work: Work, form: Format, judged: DataFrame) -> Draft:
    """Write the good records; the table's handle is not touched."""
    began = time.perf_counter()
    files, counts = written(pipeline, form, judged, work.offsets)
    return Draft(pipeline.table.store, judged, files, counts, time.perf_counter() - began)


def written(
    pipeline: Pipeline, form: Format, judged: DataFrame, offsets: int
) -> tuple[list[File], dict[str, Any]]:
    """Write the good ones of about so many records, and return the files and what was counted."""
    observation = Observation()
    rows = observed(judged, form, pipeline.settings, observation)
    transformed = transforms.apply(pipeline.transform, pipeline.settings.transform, rows)
    number = max(1, math.ceil(offsets / FILE_OFFSETS))
    store = pipeline.table.store
    by = pipeline.settings.partition_columns
    whole = partitions.added(transformed, by)
    files = data_files.write(whole, store, number, offsets > MANY_OFFSETS, by)
    if len(files) > MANY_VALUES:
        log.warning(
            "%s: one cycle wrote %s files, one for each value of %s; choose partition columns with "
            "fewer values",
            store.uri,
            len(files),
            ", ".join(map(str, by)),
        )
    return files, observation.get


def ingest(
    pipeline: Pipeline, work: Work, form: Format, judged: DataFrame, drafted: Draft | None = None
) -> Intake:
    """Write the good records if they are not yet, add the rejects to their table, and commit."""
    try:
        drafted = drafted or draft(pipeline, work, form, judged)
    except PySparkException as error:
        return _isolate(pipeline, work, form, judged, error)
    files, counts = drafted.files, drafted.counts
    pipeline.seconds["spark"] = drafted.seconds
    try:
        if form.evolve(pipeline.table, judged, counts):
            pipeline.form = None
            pipeline.table.handle.discard(files)
            return Intake(landed=False, seconds=pipeline.seconds)
        _reject(pipeline, work, judged, counts["rejected"])
        for file in files:
            schemas.fit(pipeline.table, file.schema, pipeline.settings)
    except BaseException:
        pipeline.table.handle.discard(files)
        raise
    return commit(pipeline, work, files, counts)


def observed(
    judged: DataFrame, form: Format, settings: TopicSettings, observation: Observation
) -> DataFrame:
    """Return the rows of the table, and count every record while they are read.

    The counting also keeps the filter above the parser: below it, Spark would parse twice.
    """
    size = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("value", "key")]
    # Counted as numbers: counting is not compiled, and the value need not be passed on.
    numbers: dict[str, Column] = {
        "_size": size[0] + size[1],
        "_bad": F.col("_reason").isNotNull().cast("int"),
        **form.numbers(),
    }
    counts = [
        F.count(F.lit(1)).alias("records"),
        F.coalesce(F.sum("_bad"), F.lit(0)).alias("rejected"),
        F.sum("_size").alias("bytes"),
        *form.counts(settings.evolve),
    ]
    return formats.good(judged.withColumns(numbers).observe(observation, *counts), form, settings)


def commit(pipeline: Pipeline, work: Work, files: list[File], counts: Mapping[str, Any]) -> Intake:
    """Commit files and offsets to the main table, and return the outcome."""
    began = time.perf_counter()
    landed = pipeline.table.commit(files, work.spans, work.generations, work.check)
    pipeline.seconds["commit"] = time.perf_counter() - began
    return Intake(
        rows=sum(file.rows for file in files),
        rejected=counts["rejected"],
        unknown_fields=(counts.get("unknown") or 0) + (counts.get("key_unknown") or 0),
        bytes=counts["bytes"] or 0,
        records=counts["records"],
        seconds=pipeline.seconds,
        landed=landed,
    )


def _reject(pipeline: Pipeline, work: Work, judged: DataFrame, expected: int) -> None:
    rejects = formats.rejects(judged, work.topic.id)
    pipeline.rejected.add(work.spans, rejects, expected, work.check)


def _isolate(
    pipeline: Pipeline, work: Work, form: Format, judged: DataFrame, error: PySparkException
) -> Intake:
    """Find the record on which the transform raises, if that is what went wrong, and reject it."""
    if pipeline.transform is None or isinstance(error, AnalysisException):
        raise error
    rows = formats.good(judged, form, pipeline.settings)
    raised = transforms.blame(pipeline.transform, pipeline.settings.transform, rows)
    if raised is None:
        raise TryAgain(f"topic {work.topic.name}: {first_line(error)}") from error
    if work.offsets > 1:
        raise TooMuch(
            f"topic {work.topic.name}: the transform raises on one of {work.offsets} records: "
            f"{first_line(raised)}"
        ) from raised
    reason = F.lit(f"transform: {first_line(raised)}")
    rejected = judged.count()
    _reject(pipeline, work, judged.withColumn("_reason", F.coalesce("_reason", reason)), rejected)
    return commit(pipeline, work, [], {"rejected": rejected, "records": rejected, "bytes": 0})
