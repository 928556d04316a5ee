"""Transforms for tests."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)


def doubled(rows: DataFrame) -> DataFrame:
    """Add a column."""
    return rows.withColumn("twice", F.col("a") * 2)


def picky(rows: DataFrame) -> DataFrame:
    """Raise on 13."""
    raised = F.when(F.col("a") == 13, F.raise_error(F.lit("unlucky")).cast("bigint"))
    return rows.withColumn("a", raised.otherwise(F.col("a")))


def python(rows: DataFrame) -> DataFrame:
    """Use a function of Python's, which raises on 13."""
    inverse = F.udf(lambda value: 1000 // (value - 13), "bigint")
    return rows.withColumn("inverse", inverse("a"))


def forgetful(rows: DataFrame) -> DataFrame:
    """Drop what must be kept."""
    return rows.drop("_offset")


def broken(rows: DataFrame) -> DataFrame:
    """Name a column that is not there."""
    return rows.select("*", "nowhere")


def raising(rows: DataFrame) -> DataFrame:
    """Make no frame at all."""
    raise RuntimeError("no")


def mended(rows: DataFrame) -> DataFrame:
    """Take every number, as `picky` should."""
    return rows.withColumn("a", F.col("a"))
