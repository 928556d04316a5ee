"""JSON: values are objects, and their fields are columns.

Strict where Spark is not: an empty value, anything but an object, text after the object, a field
that does not fit its type, bytes that are not UTF-8, NaN and single quotes are rejected. A number
or an object in a field of type STRING is kept as its JSON text; an integer fits a DOUBLE; a DECIMAL
is rounded to its scale, as Spark does.

The schema is the one in the settings, or inferred from the first records and kept with the table.
Unknown fields are counted; where the settings allow evolution they are added to the kept schema.

With a registry, values may begin with the id of a JSON Schema (`registered`). Such a schema decides
the types of new columns instead of inference, and a record that lacks a field which its schema
requires is rejected, as is one whose id is unknown. Values without an id are read as ever.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)
from pyspark.sql.types import DoubleType, FloatType, StructType

from lagless.adapters.lake import formats, schemas
from lagless.adapters.lake.formats import json_schema, record_parts, registered
from lagless.adapters.lake.formats.avro_types import Unusable
from lagless.adapters.lake.formats.record_parts import Part
from lagless.adapters.lake.formats.registered import Met
from lagless.adapters.lake.table import Table
from lagless.errors import WrongSettings
from lagless.ports import Schema
from lagless.settings import TopicSettings

STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
SAMPLE = 200
"""Records that a schema is inferred from."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The registry's answer for the records with one id."""

    number: int
    reason: str = ""
    """Why they are rejected."""
    required: tuple[str, ...] = ()
    """The fields that each of them has."""


