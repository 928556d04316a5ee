"""Retry: read rejects again after a fix, each exactly once.

Rejects and rows are in two tables, which no commit can change together. So the main table decides:
from the commit on that adds the rows, these rejects are to be deleted (`retry_plans`).

Only rejects behind the table's position are read again: those in front of it belong to a cycle that
has not landed yet, and will be read from Kafka. The commit touches the number of each partition's
last reset, so it is refused if a reset moved the position in between.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import (
    delta,
    formats,
    ingestion,
    queries,
    resets,
    retry_plans,
    schemas,
    transforms,
)
from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.formats import Format
from lagless.adapters.lake.ingestion import Pipeline
from lagless.adapters.lake.retry_plans import Place
from lagless.adapters.lake.session_holder import first_line
from lagless.adapters.lake.store import Store
from lagless.adapters.lake.table import Table
from lagless.errors import TryAgain
from lagless.model import TopicPartition

PORTION = 2000
"""Rejects that are read, and land, together."""
PORTION_BYTES = 20_000_000
SOURCE = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


@dataclass(slots=True)
class Retried:
    """The outcome of a retry."""

    read: int = 0
    """Rejects that were read again."""
    landed: int = 0
    """Of these, those that are no longer rejects."""
    rows: int = 0
    """Rows that the table has from them; a transform may make more or fewer than one of each."""
    already: int = 0
    """Rejects whose rows were in the table already: they were only deleted."""
    still: dict[str, int] = field(default_factory=dict)
    """Why the others are rejected."""


@dataclass(slots=True)
class Retry:
    """The retry of a topic's rejects, one portion after the other."""

    pipeline: Pipeline
    spark: SparkSession
    draw: Callable[[], int]
    """Returns a fresh random number that is not 0."""
    between: Callable[[str], None] = lambda step: None
    """Called at each step, for tests."""
    told: Retried = field(default_factory=Retried)

    def run(self) -> Retried:
        """Read every reject of the topic again, and return the outcome."""
        table, rejected = self.pipeline.table, self.pipeline.rejected.table
        if not (table.handle.exists() and rejected.handle.exists()):
            return self.told
        table.handle.update()
        retry_plans.complete(table, rejected)
        places = sorted(_places(_rejects(rejected, ["_partition", "_offset"])))
        if places:
            resets.check_alone(
                table,
                [TopicPartition(table.topic.name, number) for number in {p for p, _ in places}],
                "rejects that have landed cannot be told from those that have not",
            )
        for portion in _portions(places):
            self._portion(portion)
        return self.told

    def _portion(self, places: Sequence[Place]) -> None:
        """Read some rejects of one partition again, or each half of them."""
        try:
            while not self._land(places):
                pass  # new fields have become columns
        except _Halve:
            middle = len(places) // 2
            self._portion(places[:middle])
            self._portion(places[middle:])

    def _land(self, places: Sequence[Place]) -> bool:
        """Judge rejects again and commit the good ones; return False to be called once more."""
        table, rejected = self.pipeline.table, self.pipeline.rejected.table
        partitions = [TopicPartition(table.topic.name, places[0][0])]
        (position,) = table.look(partitions).values()
        entries = dict(table.handle.entries())
        # In this order: what other retries landed before the look is deleted before it is read.
        retry_plans.complete(table, rejected)
        rejects = _rejects(rejected, schemas.REJECTED.names, places)
        rejects = rejects.filter(pc.less(rejects["_offset"], position.offset))
        if len(places) > 1 and rejects.nbytes > PORTION_BYTES:
            raise _Halve
        if not rejects.num_rows:
            return True
        present = _present(table, rejects)
        source = self._source(rejects.filter(_among(rejects, present, wanted=False)))
        form = self._format(source)
        judged = formats.judge(source, form, self.pipeline.settings)
        reasons: dict[Place, str | None] = {
            (row["partition"], row["offset"]): row["_reason"]
            for row in judged.select("partition", "offset", "_reason").collect()
        }
        good = {place for place, reason in reasons.items() if reason is None}
        try:
            files, counts = ingestion.written(self.pipeline, form, judged, len(good))
        except PySparkException as error:
            self._blame(form, judged, error, reasons)
            return True
        try:
            if form.evolve(table, judged, counts):
                self.pipeline.form = None
                table.handle.discard(files)
                return False
            for file in files:
                schemas.fit(table, file.schema, self.pipeline.settings)
            if good or present:
                mark = self.draw()
                retry_plans.write(rejected, mark, good | present)
                self.between("planned")
                touched = {table.offset_id(p) + resets.RESET for p in partitions}
                ids = {name: entries.get(name, 0) for name in touched} | {
                    retry_plans.retry_id(table): mark
                }
                _commit(table, files, ids, entries)
        except BaseException:
            table.handle.discard(files)
            raise
        if good or present:
            self.between("landed")
            retry_plans.complete(table, rejected)
        self.told.read += len(reasons) + len(present)
        self.told.landed += len(good)
        self.told.already += len(present)
        self.told.rows += sum(file.rows for file in files)
        for reason in reasons.values():
            if reason is not None:
                self._keep(reason)
        return True

    def _source(self, rows: pa.Table) -> DataFrame:
        """Return rejects as Kafka's source would return their records; headers were not kept."""
        names = ["_partition", "_offset", "_timestamp", "_key", "_value"]
        source = rows.select(names).rename_columns(SOURCE.names).cast(SOURCE)
        headers = F.lit(None).cast("array<struct<key: string, value: binary>>")
        return self.spark.createDataFrame(source).withColumn("headers", headers)

    def _format(self, source: DataFrame) -> Format:
        pipeline = self.pipeline
        if pipeline.form is not None:
            return pipeline.form
        form = formats.of(pipeline.settings)
        settled = form.settle(
            self.spark, pipeline.table, pipeline.settings, lambda: source, pipeline.met
        )
        pipeline.form = settled if settled.is_settled else None
        return settled

    def _blame(
        self,
        form: Format,
        judged: DataFrame,
        error: PySparkException,
        reasons: Mapping[Place, str | None],
    ) -> None:
        """Leave a record on which the transform still raises; find it by halves."""
        transform, name = self.pipeline.transform, self.pipeline.settings.transform
        if transform is None or isinstance(error, AnalysisException):
            raise error
        raised = transforms.blame(
            transform, name, formats.good(judged, form, self.pipeline.settings)
        )
        if raised is None:
            raise TryAgain(f"topic {self.pipeline.table.topic.name}: {first_line(error)}")
        if len(reasons) > 1:
            raise _Halve from error
        self.told.read += len(reasons)
        for reason in reasons.values():
            self._keep(reason or f"transform: {first_line(raised)}")

    def _keep(self, reason: str) -> None:
        self.told.still[reason] = self.told.still.get(reason, 0) + 1


