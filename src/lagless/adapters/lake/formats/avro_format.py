"""Avro: values carry the id of the schema that they were written with, and a registry has it.

1. Each record is decoded with its writer's schema into the columns of the table (avro_columns). In
   one plan there is a branch for each id; all of them have the same type.
2. Spark makes a row of nulls of a record that it cannot decode, and passes over bytes that follow
   one. So a mark is put behind each record and read back as a field behind it: only a record that
   ends exactly there brings the mark back, and every other one is rejected.
3. The columns are kept with the table. They begin with the fields of the schemas that the first
   records have, and fields of later schemas join where the settings allow evolution.
4. A schema that no table can hold, or that does not fit the columns, rejects its records with the
   reason, and so does an id that the registry does not have. A registry that does not answer makes
   the records wait.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import formats, schemas
from lagless.adapters.lake.formats import avro_columns, avro_types, record_parts, registered
from lagless.adapters.lake.formats.avro_types import Type, Unusable
from lagless.adapters.lake.formats.record_parts import Part
from lagless.adapters.lake.formats.registered import Met
from lagless.adapters.lake.table import Table
from lagless.errors import GiveUp
from lagless.ports import Schema
from lagless.settings import TopicSettings

MARK = bytes.fromhex("6c61676c657373207c20656e64207c0a")
"""What stands behind each record. No end of it is its beginning."""
OPTIONS = {
    "mode": "PERMISSIVE",
    "datetimeRebaseMode": "CORRECTED",
    "enableStableIdentifiersForUnionType": "true",
}


@dataclass(frozen=True, slots=True)
class Writer:
    """How the records with one id are read, or why they are not."""

    number: int
    reason: str = ""
    """Why its records are rejected."""
    schema: str = ""
    """What they were written with, and the mark behind it."""
    reader: str = ""
    """What Avro resolves them into."""
    unknown: int = 0
    """Fields that the columns lack."""


@dataclass(frozen=True, slots=True)
class AvroFormat(formats.Format):
    """Records of these writers, for these columns."""

    columns_: Type = field(default_factory=lambda: avro_types.record("Row", {}))
    writers: tuple[Writer, ...] = ()
    met: Met | None = field(default=None, compare=False)
    part: Part = record_parts.VALUE

    has_headers = False

    def columns(self) -> pa.Schema:
        """Return none: fields join with the first records."""
        return pa.schema([])

    def of_keys(self) -> "AvroFormat":
        """Return the format for keys."""
        return replace(self, part=record_parts.KEY)

    def settle(
        self,
        spark: SparkSession,
        table: Table,
        settings: TopicSettings,
        records: Callable[[], DataFrame],
        met: Met,
    ) -> "AvroFormat":
        """Return the format for the schemas that were met so far."""
        usable: dict[int, Type] = {}
        reasons: dict[int, str] = {}
        for number, schema in met.schemas.items():
            try:
                kind = _usable(schema)
                usable[number] = avro_columns.keys(kind) if self.part.is_key else kind
            except Unusable as error:
                reasons[number] = str(error)
        columns = self._kept(table)
        while True:
            refused: dict[int, str] = {}
            grown = columns
            for number, writer in usable.items():
                if columns is None or settings.evolve:
                    try:
                        grown = self._grown(grown, writer)
                    except Unusable as error:
                        refused[number] = str(error)
            if grown is None or grown == columns:
                break
            before = None if columns is None else avro_types.text(columns)
            text = avro_types.text(grown)
            if schemas.store(table, text, before, self.part.kept) == text:
                columns = grown
                break
            columns = self._kept(table)
        columns = columns or AvroFormat().columns_
        writers = [
            Writer(number, reason) for number, reason in sorted({**reasons, **refused}.items())
        ]
        writers += [
            _writer(number, writer, columns)
            for number, writer in usable.items()
            if number not in refused
        ]
        return AvroFormat(columns, tuple(writers), met, self.part)

    def evolve(self, table: Table, judged: DataFrame, counts: Mapping[str, Any]) -> bool:
        """Ask for the schemas of ids that were not met yet, and return whether there are any.

        Ids that the registry did not have are asked for again, now and then.
        """
        new, missing = (
            list(map(bytes, counts.get(self.part.counted(name)) or ()))
            for name in ("new", "missing")
        )
        if self.met is None or not (new or missing):
            return False
        is_changed = self.met.meet([*new, *missing])
        # A form that lacks an id must not judge its records, whoever met it first.
        return bool(new) or is_changed

    def judge(self, source: DataFrame) -> DataFrame:
        """Add `_reason` and `_parsed`."""
        value, head = F.col(self.part.column), self._col("head")
        frame = source.withColumn(self.part.named("head"), registered.head_of(value))
        decoded: Column | None = None
        body = F.concat(registered.body_of(value), F.lit(MARK))
        for writer in self._readable():
            is_its = head == registered.head(writer.number)
            record = F.call_function(
                "from_avro", body, F.lit(writer.schema), _options(writer.reader)
            )
            decoded = F.when(is_its, record) if decoded is None else decoded.when(is_its, record)
        if decoded is not None:
            frame = frame.withColumn(self.part.named("parsed"), decoded)
        reason = F.when(value.isNull(), F.lit(None).cast("string")).when(
            ~registered.has_head(value), F.lit(f"no schema id before the {self.part.column}")
        )
        refused = {writer.number: writer.reason for writer in self.writers if writer.reason}
        reason = registered.refuse(reason, refused, value)
        reason = reason.when(~self._is_known(head), F.lit("schema not asked for yet"))
        if decoded is not None:
            end = self._col("parsed.end")
            ends = F.coalesce(end == F.lit(MARK), F.lit(False))
            sentence = F.concat(
                F.lit(f"no Avro {self.part.column} that fits schema "), registered.id_of(value)
            )
            reason = reason.when(~ends, sentence)
        return frame.withColumn("_reason", reason)

    def fields(self) -> list[Column | str]:
        """Return the fields of the records."""
        if not (self._readable() and self.columns_.fields):
            return []
        if self.part.is_key:
            return [self._col(f"parsed.v.{avro_columns.KEY}").alias(avro_columns.KEY)]
        return ["_parsed.v.*"]

    def numbers(self) -> Mapping[str, Column]:
        """Return how many unknown fields a record has."""
        strange = F.lit(0)
        for writer in self._readable():
            if writer.unknown:
                is_its = self._col("head") == registered.head(writer.number)
                strange = strange + F.when(is_its, F.lit(writer.unknown)).otherwise(F.lit(0))
        head = self._col("head")
        is_new = registered.has_head(F.col(self.part.column)) & ~self._is_known(head)
        missing = (writer.number for writer in self.writers if writer.reason == registered.MISSING)
        return {
            self.part.named("strange"): strange,
            self.part.named("new"): F.when(is_new, head),
            self.part.named("missing"): F.when(registered.either(missing, head), head),
        }

    def counts(self, evolve: bool) -> list[Column]:
        """Count unknown fields, and collect the headers with ids that were not met yet."""
        named, counted = self.part.named, self.part.counted
        return [
            F.sum(named("strange")).alias(counted("unknown")),
            F.collect_set(named("new")).alias(counted("new")),
            F.collect_set(named("missing")).alias(counted("missing")),
        ]

    def _col(self, name: str) -> Column:
        return F.col(self.part.named(name))

    def _grown(self, columns: Type | None, writer: Type) -> Type:
        if self.part.is_key:
            return avro_columns.grown_key(columns, writer)
        return avro_columns.grown(columns, writer, schemas.RESERVED)

    def _kept(self, table: Table) -> Type | None:
        """Return the columns that the table keeps."""
        kept = schemas.stored(table, self.part.kept)
        if kept is None:
            return None
        try:
            return avro_types.parse(kept)
        except Unusable as error:
            topic = table.topic.name
            raise GiveUp(
                f"topic {topic}: the table keeps a schema of another format: set the "
                f"{self.part.prefix}format that the table was created with, or name another table "
                f"in [topic.{topic}]"
            ) from error

    def _readable(self) -> list[Writer]:
        return [writer for writer in self.writers if not writer.reason]

    def _is_known(self, head: Column) -> Column:
        return registered.either((writer.number for writer in self.writers), head)


def _options(reader: str) -> Column:
    words = {**OPTIONS, "avroSchema": reader}
    return F.create_map(*(F.lit(word) for pair in words.items() for word in pair))


def _usable(schema: Schema | None) -> Type:
    if schema is None:
        raise Unusable(registered.MISSING)
    if schema.kind != "AVRO":
        raise Unusable(f"is a schema for {schema.kind}, and this topic's format is avro")
    return avro_types.parse(schema.text, schema.references)


def _writer(number: int, kind: Type, columns: Type) -> Writer:
    """Return how records of a writer are read into the columns."""
    try:
        reader = avro_columns.reader(kind, columns)
    except Unusable as error:
        return Writer(number, str(error))
    unknown = avro_columns.unknown(avro_columns.rows(kind), columns)
    # Records without a column are read too: whether they are whole still has to be seen.
    reads = marked(reader if columns.fields else None)
    return Writer(number, "", marked(avro_columns.rows(kind)), reads, unknown)


def marked(kind: Type | None) -> str:
    """Return the schema of a record, if one is wanted, with the mark behind it."""
    fields: list[dict[str, Any]] = []
    if kind is not None:
        fields.append({"name": "v", "type": avro_types.written(kind, "lagless")})
    mark = {"type": "fixed", "name": "Mark", "size": len(MARK)}
    fields.append({"name": "end", "type": mark})
    return json.dumps({"type": "record", "name": "Marked", "fields": fields})


FORMAT = AvroFormat()
