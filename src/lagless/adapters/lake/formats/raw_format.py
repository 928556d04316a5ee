"""Raw: values are kept as bytes, and every record is good."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import formats


@dataclass(frozen=True, slots=True)
class RawFormat(formats.Format):
    """Values as they are."""

    def judge(self, source: DataFrame) -> DataFrame:
        """Find no fault."""
        return source.withColumn("_reason", F.lit(None).cast("string"))


FORMAT = RawFormat()
