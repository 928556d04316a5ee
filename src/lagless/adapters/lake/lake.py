"""The tables of a consumer: ports.Tables on Spark and delta-rs."""

import importlib
import logging
import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import columns, formats, gone, identities, reading, writing
from lagless.adapters.lake import schemas as stored
from lagless.adapters.lake.sessions import Sessions, first_line
from lagless.adapters.lake.statistics import File
from lagless.adapters.lake.table import TROUBLES, Table
from lagless.errors import Away, GiveUp, LaglessError, TooMuch, TryAgain, WrongSettings
from lagless.ports import Intake, Position, Span, Topic
from lagless.settings import Settings, TopicSettings

log = logging.getLogger("lagless.lake")
FILE_BYTES = 256e6
"""Bytes of records above which a cycle writes more than one file."""
Transform = Callable[[DataFrame], DataFrame]


@dataclass(slots=True)
class _Place:
    """What belongs to one topic."""

    table: Table
    rejected: Table
    settings: TopicSettings
    transform: Transform | None
    form: formats.Format | None = None
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Work:
    """One cycle's work on one topic."""

    topic: Topic
    spans: Mapping[int, Span]
    generations: Mapping[int, int]
    check: Callable[[], None]

    @property
    def offsets(self) -> int:
        """Count the offsets of all spans."""
        return sum(map(len, self.spans.values()))


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
        self._places: dict[Topic, _Place] = {}

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
            table = self._place(topic).table
            self._name_former(table, partitions)
            return table.claim(partitions, generation, first, earliest)

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
    ) -> Intake:
        """Read, write and commit these spans."""
        work = _Work(topic, spans, generations, check)
        place = self._place(topic)
        place.seconds = {}
        spark = self._sessions.get()
        try:
            form = self._form(spark, place, work)
            judged = formats.judge(self._read(spark, form, work), form)
            return self._ingest(place, work, form, judged)
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
            for p, span in spans.items():
                gone.name(path, group, topic, p, span.first, span.until, "retention")
            self._place(topic).table.commit(
                (),
                {p: span.first for p, span in spans.items()},
                {p: span.until for p, span in spans.items()},
                {p: generations[p] for p in spans},
            )

    def open(self) -> None:
        """Open the session; Away where Spark does not answer."""
        self._sessions.get()

    def ready(self) -> None:
        """Open a session, and let it do once what a cycle does."""
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

    def interrupt(self) -> None:
        """Leave the session and what runs in it, and the handles that its threads use."""
        self._places = {}
        self._sessions.drop()

    def close(self) -> None:
        """End the session."""
        self._sessions.close()

    # ------------------------------------------------------------------ places

    def _root(self) -> Path:
        self._settings.lake.path.mkdir(parents=True, exist_ok=True)
        return self._settings.lake.path.absolute()

    def _path(self, topic: Topic, suffix: str = "") -> Path:
        return self._root() / (self._settings.table_of(topic.name) + suffix)

    def _place(self, topic: Topic) -> _Place:
        found = self._places.get(topic)
        if found is None:
            # A topic made anew brings a new id: what belonged to the old one goes.
            for old in [one for one in self._places if one.name == topic.name]:
                del self._places[old]
            found = self._places[topic] = self._make_place(topic)
        return found

    def _make_place(self, topic: Topic) -> _Place:
        settings = self._settings.of_topic(topic.name)
        hours = self._settings.lake.log_retention_hours
        group = self._settings.group
        return _Place(
            Table(self._path(topic), group, topic, formats.first_columns(settings), hours),
            Table(self._path(topic, "_rejected"), group, topic, columns.REJECTED, hours),
            settings,
            None if settings.transform is None else load(settings.transform, topic.name),
        )

    def _name_former(self, table: Table, partitions: Collection[int]) -> None:
        """Name what was left unread in earlier topics of the same name."""
        table.update()
        group, topic = self._settings.group, table.topic
        if table.version(identities.marker(group, topic.name)) is None:
            return
        new = [p for p in partitions if table.version(identities.place(group, topic, p)) is None]
        if not new:
            return
        for one in identities.former(table.entries().items(), group, topic, new):
            gone.name(
                self._path(topic, "_gone"),
                group,
                Topic(topic.name, one.topic_id),
                one.partition,
                one.offset,
                None,
                "deleted",
            )

    # ------------------------------------------------------------------ one cycle

    def _form(self, spark: SparkSession, place: _Place, work: _Work) -> formats.Format:
        if place.form is None:
            if place.settings.format == "json":
                raw = self._read(spark, formats.Format("raw"), work)
                place.form = stored.settle(spark, place.table, place.settings, raw)
            else:
                place.form = formats.Format(place.settings.format)
            if place.form is None:
                return formats.Format("json")
        return place.form

    def _read(self, spark: SparkSession, form: formats.Format, work: _Work) -> DataFrame:
        return reading.read(
            spark,
            self._kafka,
            self._settings.group,
            self._settings.kafka.isolation,
            work.topic,
            work.spans,
            form.has_headers,
        )

    def _ingest(
        self, place: _Place, work: _Work, form: formats.Format, judged: DataFrame
    ) -> Intake:
        began = time.perf_counter()
        observation = Observation()
        rows = formats.rows(judged.observe(observation, *_counts(form, place.settings)), form)
        transformed = _transformed(place, rows)
        files: list[File] = []
        try:
            files = writing.write(transformed, place.table.path, self._files(work))
        except PySparkException as error:
            return self._blame(place, work, form, judged, error)
        counts: dict[str, Any] = observation.get
        place.seconds["spark"] = time.perf_counter() - began
        try:
            names = counts.get("names")
            if names and stored.evolve(place.table, form, judged, names):
                place.form = None
                place.table.discard(files)
                return Intake(landed=False, seconds=place.seconds)
            self._reject(place, work, formats.rejects(judged), counts["rejected"])
            for file in files:
                columns.fit(place.table, file.schema, place.settings.evolve)
        except BaseException:
            place.table.discard(files)
            raise
        return self._commit(place, work, files, counts)

    def _commit(
        self, place: _Place, work: _Work, files: list[File], counts: Mapping[str, Any]
    ) -> Intake:
        began = time.perf_counter()
        landed = place.table.commit(
            files,
            {p: span.first for p, span in work.spans.items()},
            {p: span.until for p, span in work.spans.items()},
            {p: work.generations[p] for p in work.spans},
            work.check,
        )
        place.seconds["commit"] = time.perf_counter() - began
        return Intake(
            rows=sum(file.rows for file in files),
            rejected=counts["rejected"],
            unknown_fields=counts.get("unknown") or 0,
            bytes=counts["bytes"] or 0,
            records=counts["records"],
            seconds=place.seconds,
            landed=landed,
        )

    def _reject(self, place: _Place, work: _Work, rejects: DataFrame, expected: int) -> None:
        """Add rejects to their table, before the main one moves on, and only those it lacks."""
        if not expected:
            return
        table = place.rejected
        known = table.look(work.spans)
        behind = {p: at.offset for p, at in known.items() if at.offset > work.spans[p].first}
        for partition, offset in behind.items():
            rejects = rejects.where(
                (F.col("_partition") != partition) | (F.col("_offset") >= offset)
            )
        table.path.mkdir(parents=True, exist_ok=True)
        files = writing.write(rejects, table.path)
        found = sum(file.rows for file in files)
        if not behind and found != expected:
            table.discard(files)
            raise TryAgain(
                f"topic {work.topic.name}: {expected} rejects were counted and {found} found"
            )
        if not files:
            return
        landed = table.commit(
            files,
            {p: at.offset for p, at in known.items()},
            {p: max(known[p].offset, span.until) for p, span in work.spans.items()},
            {p: at.owner for p, at in known.items()},
            work.check,
        )
        if not landed:
            raise TryAgain(f"{table.path}: another consumer has just added rejects")

    def _blame(
        self,
        place: _Place,
        work: _Work,
        form: formats.Format,
        judged: DataFrame,
        error: PySparkException,
    ) -> Intake:
        """Find out whether the transform raises, and on which record."""
        if place.transform is None or isinstance(error, AnalysisException):
            raise error
        rows = formats.rows(judged, form)
        _run(rows)  # raises where Kafka or Spark is to blame
        try:
            _run(_transformed(place, rows))
        except AnalysisException:
            raise
        except PySparkException as blame:
            if any(word in str(blame) for word in ("ModuleNotFoundError", "ImportError")):
                # Spark's workers lack something: no record is to blame.
                raise GiveUp(
                    f"{place.settings.transform}: {first_line(blame)}; install it where Spark runs"
                ) from blame
            if work.offsets > 1:
                raise TooMuch(
                    f"topic {work.topic.name}: the transform raises on one of {work.offsets} "
                    f"records: {first_line(blame)}"
                ) from blame
            reason = F.lit(f"transform: {first_line(blame)}")
            all_of_it = judged.withColumn("_reason", F.coalesce("_reason", reason))
            rejected = judged.count()
            self._reject(place, work, formats.rejects(all_of_it), rejected)
            counts = {"rejected": rejected, "records": rejected, "bytes": 0}
            return self._commit(place, work, [], counts)
        raise TryAgain(f"topic {work.topic.name}: {first_line(error)}") from error

    def _files(self, work: _Work) -> int:
        return max(1, math.ceil(work.offsets * 500 / FILE_BYTES)) if work.offsets else 1


