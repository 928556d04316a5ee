"""The tables of a consumer: ports.Tables on Spark and delta-rs."""

import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import (
    columns,
    formats,
    gone,
    identities,
    ingestion,
    reading,
    rejects,
    schemas,
    transforms,
    writing,
)
from lagless.adapters.lake.ahead import Ahead
from lagless.adapters.lake.handle import TROUBLES
from lagless.adapters.lake.sessions import Sessions, first_line
from lagless.adapters.lake.table import Table
from lagless.adapters.lake.work import Place, Work
from lagless.errors import Away, GiveUp, LaglessError, TryAgain
from lagless.ports import Intake, Position, Span, Topic
from lagless.settings import Settings

PATIENCE = 3.0
"""Seconds that files for a cycle that will not be are waited for at the end."""


class Lake:
    """The tables under the lake's path, one per topic."""

    def __init__(
        self,
        settings: Settings,
        kafka: Mapping[str, str],
        opener: Callable[[], SparkSession],
    ) -> None:
        self._settings = settings
        self._kafka = kafka
        self._sessions = Sessions(settings.spark.url, opener)
        self._places: dict[Topic, Place] = {}

    # ------------------------------------------------------------------ ports.Tables

    def claim(
        self,
        topic: Topic,
        partitions: Collection[int],
        generation: int | None,
        first: Callable[[], Mapping[int, int]],
        earliest: Mapping[int, int],
    ) -> Mapping[int, int]:
        """Take partitions over; see ports.Tables."""
        with _waiting(self._path(topic)):
            place = self._place(topic)
            self._name_former(place, partitions)
            return place.table.claim(partitions, generation, first, earliest)

    def look(self, topic: Topic, partitions: Collection[int]) -> Mapping[int, Position]:
        """Give the positions as they are now."""
        with _waiting(self._path(topic)):
            return self._place(topic).table.look(partitions)

    def ingest(
        self,
        topic: Topic,
        spans: Mapping[int, Span],
        generations: Mapping[int, int],
        check: Callable[[], None],
        then: Mapping[int, Span],
    ) -> Intake:
        """Read, write and commit these spans; let Spark begin with what comes then."""
        # A thread that was left behind must not touch the handles of the cycle that followed.
        check()
        work = Work(topic, spans, generations, check)
        place = self._place(topic)
        place.seconds = {}
        spark = self._sessions.get()
        try:
            form = self._form(spark, place, work)
            ahead = place.find_ahead(spans, form, self._settings.consumer.cycle_deadline)
            if then and form == place.form:
                place.ahead = self._begin(spark, place, Work(topic, then, generations, check), form)
            drafted = None if ahead is None else ahead.take()
            judged = self._judged(spark, form, work) if drafted is None else drafted.judged
            return ingestion.ingest(place, work, form, judged, drafted)
        except LaglessError:
            raise
        except AnalysisException as error:
            raise GiveUp(
                f"topic {topic.name}: Spark refuses the plan: {first_line(error)}"
            ) from error
        except Exception as error:
            if isinstance(error, TROUBLES):
                raise Away(f"{place.table.path}: {error}", "lake") from error
            if not self._sessions.check():
                raise Away(f"Spark was lost: {first_line(error)}", "spark") from error
            raise TryAgain(f"topic {topic.name}: {first_line(error)}") from error

    def give_up(
        self, topic: Topic, spans: Mapping[int, Span], generations: Mapping[int, int]
    ) -> None:
        """Name spans that Kafka deleted before they were read, and go on behind them."""
        with _waiting(self._path(topic)):
            group, path = self._settings.group, self._path(topic, "_gone")
            place = self._place(topic)
            # Who slept since the last look may find gone what its successor has read.
            place.table.check(spans, {p: generations[p] for p in spans})
            rejects.pass_by(place.rejected, spans)
            kept = rejects.kept(place.rejected, topic.id, spans)
            for p, span in spans.items():
                gone.name(
                    path, group, topic, p, span.first, span.until, "retention", kept.get(p, ())
                )
            place.table.commit(
                (),
                {p: span.first for p, span in spans.items()},
                {p: span.until for p, span in spans.items()},
                {p: generations[p] for p in spans},
            )

    def open(self) -> None:
        """Open the session; Away where Spark does not answer."""
        self._sessions.get()

    def ready(self) -> None:
        """Open a session, and let Spark do what a cycle does, unless it did so for another one."""
        try:
            self._rehearse(self._sessions.get())
        except (LaglessError, AnalysisException):
            raise
        except OSError as error:
            raise Away(f"{self._settings.lake.path}: {error}", "lake") from error
        except Exception as error:
            self._sessions.drop()
            raise Away(f"Spark was lost: {first_line(error)}", "spark") from error

    def _rehearse(self, spark: SparkSession) -> None:
        with tempfile.TemporaryDirectory(prefix="lagless-", dir=self._root()) as folder:
            # Views of this kind are the whole server's, and go with it.
            mark = f"lagless_{hashlib.sha256(str(self._root()).encode()).hexdigest()[:12]}"
            if _has_view(spark, f"global_temp.{mark}"):
                return
            fields = spark.createDataFrame([], "seq BIGINT").schema
            form = formats.json_format("seq BIGINT", fields, "")
            source = spark.range(10).select(
                F.lit(None).cast("binary").alias("key"),
                F.encode(F.to_json(F.struct(F.col("id").alias("seq"))), "UTF-8").alias("value"),
                F.lit(0).alias("partition"),
                F.col("id").alias("offset"),
                F.current_timestamp().alias("timestamp"),
            )
            writing.write(formats.rows(formats.judge(source, form), form), Path(folder))
            spark.range(1).createOrReplaceGlobalTempView(mark)

    def interrupt(self) -> None:
        """End what runs in the session, and leave the handles to the threads that use them."""
        self._drop_ahead(self._places.values())
        self._places = {}
        self._sessions.interrupt()

    def close(self) -> None:
        """End the session, and what it was writing for cycles that will not be."""
        left = self._drop_ahead(self._places.values())
        self._sessions.close()
        for one in left:
            one.join(PATIENCE)

    # ------------------------------------------------------------------ places

    def _root(self) -> Path:
        self._settings.lake.path.mkdir(parents=True, exist_ok=True)
        return self._settings.lake.path.absolute()

    def _path(self, topic: Topic, suffix: str = "") -> Path:
        return self._root() / (self._settings.table_of(topic.name) + suffix)

    def _place(self, topic: Topic) -> Place:
        found = self._places.get(topic)
        if found is None:
            # A topic made anew brings a new id: what belonged to the old one goes.
            former = [one for one in tuple(self._places) if one.name == topic.name]
            self._drop_ahead(place for one in former if (place := self._places.pop(one, None)))
            found = self._places[topic] = self._make_place(topic)
        return found

    def _drop_ahead(self, places: Iterable[Place]) -> list[Ahead]:
        left = [ahead for place in tuple(places) if (ahead := place.ahead) is not None]
        for one in left:
            one.drop()
        return left

    def _make_place(self, topic: Topic) -> Place:
        settings = self._settings.of_topic(topic.name)
        lake, group = self._settings.lake, self._settings.group
        log = (lake.log_retention_hours, lake.log_entries)
        return Place(
            Table(self._path(topic), group, topic, formats.first_columns(settings), *log),
            Table(self._path(topic, "_rejected"), group, topic, columns.REJECTED, *log),
            settings,
            None if settings.transform is None else transforms.load(settings.transform, topic.name),
        )

    def _name_former(self, place: Place, partitions: Collection[int]) -> None:
        """Name what was left unread in earlier topics of the same name."""
        place.table.update()
        group, topic = self._settings.group, place.table.topic
        if place.table.version(identities.marker(group, topic.name)) is None:
            return
        new = [
            p for p in partitions if place.table.version(identities.place(group, topic, p)) is None
        ]
        if not new:
            return
        former = place.table.close_former(new)
        if former and place.rejected.exists():
            place.rejected.close_former(new)
        for one in former:
            left = {one.partition: Span(one.offset, gone.FOREVER)}
            kept = rejects.kept(place.rejected, one.topic_id, left)
            gone.name(
                self._path(topic, "_gone"),
                group,
                Topic(topic.name, one.topic_id),
                one.partition,
                one.offset,
                None,
                "deleted",
                kept.get(one.partition, ()),
            )

    # ------------------------------------------------------------------ one cycle

    def _form(self, spark: SparkSession, place: Place, work: Work) -> formats.Format:
        if place.form is None:
            if place.settings.format == "json":
                raw = self._read(spark, formats.Format("raw"), work)
                place.form = schemas.settle(spark, place.table, place.settings, raw)
            else:
                place.form = formats.Format(place.settings.format)
            if place.form is None:
                return formats.Format("json")
        return place.form

    def _begin(self, spark: SparkSession, place: Place, work: Work, form: formats.Format) -> Ahead:
        """Let Spark write the files of a cycle that is still to come."""

        def make() -> ingestion.Draft:
            return ingestion.draft(place, work, form, self._judged(spark, form, work))

        return Ahead(work.spans, form, make)

    def _judged(self, spark: SparkSession, form: formats.Format, work: Work) -> DataFrame:
        return formats.judge(self._read(spark, form, work), form)

    def _read(self, spark: SparkSession, form: formats.Format, work: Work) -> DataFrame:
        frame = reading.read(
            spark,
            self._kafka,
            self._settings.group,
            self._settings.kafka.isolation,
            work.topic,
            work.spans,
            form.has_headers,
        )
        # One task from here on: else Spark makes the parser's code once for every partition.
        return frame if work.is_large else frame.coalesce(1)


def _has_view(spark: SparkSession, name: str) -> bool:
    """Say whether there is a view; Spark need not run anything for it."""
    try:
        return bool(spark.table(name).columns)
    except AnalysisException:
        return False


@contextmanager
def _waiting(path: Path) -> Iterator[None]:
    """Turn what delta-rs and the file system raise into a wait for the lake."""
    try:
        yield
    except TROUBLES as error:
        raise Away(f"{path}: {error}", "lake") from error
