"""The tables of a consumer: ports.Tables on Spark and delta-rs."""

import hashlib
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from lagless.adapters.lake import (
    data_files,
    formats,
    ingestion,
    partitions,
    rehearsal,
    resets,
    schemas,
    store,
    transforms,
)
from lagless.adapters.lake.delta import TROUBLES
from lagless.adapters.lake.drafts import Ahead, Draft
from lagless.adapters.lake.formats import Format, json_format
from lagless.adapters.lake.formats.registered import Met
from lagless.adapters.lake.ingestion import Pipeline, Source, Work
from lagless.adapters.lake.rehearsal import Records, Rehearsal
from lagless.adapters.lake.session_holder import Sessions, first_line
from lagless.adapters.lake.side_tables import FOREVER, Rejected, record_gone
from lagless.adapters.lake.store import Store
from lagless.adapters.lake.table import Table
from lagless.errors import Away, GiveUp, LaglessError, TryAgain
from lagless.model import TopicPartition
from lagless.ports import Held, Intake, Positions, Registry, Span, Spans, Topic
from lagless.settings import Bucket, Settings, TopicSettings

if TYPE_CHECKING:
    from lagless.adapters.lake.retries import Retried

PATIENCE = 3.0
"""Seconds to wait at the end for files of a cycle that will not run."""


