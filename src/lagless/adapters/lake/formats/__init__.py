"""Formats: how a topic's records become rows of its table, one file per format.

A format named N in the settings is the object FORMAT in the file `N_format`: to add one, write that
file and add its name to the settings. Nothing outside this package compares names of formats.

A cycle asks a format two things. `judge` adds to each record of Kafka what was parsed and
`_reason`, which is null for good records; `fields` names the columns of its own that rows have.
`good` takes the good records as rows of the table, and `rejects` the others as rows of the table of
rejects. A null value, a tombstone, is a good record: a row of nulls. A format with fields also
settles its schema before the first record (`settle`), and again when records have new fields
(`evolve`). `of` adds a format for the keys where they have fields too.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import schemas
from lagless.adapters.lake.formats.registered import Met
from lagless.adapters.lake.table import Table
from lagless.settings import TopicSettings


class Format:
    """How the values of a topic are read; equal formats read them alike."""

    has_headers = True
    """Whether headers are kept, unless the settings say so."""
    kind = pa.binary()
    """The type of the column `value`, in formats without fields."""

    @property
    def is_settled(self) -> bool:
        """Return whether the schema is known; until then, each cycle settles it again."""
        return True

    def columns(self) -> pa.Schema:
        """Return the columns of its own that a table has before the first record."""
        return pa.schema([pa.field("value", self.kind)])

    def settle(
        self,
        spark: SparkSession,
        table: Table,
        settings: TopicSettings,
        records: Callable[[], DataFrame],
        met: Met,
    ) -> "Format":
        """Return the format with its schema, if there was a record yet to infer it from.

        `met` knows the ids of schemas that the topic's records have had so far.
        """
        return self

    def judge(self, source: DataFrame) -> DataFrame:
        """Add `_reason` and the columns that were parsed."""
        raise NotImplementedError

    def fields(self) -> list[Column | str]:
        """Return the columns of its own that a good record has."""
        return ["value"]

    def key(self) -> "list[Column | str] | None":
        """Return the column of the key; None for Kafka's bytes, as they are or as text."""
        return None

    def of_keys(self) -> "Format":
        """Return the same format for a record's key instead of its value."""
        raise NotImplementedError

    def numbers(self) -> Mapping[str, Column]:
        """Return more columns of numbers that `counts` needs."""
        return {}

    def counts(self, evolve: bool) -> list[Column]:
        """Return what else is counted while records are read: "unknown" are unknown fields."""
        return []

    def evolve(self, table: Table, judged: DataFrame, counts: Mapping[str, Any]) -> bool:
        """Settle the schema again if records have new fields, and return whether it changed."""
        return False


def named(name: str) -> Format:
    """Return a format by its name in the settings, before its schema is settled."""
    form: Format = importlib.import_module(f"{__name__}.{name}_format").FORMAT
    return form


def of(settings: TopicSettings) -> Format:
    """Return the format of a topic, before its schema is settled."""
    values = named(settings.format)
    if not settings.has_key_fields:
        return values
    from lagless.adapters.lake.formats.keyed import KeyedFormat

    return KeyedFormat(values, named(settings.key_format).of_keys())


def keeps_headers(form: Format, settings: TopicSettings) -> bool:
    """Return whether rows of the topic have the records' headers."""
    return form.has_headers if settings.headers is None else settings.headers


def columns(form: Format, settings: TopicSettings) -> pa.Schema:
    """Return the columns that a table has before the first record."""
    key = [pa.field(schemas.KEY.name, pa.string()) if settings.has_text_keys else schemas.KEY]
    if settings.has_key_fields:
        key = []
    headers = [schemas.HEADERS] if keeps_headers(form, settings) else []
    return pa.schema([*schemas.ALWAYS, *key, *form.columns(), *headers])


def judge(source: DataFrame, form: Format, settings: TopicSettings) -> DataFrame:
    """Let the format judge the records, and then reject those whose key does not fit."""
    judged = form.judge(source)
    if not settings.has_text_keys:
        return judged
    invalid = F.col("key").isNotNull() & ~F.is_valid_utf8(F.col("key").cast("string"))
    reason = F.when(invalid, F.lit("the key is not UTF-8"))
    return judged.withColumn("_reason", F.coalesce(F.col("_reason"), reason))


def good(judged: DataFrame, form: Format, settings: TopicSettings) -> DataFrame:
    """Return the good records as rows of the table."""
    plain = F.col("key").cast("string") if settings.has_text_keys else F.col("key")
    fields = form.key()
    key = [plain.alias(schemas.KEY.name)] if fields is None else fields
    headers = [F.col("headers").alias("_headers")] if keeps_headers(form, settings) else []
    chosen = [*_always(), *key, *form.fields(), *headers]
    return judged.where(F.col("_reason").isNull()).select(*chosen)


def rejects(judged: DataFrame, topic_id: str) -> DataFrame:
    """Return the records that have a reason, as rows of the table of rejects."""
    return judged.where(F.col("_reason").isNotNull()).select(
        *_always(),
        F.col("key").alias("_key"),
        F.col("value").alias("_value"),
        "_reason",
        F.lit(topic_id).alias(schemas.TOPIC_ID.name),
    )


def _always() -> list[Column]:
    return [
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    ]
