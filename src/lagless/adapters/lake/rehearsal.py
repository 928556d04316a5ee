"""A warm-up cycle, run before the first real one: read from Kafka, judge, transform and write.

The first cycles of a JVM take seconds: classes are loaded, plans are compiled for the first
time, and the JVM runs code in an interpreter before it compiles it. A rehearsal does the same work
on records that are there already. It writes into a folder of its own, which is deleted: no table
knows of it, and no offset moves.

A consumer rehearses once before it says that it is ready, and as long as it holds nothing it goes
on until rounds do not get faster.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import data_files, formats, ingestion, transforms
from lagless.adapters.lake.formats import Format, json_format
from lagless.adapters.lake.ingestion import Source, Work
from lagless.adapters.lake.session_holder import first_line
from lagless.adapters.lake.store import Store
from lagless.ports import Span, Spans, Topic
from lagless.settings import Settings, TopicSettings

log = logging.getLogger("lagless.lake")
Records = Callable[[], Mapping[Topic, Spans]]
"""Spans of records that are in Kafka, by topic; none where there are none."""
FIRST = 5
"""Records of each partition that the first round reads: they may be large."""
ENOUGH = 1_000_000
"""Bytes that a round reads at most, as soon as the size of records is known."""
ROWS = 5000
"""Rows that a round makes up where Kafka has no records yet."""
MOST = 60
"""Rounds at most: by then the JVM has compiled what it is going to compile."""
STEADY = 5
"""Rounds in a row that were not faster than the best before, until it is enough."""
FASTER = 0.95
"""A round counts as faster if it takes less than this of the best one before."""


@dataclass(slots=True)
class Rehearsal:
    """The rounds of one JVM."""

    settings: Settings
    source: Source
    store: Store
    records: Records
    rounds: int = 0
    best: float = float("inf")
    steady: int = 0
    _records: int = FIRST
    _spans: Mapping[Topic, Spans] = field(default_factory=dict)

    @property
    def is_enough(self) -> bool:
        """Return whether more rounds would change little."""
        return self.rounds >= MOST or self.steady >= STEADY

    def round(self, spark: SparkSession) -> None:
        """Run one warm-up cycle for each topic that has records, or on made-up ones."""
        if not self._spans:
            self._spans = self.records()
        began = time.perf_counter()
        read = sum(self._read(spark, topic, spans) for topic, spans in tuple(self._spans.items()))
        if 0 < 4 * read < ENOUGH:
            self._records *= 4
            self.best = float("inf")
        if not self._spans:
            settings = TopicSettings(format="json", schema="seq BIGINT")
            form = json_format.with_fields(spark, "seq BIGINT", "")
            self._write(form, settings, form.judge(made_up(spark, ROWS)))
        took = time.perf_counter() - began
        self.rounds += 1
        self.steady = 0 if took < FASTER * self.best else self.steady + 1
        self.best = min(self.best, took)

    def _read(self, spark: SparkSession, topic: Topic, spans: Spans) -> int:
        """Rehearse with the newest records of a topic, and return their bytes."""
        settings = self.settings.of_topic(topic.name)
        last = {
            p: Span(max(span.first, span.until - self._records), span.until)
            for p, span in spans.items()
        }
        work = Work(topic, last, dict.fromkeys(spans, 0), lambda: None)
        try:
            form = formats.named(settings.format)
            if not form.has_headers:
                # A schema that is inferred or registered is settled by the first cycle. Until then
                # any fields will do: records that do not fit are rejected, which takes as long.
                form = json_format.with_fields(spark, settings.schema_ or "seq BIGINT", topic.name)
            source = self.source.read(spark, work, formats.keeps_headers(form, settings))
            return self._write(form, settings, formats.judge(source, form, settings))
        except Exception as error:
            # Records may be gone by now, and what is wrong with a topic is said when it is read. If
            # Spark is lost, the next call says so.
            log.info("the warm-up of %s ends early: %s", topic.name, first_line(error))
            self._spans = {other: its for other, its in self._spans.items() if other != topic}
            return 0

    def _write(self, form: Format, settings: TopicSettings, judged: DataFrame) -> int:
        observation = Observation()
        rows = ingestion.observed(judged, form, settings, observation)
        if settings.transform is not None:
            transform = transforms.load(settings.transform, "")
            rows = transforms.apply(transform, settings.transform, rows)
        folder = f"lagless-{uuid.uuid4().hex[:8]}"
        target = self.store.inside(folder)
        target.prepare()
        try:
            data_files.write(rows, target)
            return int(observation.get["bytes"])
        finally:
            self.store.delete_folder(folder)


def made_up(spark: SparkSession, rows: int) -> DataFrame:
    """Return records as Kafka has them, with a small JSON object each."""
    return spark.range(rows).select(
        F.lit(None).cast("binary").alias("key"),
        F.encode(F.to_json(F.struct(F.col("id").alias("seq"))), "UTF-8").alias("value"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        F.current_timestamp().alias("timestamp"),
    )