class Lake:
    """The tables under the lake's path, one per topic."""

    def __init__(
        self,
        settings: Settings,
        kafka: Mapping[str, str],
        opener: Callable[[], SparkSession],
        registry: Registry | None = None,
        records: Records = dict,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._source = Source(kafka, settings.group, settings.kafka.isolation)
        self._store = store.of(settings.lake)
        self._sessions = Sessions(settings.spark.url, opener)
        self._pipelines: dict[Topic, Pipeline] = {}
        self._rehearsal = Rehearsal(settings, self._source, self._store, records)
        self._is_proven = False

    def claim(
        self,
        topic: Topic,
        partitions: Collection[TopicPartition],
        generation: int | None,
        first: Callable[[], Mapping[TopicPartition, int]],
        earliest: Mapping[TopicPartition, int],
    ) -> Held:
        """Take partitions over; see ports.Tables."""
        with self._waiting(topic):
            pipeline = self._pipeline(topic)
            # The table may have been restored or replaced while this consumer did not read it.
            pipeline.table.handle.renew()
            pipeline.rejected.table.handle.renew()
            self._record_former(pipeline, partitions)
            granted = pipeline.table.claim(partitions, generation, first, earliest)
            pipeline.rejected.complete(pipeline.table, partitions)
            return granted

    def look(self, topic: Topic, generations: Held) -> Positions:
        """Return the positions as they are now; see ports.Tables."""
        with self._waiting(topic):
            return self._pipeline(topic).table.look_owned(generations)

    def begun(self, topic: Topic) -> Spans:
        """Return the spans that were begun ahead for the topic and could still be used."""
        pipeline = self._pipelines.get(topic)
        if pipeline is None or pipeline.ahead is None:
            return {}
        return pipeline.ahead.usable(pipeline.form, self._settings.consumer.cycle_deadline)

    def ingest(
        self, topic: Topic, spans: Spans, generations: Held, check: Callable[[], None], then: Spans
    ) -> Intake:
        """Read, write and commit these spans; let Spark begin with what comes then."""
        # A thread that was left behind must not touch the handles of the cycle that followed.
        check()
        work = Work(topic, spans, generations, check)
        pipeline = self._pipeline(topic)
        pipeline.seconds = {}
        spark = self._sessions.get()
        try:
            form = self._format(spark, pipeline, work)
            ahead = pipeline.take_ahead(spans, form, self._settings.consumer.cycle_deadline)
            if then and form == pipeline.form:
                following = Work(topic, then, generations, check)
                pipeline.ahead = self._begin(spark, pipeline, following, form)
            drafted = None if ahead is None else ahead.take()
            judged = self._judged(spark, form, work) if drafted is None else drafted.judged
            return ingestion.ingest(pipeline, work, form, judged, drafted)
        except LaglessError:
            raise
        except AnalysisException as error:
            raise refusal(topic.name, error) from error
        except Exception as error:
            if isinstance(error, TROUBLES):
                raise Away(store.trouble(str(pipeline.table), error), "lake") from error
            if not self._sessions.check():
                raise Away(f"Spark was lost: {first_line(error)}", "spark") from error
            raise TryAgain(f"topic {topic.name}: {first_line(error)}") from error

    def give_up(self, topic: Topic, spans: Spans, generations: Held) -> None:
        """Record spans that Kafka deleted before they were read, and continue after them."""
        with self._waiting(topic):
            pipeline = self._pipeline(topic)
            # After a long pause, Kafka may have deleted records that our successor already read:
            # look again.
            pipeline.table.check(spans, generations)
            pipeline.rejected.pass_by(spans)
            gone = self._gone(topic)
            for p, span in spans.items():
                read = pipeline.rejected.offsets(topic, p, span)
                record_gone(gone, p, span, "retention", read)
            pipeline.table.commit((), spans, generations)

    def stand(self, topic: Topic, partitions: Collection[TopicPartition]) -> Positions:
        """Return the positions of the partitions that the group has met."""
        with self._waiting(topic):
            table = self._pipeline(topic).table
            if not table.handle.exists():
                return {}
            table.handle.update()
            known = table.handle.entries()
            return table.look([p for p in partitions if table.offset_id(p) in known])

    def rows(self, topic: Topic, first: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return how many rows each partition has from these offsets on."""
        with self._waiting(topic):
            return resets.count(self._pipeline(topic).table, first)

    def reset(self, topic: Topic, to: Mapping[TopicPartition, int], remove: bool, mark: int) -> int:
        """Begin at other offsets; see resets.reset."""
        with self._waiting(topic):
            pipeline = self._pipeline(topic)
            removed = resets.reset(pipeline.table, to, remove, mark)
            pipeline.rejected.complete(pipeline.table, to)
            return removed

    def retry(
        self, topic: Topic, draw: Callable[[], int], between: Callable[[str], None] = lambda _: None
    ) -> "Retried":
        """Read the topic's rejects again; see retries."""
        # Its libraries take a second to import, half of a consumer's own part of its start.
        from lagless.adapters.lake.retries import Retry

        try:
            with self._waiting(topic):
                return Retry(self._pipeline(topic), self._sessions.get(), draw, between).run()
        except AnalysisException as error:
            raise GiveUp(
                f"topic {topic.name}: Spark refuses the plan: {first_line(error)}"
            ) from error
        except PySparkException as error:
            raise TryAgain(f"topic {topic.name}: {first_line(error)}") from error

    def open(self) -> None:
        """Open the session; Away where Spark does not answer."""
        self._sessions.get()

    def ready(self) -> None:
        """Open a session and rehearse a cycle in it, unless its server or JVM has seen one already.

        A bucket is first asked whether it refuses to create what exists: GiveUp where it does not.
        """
        try:
            self._prove()
            spark = self._sessions.get()
            if not self._has_own_spark:
                self._rehearse(spark)
            elif self._rehearsal.rounds == 0:
                self._rehearsal.round(spark)
        except (LaglessError, AnalysisException):
            raise
        except OSError as error:
            raise Away(f"{self._settings.lake.path}: {error}", "lake") from error
        except Exception as error:
            self._sessions.drop()
            raise Away(f"Spark was lost: {first_line(error)}", "spark") from error

    def rehearse(self) -> bool:
        """Run one more warm-up cycle, and return whether another one would help."""
        if not self._has_own_spark or self._rehearsal.is_enough:
            return False
        try:
            self._rehearsal.round(self._sessions.get())
        except LaglessError:
            raise
        except Exception as error:
            if not self._sessions.check():
                raise Away(f"Spark was lost: {first_line(error)}", "spark") from error
            raise TryAgain(f"rehearsing: {first_line(error)}") from error
        return not self._rehearsal.is_enough

    @property
    def _has_own_spark(self) -> bool:
        # What others share must not work for the one that idles.
        return self._settings.spark.is_local

    def interrupt(self) -> None:
        """End what runs in the session, and forget everything that was begun.

        Handles are left to the threads that still use them.
        """
        self._drop_ahead(self._pipelines.values())
        self._pipelines = {}
        self._sessions.interrupt()

    def close(self) -> None:
        """End the session, and what it was writing for cycles that will not run."""
        dropped = self._drop_ahead(self._pipelines.values())
        self._sessions.close()
        for ahead in dropped:
            ahead.join(PATIENCE)

    def _prove(self) -> None:
        path, storage = self._settings.lake.path, self._settings.lake.storage
        if isinstance(path, Bucket) and not self._is_proven:
            from lagless.adapters.lake import bucket_proof

            try:
                bucket_proof.check(path, storage)
            except OSError as error:
                raise Away(str(error), "lake") from error
        self._is_proven = True

    def _table_store(self, topic: Topic, suffix: str = "") -> Store:
        self._store.prepare()
        return self._store.inside(self._settings.table_of(topic.name) + suffix)

    def _gone(self, topic: Topic) -> Table:
        return Table(self._table_store(topic, "_gone"), self._settings.group, topic, schemas.GONE)

    def _pipeline(self, topic: Topic) -> Pipeline:
        pipeline = self._pipelines.get(topic)
        if pipeline is None:
            # A recreated topic brings a new id: what belonged to the old one goes.
            former = [other for other in tuple(self._pipelines) if other.name == topic.name]
            self._drop_ahead(
                old for other in former if (old := self._pipelines.pop(other, None)) is not None
            )
            pipeline = self._pipelines[topic] = self._new_pipeline(topic)
        return pipeline

    def _new_pipeline(self, topic: Topic) -> Pipeline:
        settings = self._settings.of_topic(topic.name)
        lake, group = self._settings.lake, self._settings.group
        log = (lake.log_retention_hours, lake.log_entries)
        transform: transforms.Transform | None = None
        columns = formats.columns(formats.of(settings), settings)
        if settings.transform is not None:
            transform = transforms.load(settings.transform, topic.name)
            columns = schemas.ALWAYS
        by = settings.partition_columns
        columns = partitions.schema(by, columns)
        names = [column.name for column in by]
        rejected = self._table_store(topic, "_rejected")
        return Pipeline(
            Table(self._table_store(topic), group, topic, columns, *log, names),
            Rejected(Table(rejected, group, topic, schemas.REJECTED, *log)),
            settings,
            transform,
            Met(topic.name, self._registry),
        )

    def _drop_ahead(self, pipelines: Iterable[Pipeline]) -> list[Ahead]:
        begun = [line.ahead for line in tuple(pipelines) if line.ahead is not None]
        for ahead in begun:
            ahead.drop()
        return begun

    def _record_former(self, pipeline: Pipeline, partitions: Collection[TopicPartition]) -> None:
        """Record the unread ranges of deleted topics with the same name."""
        new = pipeline.table.unmet(partitions)
        former = pipeline.table.close_former(new) if new else []
        if not former:
            return
        pipeline.rejected.close_former(new)
        for end in former:
            left = Span(end.offset, FOREVER)
            read = pipeline.rejected.offsets(end.topic, end.partition, left)
            record_gone(self._gone(end.topic), end.partition, left, "deleted", read)

    def _format(self, spark: SparkSession, pipeline: Pipeline, work: Work) -> Format:
        """Return the topic's format, settled if there were records to settle it by."""
        if pipeline.form is not None:
            return pipeline.form
        form = formats.of(pipeline.settings)
        settled = form.settle(
            spark,
            pipeline.table,
            pipeline.settings,
            lambda: self._source.read(spark, work, headers=True),
            pipeline.met,
        )
        pipeline.form = settled if settled.is_settled else None
        return settled

    def _begin(self, spark: SparkSession, pipeline: Pipeline, work: Work, form: Format) -> Ahead:
        """Let Spark write the files of a cycle that is still to come."""

        def make() -> Draft:
            return ingestion.draft(pipeline, work, form, self._judged(spark, form, work))

        return Ahead(work.spans, form, make)

    def _judged(self, spark: SparkSession, form: Format, work: Work) -> DataFrame:
        settings = self._settings.of_topic(work.topic.name)
        source = self._source.read(spark, work, formats.keeps_headers(form, settings))
        return formats.judge(source, form, settings)

    def _rehearse(self, spark: SparkSession) -> None:
        """Run one warm-up cycle per Spark server: the first one takes seconds."""
        folder = f"lagless-{uuid.uuid4().hex[:8]}"
        target = self._store.inside(folder)
        target.prepare()
        try:
            # Views of this kind are the whole server's, and go with it.
            mark = f"lagless_{hashlib.sha256(self._store.uri.encode()).hexdigest()[:12]}"
            if spark.catalog.tableExists(f"global_temp.{mark}"):
                return
            form = json_format.with_fields(spark, "seq BIGINT", "")
            source = rehearsal.made_up(spark, 10)
            judged = form.judge(source)
            data_files.write(formats.good(judged, form, TopicSettings()), target)
            spark.range(1).createOrReplaceGlobalTempView(mark)
        finally:
            self._store.delete_folder(folder)

    @contextmanager
    def _waiting(self, topic: Topic) -> Iterator[None]:
        """Turn errors of delta-rs and the store into a wait for the lake."""
        try:
            yield
        except TROUBLES as error:
            table = self._store.inside(self._settings.table_of(topic.name))
            raise Away(store.trouble(table.uri, error), "lake") from error


def refusal(name: str, error: AnalysisException) -> LaglessError:
    """Return what a plan that Spark refuses calls for."""
    if error.getCondition() == "PATH_ALREADY_EXISTS":
        # No two cycles share a folder: the client sent the plan again after its connection broke.
        return TryAgain(f"topic {name}: Spark was asked twice for the same files")
    return GiveUp(f"topic {name}: Spark refuses the plan: {first_line(error)}")
