"""Keys with fields: a topic's format together with another one that reads the keys.

The key is the column `_key`: a struct with the fields of its records, or whatever else its schema
describes. A record whose key cannot be read is rejected, with what is wrong with its value first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import formats
from lagless.adapters.lake.formats import Format, record_parts
from lagless.adapters.lake.formats.registered import Met
from lagless.adapters.lake.table import Table
from lagless.settings import TopicSettings

_REASON = record_parts.KEY.named("reason")


@dataclass(frozen=True, slots=True)
class KeyedFormat(formats.Format):
    """How values are read, and how keys are."""

    values: Format
    keys: Format

    @property
    def has_headers(self) -> bool:  # type: ignore[override]  # of the values' format
        """Return what the format of the values says."""
        return self.values.has_headers

    @property
    def is_settled(self) -> bool:
        """Return whether both schemas are known."""
        return self.values.is_settled and self.keys.is_settled

    def columns(self) -> pa.Schema:
        """Return those of the values: the key joins with the first records."""
        return self.values.columns()

    def settle(
        self,
        spark: SparkSession,
        table: Table,
        settings: TopicSettings,
        records: Callable[[], DataFrame],
        met: Met,
    ) -> "KeyedFormat":
        """Return both formats with their schemas."""
        return KeyedFormat(
            self.values.settle(spark, table, settings, records, met),
            self.keys.settle(spark, table, settings, records, met.of_keys),
        )

    def judge(self, source: DataFrame) -> DataFrame:
        """Judge keys and values, and reject a record if one of them is wrong."""
        judged = self.values.judge(self.keys.judge(source).withColumnRenamed("_reason", _REASON))
        wrong = F.concat(F.lit("key: "), F.col(_REASON))
        return judged.withColumn("_reason", F.coalesce(F.col("_reason"), wrong))

    def fields(self) -> list[Column | str]:
        """Return the fields of the values."""
        return self.values.fields()

    def key(self) -> list[Column | str]:
        """Return the column of the key, if there was one yet."""
        return self.keys.fields()

    def numbers(self) -> Mapping[str, Column]:
        """Return the numbers of both."""
        return {**self.values.numbers(), **self.keys.numbers()}

    def counts(self, evolve: bool) -> list[Column]:
        """Count for both."""
        return [*self.values.counts(evolve), *self.keys.counts(evolve)]

    def evolve(self, table: Table, judged: DataFrame, counts: Mapping[str, Any]) -> bool:
        """Settle both schemas again if records have new fields."""
        changed = [form.evolve(table, judged, counts) for form in (self.values, self.keys)]
        return any(changed)