@contextmanager
def _waiting(path: Path) -> Iterator[None]:
    """Turn what delta-rs and the file system raise into a wait for the lake."""
    try:
        yield
    except TROUBLES as error:
        raise Away(f"{path}: {error}", "lake") from error


def load(name: str, topic: str) -> Transform:
    """Import a user's transform, `module:function`."""
    module_name, _, function = name.partition(":")
    try:
        module = importlib.import_module(module_name)
        found = getattr(module, function)
    except (ImportError, AttributeError) as error:
        raise WrongSettings(
            f"topic.{topic}.transform: {name} cannot be imported: {error}; it should be "
            "module:function of a module in the current folder or on PYTHONPATH"
        ) from error
    # Spark's workers need not have the user's module.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # no types
    transform: Transform = found
    return transform


def _transformed(place: _Place, rows: DataFrame) -> DataFrame:
    if place.transform is None:
        return rows
    try:
        return place.transform(rows)
    except Exception as error:
        # It made no frame at all: this is no matter of records.
        raise GiveUp(
            f"{place.settings.transform} raises {type(error).__name__}: {first_line(error)}"
        ) from error


def _counts(form: formats.Format, settings: TopicSettings) -> list[Any]:
    counts = [
        F.count(F.lit(1)).alias("records"),
        F.count_if(F.col("_reason").isNotNull()).alias("rejected"),
        F.sum(
            F.coalesce(F.octet_length("value"), F.lit(0))
            + F.coalesce(F.octet_length("key"), F.lit(0))
        ).alias("bytes"),
    ]
    if form.kind == "json":
        unknown = F.col("_unknown")
        counts.append(F.sum(F.size(unknown)).alias("unknown"))
        if settings.evolve:
            counts.append(F.collect_set(F.when(F.size(unknown) > 0, unknown)).alias("names"))
    return counts


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