@dataclass(frozen=True, slots=True)
class JsonFormat(formats.Format):
    """Objects with these fields."""

    ddl: str = ""
    kinds: StructType = field(default_factory=StructType)
    writers: tuple[Writer, ...] = ()
    met: Met | None = field(default=None, compare=False)
    """Where ids of schemas can be asked for, if there is a registry."""
    part: Part = record_parts.VALUE

    has_headers = False

    @property
    def is_settled(self) -> bool:
        """Return whether there was a record to infer the schema from.

        There may never be a key. Their fields, all unknown at first, are noticed as new ones are.
        """
        return bool(self.ddl) or self.part.is_key

    def columns(self) -> pa.Schema:
        """Return none: fields join with the first records."""
        return pa.schema([])

    def of_keys(self) -> "JsonFormat":
        """Return the format for keys."""
        return replace(self, part=record_parts.KEY)

    def settle(
        self,
        spark: SparkSession,
        table: Table,
        settings: TopicSettings,
        records: Callable[[], DataFrame],
        met: Met,
    ) -> "JsonFormat":
        """Return the format with the schema that is set, kept or inferred, in this order."""
        kept = schemas.stored(table, self.part.kept)
        ddl = self.part.schema_of(settings)
        if ddl is not None and kept is not None and settings.evolve:
            ddl = _joined(spark, ddl, kept)
        elif ddl is None:
            ddl = kept
        if ddl is None:
            values = self._sample(records())
            if met.can_ask:
                met.meet({it[: registered.HEADER] for it in values if it and _has_head(it)})
            declared = self._declared(met)
            inferred = schemas.ddl(declared) if declared else _inferred(values)
            ddl = schemas.store(table, inferred, None, self.part.kept) if inferred else ""
        settled = with_fields(spark, ddl, table.topic.name, self.part) if ddl else self
        if not met.can_ask:
            return settled
        writers = tuple(_writer(number, schema) for number, schema in met.schemas.items())
        return replace(settled, writers=writers, met=met)

    def evolve(self, table: Table, judged: DataFrame, counts: Mapping[str, Any]) -> bool:
        """Ask for ids that were not met, and add unknown fields that have a value to the schema."""
        if self.met is not None:
            new, missing = (
                list(map(bytes, counts.get(self.part.counted(name)) or ()))
                for name in ("new", "missing")
            )
            if (new or missing) and (self.met.meet([*new, *missing]) or new):
                return True
        known = {column.name.lower() for column in self.kinds.fields}
        known |= self._reserved()
        unknown: Iterable[Iterable[str]] = counts.get(self.part.counted("names")) or ()
        names = {name for some in unknown for name in some if name.lower() not in known}
        if not names:
            return False
        declared = self._declared(self.met) if self.met else {}
        known_types = {name: kind for name, kind in declared.items() if name in names}
        wanted = F.array(*[F.lit(name) for name in sorted(names)])
        sample = self._sample(judged.where(F.arrays_overlap(self.part.named("unknown"), wanted)))
        left = names - known_types.keys()
        parts = [schemas.ddl(known_types), _inferred(sample, left) if left else ""]
        more = ", ".join(filter(None, parts))
        if not more:
            return False
        before = schemas.stored(table, self.part.kept)
        whole = f"{self.ddl}, {more}" if self.ddl else more
        schemas.store(table, whole, before, self.part.kept)
        return True

    def judge(self, source: DataFrame) -> DataFrame:
        """Add `_reason`, `_parsed`, and `_unknown`, the names of unknown fields."""
        text = self._body().cast("string")
        # Inside an outer object, what follows the inner one is an error and not passed over.
        wrapped = F.concat(F.lit('{"v":'), text, F.lit("}"))
        parsed = F.from_json(wrapped, f"v STRUCT<{self.ddl}>, _corrupt STRING", STRICT)
        named, value = self.part.named, F.col(self.part.column)
        frame = source.withColumns(
            {named("parsed"): parsed, named("keys"): F.json_object_keys(text)}
        )
        intact = self._col("parsed._corrupt").isNull()
        reason = F.when(value.isNull(), F.lit(None)).when(
            F.octet_length(value) == 0, F.lit("empty")
        )
        refused = {writer.number: writer.reason for writer in self.writers if writer.reason}
        reason = registered.refuse(reason, refused, value)
        if self.met is not None:
            strange = self._has_head() & ~self._is_met()
            reason = reason.when(strange, F.lit("schema not asked for yet"))
        reason = (
            reason.when(~F.is_valid_utf8(text), F.lit("not UTF-8"))
            .when(intact & self._col("parsed.v").isNull(), F.lit("no object"))
            .when(~(intact & ~self._overflown()), F.lit("no JSON object that fits the schema"))
        )
        for writer in self.writers:
            if writer.required:
                lacks = F.array_except(F.array(*map(F.lit, writer.required)), self._col("keys"))
                sentence = F.concat(
                    F.lit(f"schema {writer.number} requires the field "), F.element_at(lacks, 1)
                )
                is_short = self._is_of(writer.number) & (F.size(lacks) > 0)
                reason = reason.when(is_short, sentence)
        # Few columns at a time would be easier to read, but Spark resolves a plan at each of them.
        return frame.withColumns({"_reason": reason, named("unknown"): self._unknown()})

    def fields(self) -> list[Column | str]:
        """Return the fields of the objects."""
        if self.part.is_key:
            return [self._col("parsed.v").alias(schemas.KEY.name)] if self.ddl else []
        return ["_parsed.v.*"]

    def numbers(self) -> Mapping[str, Column]:
        """Return how many unknown fields a record has, and headers to ask the registry about."""
        named = self.part.named
        numbers = {named("strange"): F.size(named("unknown"))}
        if self.met is None:
            return numbers
        head = registered.head_of(F.col(self.part.column))
        missing = [writer.number for writer in self.writers if writer.reason == registered.MISSING]
        return {
            **numbers,
            named("new"): F.when(self._has_head() & ~self._is_met(), head),
            named("missing"): F.when(registered.either(missing, head), head),
        }

    def counts(self, evolve: bool) -> list[Column]:
        """Count unknown fields, and collect their names where they may become columns."""
        named, counted = self.part.named, self.part.counted
        counts = [F.sum(named("strange")).alias(counted("unknown"))]
        if evolve or (self.part.is_key and not self.ddl):
            unknown = self._col("unknown")
            names = F.collect_set(F.when(F.size(unknown) > 0, unknown))
            counts.append(names.alias(counted("names")))
        if self.met is not None:
            sets = ((F.collect_set(named(name)), name) for name in ("new", "missing"))
            counts += [found.alias(counted(name)) for found, name in sets]
        return counts

    def _col(self, name: str) -> Column:
        return F.col(self.part.named(name))

    def _reserved(self) -> set[str]:
        return set() if self.part.is_key else {name.lower() for name in schemas.RESERVED}

    def _sample(self, records: DataFrame) -> list[bytes | None]:
        return [row[0] for row in records.select(self.part.column).limit(SAMPLE).collect()]

    def _declared(self, met: Met) -> dict[str, schemas.Kind]:
        """Return the fields of all schemas that were met; the first one decides on a type."""
        fields: dict[str, schemas.Kind] = {}
        for schema in met.schemas.values():
            try:
                for name, kind in _usable(schema).fields.items():
                    if name.lower() not in self._reserved():
                        fields.setdefault(name, kind)
            except Unusable:
                continue
        return fields

    def _body(self) -> Column:
        """Return the value without its header; only with a registry can it have one."""
        value = F.col(self.part.column)
        if self.met is None:
            return value
        return F.when(self._has_head(), registered.body_of(value)).otherwise(value)

    def _has_head(self) -> Column:
        return registered.has_head(F.col(self.part.column))

    def _is_of(self, number: int) -> Column:
        return registered.head_of(F.col(self.part.column)) == registered.head(number)

    def _is_met(self) -> Column:
        numbers = (writer.number for writer in self.writers)
        return registered.either(numbers, registered.head_of(F.col(self.part.column)))

    def _unknown(self) -> Column:
        """Return the keys that are not fields; comparing with just the fields is much cheaper."""
        keys, none = self._col("keys"), F.array().cast("array<string>")
        names = F.array(*map(F.lit, self.kinds.names)).cast("array<string>")
        return F.when(keys == names, none).otherwise(F.array_except(keys, names))

    def _overflown(self) -> Column:
        """Return whether a number is beyond its type: Spark makes it infinite."""
        worst = F.lit(False)
        for column in self.kinds.fields:
            if isinstance(column.dataType, DoubleType | FloatType):
                number = self._col("parsed.v")[column.name]
                infinite = F.abs(number) == F.lit(float("inf"))
                worst = worst | F.coalesce(infinite, F.lit(False))
        return worst