class _Halve(Exception):
    """Half of a portion may succeed."""


def _commit(
    table: Table, files: Sequence[File], ids: Mapping[str, int], seen: Mapping[str, int]
) -> None:
    """Add rows and ids, unless another retry or a reset came between."""
    mark = retry_plans.retry_id(table)
    for attempt in delta.attempts(f"{table}: the rejects were not accepted, nothing has changed"):
        # Columns may have been added since the look: is all the rest as it was?
        now = table.handle.entries()
        if any(now.get(name, 0) != seen.get(name, 0) for name in ids):
            raise TryAgain(
                f"{table}: a reset or another retry came between, and nothing has changed; "
                "run the command again"
            )
        with attempt:
            table.handle.write(files, ids)
            return
        # The commit may have landed all the same.
        table.handle.update()
        if table.handle.entries().get(mark, 0) == ids[mark]:
            return


def _rejects(
    rejected: Table, columns: Sequence[str], places: Sequence[Place] | None = None
) -> pa.Table:
    """Return the topic's rejects, or those at some places of one partition."""
    opened = rejected.handle.update()
    if schemas.TOPIC_ID.name not in {column.name for column in opened.schema().fields}:
        return schemas.REJECTED.empty_table().select(list(columns))
    where = f"{schemas.TOPIC_ID.name} = {queries.text(rejected.topic.id)}"
    if places is not None:
        where += f" AND {_at(places)}"
    return queries.read(opened, columns, where)


def _at(places: Sequence[Place]) -> str:
    """Return the condition of some places of one partition; the range lets files be skipped."""
    (partition,) = {number for number, _ in places}
    offsets = [offset for _, offset in places]
    return (
        f"_partition = {partition} AND _offset >= {min(offsets)} AND _offset <= {max(offsets)} "
        f"AND _offset IN ({', '.join(map(str, offsets))})"
    )


def _present(table: Table, rejects: pa.Table) -> set[Place]:
    """Return the rejects that are rows of the table: their cycle was repeated after the fix."""
    # At the version that the commit will be made on.
    opened = table.handle.open()
    return set(_places(queries.read(opened, ["_partition", "_offset"], _at(_places(rejects)))))


def _places(rejects: pa.Table) -> list[Place]:
    columns = (rejects[name].to_pylist() for name in ("_partition", "_offset"))
    return list(zip(*columns, strict=True))


def _among(rejects: pa.Table, places: Collection[Place], wanted: bool) -> pa.Array:
    return pa.array([(place in places) is wanted for place in _places(rejects)], pa.bool_())


def _portions(places: Sequence[Place]) -> Iterator[Sequence[Place]]:
    """Yield sorted places in portions of one partition each."""
    portion: list[Place] = []
    for place in places:
        if portion and (portion[0][0] != place[0] or len(portion) >= PORTION):
            yield portion
            portion = []
        portion.append(place)
    if portion:
        yield portion


def reasons(rejected: Store) -> Counter[str]:
    """Count a table's rejects by reason."""
    return Counter(queries.read(rejected.table(), ["_reason"])["_reason"].to_pylist())


def records(rejected: Store, reason: str | None, limit: int) -> list[dict[str, object]]:
    """Return the first rejects of a table, or of those whose reason contains a text."""
    where = "" if reason is None else f"strpos(_reason, {queries.text(reason)}) > 0"
    found = queries.read(rejected.table(), where=where, limit=limit).to_pylist()
    return sorted(found, key=lambda row: (row["_partition"], row["_offset"]))
