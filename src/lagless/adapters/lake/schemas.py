"""The schema of a topic's JSON: as set, or inferred from the first records and kept."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import columns, formats, inference
from lagless.adapters.lake.table import Table
from lagless.settings import TopicSettings

SAMPLE = 200
"""Records that a schema is inferred from."""


def settle(
    spark: SparkSession, table: Table, settings: TopicSettings, records: DataFrame
) -> formats.Format | None:
    """Give the format that holds; None where no object was seen yet to infer it from."""
    kept = columns.stored_schema(table)
    ddl = settings.schema_
    if ddl is not None and kept is not None and settings.evolve:
        ddl = _joined(spark, ddl, kept)
    elif ddl is None:
        ddl = kept
    if ddl is None:
        found = inference.infer(inference.objects(_sample(records)))
        if not found:
            return None
        ddl = columns.store_schema(table, found, None)
    return formats.json_format(ddl, spark.createDataFrame([], ddl).schema, table.topic.name)


def evolve(
    table: Table, form: formats.Format, judged: DataFrame, unknown: Iterable[Iterable[str]]
) -> bool:
    """Add unknown fields to the kept schema; False where there is none that has a value."""
    known = {one.name.lower() for one in form.fields.fields}
    known |= {name.lower() for name in (*columns.REJECTED.names, columns.HEADERS.name)}
    names = {name for some in unknown for name in some if name.lower() not in known}
    if not names:
        return False
    wanted = F.array(*[F.lit(name) for name in sorted(names)])
    sample = _sample(judged.where(F.arrays_overlap("_unknown", wanted)))
    more = inference.infer(inference.objects(sample), names)
    if not more:
        return False
    before = columns.stored_schema(table)
    columns.store_schema(table, f"{form.ddl}, {more}" if form.ddl else more, before)
    return True


def _sample(records: DataFrame) -> list[bytes | None]:
    return [row[0] for row in records.select("value").limit(SAMPLE).collect()]


def _joined(spark: SparkSession, ddl: str, kept: str) -> str:
    """Give the fields that are set, and those that joined the kept ones since."""
    names = {one.name.lower() for one in spark.createDataFrame([], ddl).schema.fields}
    more = [
        f"`{one.name}` {one.dataType.simpleString()}"
        for one in spark.createDataFrame([], kept).schema.fields
        if one.name.lower() not in names
    ]
    return ", ".join([ddl, *more])