def with_fields(
    spark: SparkSession, ddl: str, topic: str, part: Part = record_parts.VALUE
) -> JsonFormat:
    """Return the format of JSON objects with these fields."""
    fields = spark.createDataFrame([], ddl).schema
    if part.is_key:
        return JsonFormat(ddl, fields, part=part)
    taken = sorted(schemas.RESERVED & {column.name.lower() for column in fields.fields})
    if taken:
        raise WrongSettings(
            f"topic.{topic}.schema: {', '.join(taken)} is a name that lagless uses itself; "
            "rename the field"
        )
    return JsonFormat(ddl, fields)


def _has_head(value: bytes) -> bool:
    return len(value) >= registered.HEADER and value.startswith(registered.MAGIC)


def _inferred(values: Iterable[bytes | None], only: Iterable[str] | None = None) -> str:
    bodies = [it[registered.HEADER :] if it and _has_head(it) else it for it in values]
    return schemas.infer(schemas.objects(bodies), only)


def _usable(schema: Schema | None) -> json_schema.Objects:
    if schema is None:
        raise Unusable(registered.MISSING)
    if schema.kind != "JSON":
        raise Unusable(f"is a schema for {schema.kind}, and this topic's format is json")
    return json_schema.parse(schema.text)


def _writer(number: int, schema: Schema | None) -> Writer:
    try:
        return Writer(number, required=_usable(schema).required)
    except Unusable as error:
        return Writer(number, str(error))


def _joined(spark: SparkSession, ddl: str, kept: str) -> str:
    """Return the fields that are set, and those that joined the kept ones since."""
    names = {column.name.lower() for column in spark.createDataFrame([], ddl).schema.fields}
    more = [
        f"`{column.name}` {column.dataType.simpleString()}"
        for column in spark.createDataFrame([], kept).schema.fields
        if column.name.lower() not in names
    ]
    return ", ".join([ddl, *more])


FORMAT = JsonFormat()
