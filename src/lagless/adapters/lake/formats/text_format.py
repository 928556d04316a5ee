"""Text: values are UTF-8; what is not is rejected."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import formats


@dataclass(frozen=True, slots=True)
class TextFormat(formats.Format):
    """Values as strings."""

    kind = pa.string()

    def judge(self, source: DataFrame) -> DataFrame:
        """Reject what is not UTF-8."""
        text = F.col("value").cast("string")
        invalid = F.col("value").isNotNull() & ~F.is_valid_utf8(text)
        reason = F.when(invalid, F.lit("not UTF-8"))
        return source.withColumn("_reason", reason).withColumn("_text", text)

    def fields(self) -> list[Column | str]:
        """Return the strings."""
        return [F.col("_text").alias("value")]


FORMAT = TextFormat()
