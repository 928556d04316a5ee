"""From Kafka's records to rows: raw, text and JSON, with the reason of each record that is none.

`judge` adds `_reason`, which is null for good records, and what it parsed; `rows` and `rejects`
take the one or the other. A null value, a tombstone, is a good record: a row of nulls.

JSON is strict where Spark is not: an empty value, anything but an object, text after the object, a
field that does not fit its type, bytes that are no UTF-8, NaN and single quotes are rejects. A
number or an object in a field of type STRING is kept as its JSON text; an integer fits a DOUBLE; a
DECIMAL is rounded to its scale, as Spark does.
"""

from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)
from pyspark.sql.types import DoubleType, FloatType, StructType

from lagless.adapters.lake import columns
from lagless.errors import WrongSettings
from lagless.settings import TopicSettings

STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


@dataclass(frozen=True, slots=True)
class Format:
    """How the values of a topic are read."""

    kind: str
    ddl: str = ""
    """The fields of JSON objects."""
    fields: StructType = field(default_factory=StructType)

    @property
    def has_headers(self) -> bool:
        """Say whether headers are kept: JSON tables have fields instead."""
        return self.kind != "json"


def first_columns(topic: TopicSettings) -> pa.Schema:
    """Give the columns that a table of this format has before the first record."""
    if topic.transform is not None:
        return columns.ALWAYS
    if topic.format == "json":
        return pa.schema([*columns.ALWAYS, columns.KEY])
    value = pa.field("value", pa.string() if topic.format == "text" else pa.binary())
    return pa.schema([*columns.ALWAYS, columns.KEY, value, columns.HEADERS])


def json_format(ddl: str, fields: StructType, topic: str) -> Format:
    """Give the format of JSON objects with these fields."""
    own = {*columns.REJECTED.names, columns.HEADERS.name}
    taken = sorted(own & {one.name.lower() for one in fields.fields})
    if taken:
        raise WrongSettings(
            f"topic.{topic}.schema: {', '.join(taken)} is a name of lagless's own; rename the field"
        )
    return Format("json", ddl, fields)


def judge(source: DataFrame, form: Format) -> DataFrame:
    """Add `_reason`, the columns that were parsed, and `_unknown`, the names of unknown fields."""
    text = F.col("value").cast("string")
    valid = F.is_valid_utf8(text)
    if form.kind == "raw":
        return source.withColumn("_reason", F.lit(None).cast("string"))
    if form.kind == "text":
        reason = F.when(F.col("value").isNotNull() & ~valid, F.lit("not UTF-8"))
        return source.withColumn("_reason", reason).withColumn("_text", text)
    # Inside an outer object, what follows the inner one is an error and not passed over.
    wrapped = F.concat(F.lit('{"v":'), text, F.lit("}"))
    parsed = F.from_json(wrapped, f"v STRUCT<{form.ddl}>, _corrupt STRING", STRICT)
    frame = source.withColumns({"_parsed": parsed, "_keys": F.json_object_keys(text)})
    fits = F.col("_parsed._corrupt").isNull() & ~_overflown(form.fields)
    reason = (
        F.when(F.col("value").isNull(), F.lit(None))
        .when(F.octet_length("value") == 0, F.lit("empty"))
        .when(~valid, F.lit("not UTF-8"))
        .when(F.col("_parsed._corrupt").isNull() & F.col("_parsed.v").isNull(), F.lit("no object"))
        .when(~fits, F.lit("no JSON object that fits the schema"))
    )
    # Few columns at a time would be easier to read, but Spark resolves a plan at each of them.
    return frame.withColumns({"_reason": reason, "_unknown": _unknown(form.fields)})


def _unknown(fields: StructType) -> Column:
    """Give the keys that are no fields; to see that they are just the fields is much cheaper."""
    keys, none = F.col("_keys"), F.array().cast("array<string>")
    names = F.array(*map(F.lit, fields.names)).cast("array<string>")
    return F.when(keys == names, none).otherwise(F.array_except(keys, names))


def _overflown(fields: StructType) -> Column:
    """Say whether a number is beyond its type: Spark makes it infinite."""
    worst = F.lit(False)
    for one in fields.fields:
        if isinstance(one.dataType, DoubleType | FloatType):
            number = F.col("_parsed.v")[one.name]
            infinite = F.abs(number) == F.lit(float("inf"))
            worst = worst | F.coalesce(infinite, F.lit(False))
    return worst


def rows(judged: DataFrame, form: Format) -> DataFrame:
    """Take the good records, as rows of the table."""
    good = judged.where(F.col("_reason").isNull())
    if form.kind == "json":
        return good.select(*_always(), F.col("key").alias("_key"), "_parsed.v.*")
    value = F.col("_text" if form.kind == "text" else "value").alias("value")
    headers = F.col("headers").alias("_headers")
    return good.select(*_always(), F.col("key").alias("_key"), value, headers)


def rejects(judged: DataFrame, topic_id: str) -> DataFrame:
    """Take the records that are none, as rows of the table of rejects."""
    return judged.where(F.col("_reason").isNotNull()).select(
        *_always(),
        F.col("key").alias("_key"),
        F.col("value").alias("_value"),
        "_reason",
        F.lit(topic_id).alias("_topic_id"),
    )


def _always() -> list[Column]:
    return [
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    ]
