"""The table of rejects: `<table>_rejected`, which commits before the main table goes on."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import columns, writing
from lagless.adapters.lake.table import Table
from lagless.adapters.lake.work import Work
from lagless.errors import TryAgain
from lagless.ports import Span


def add(table: Table, work: Work, rejects: DataFrame, expected: int) -> None:
    """Add rejects to their table, before the main one moves on, and only those it lacks."""
    if not expected:
        return
    known = table.look(work.spans)
    behind = {p: at.offset for p, at in known.items() if at.offset > work.spans[p].first}
    for partition, offset in behind.items():
        rejects = rejects.where((F.col("_partition") != partition) | (F.col("_offset") >= offset))
    table.path.mkdir(parents=True, exist_ok=True)
    files = writing.write(rejects, table.path)
    found = sum(file.rows for file in files)
    if not behind and found != expected:
        table.discard(files)
        raise TryAgain(
            f"topic {work.topic.name}: {expected} rejects were counted and {found} found"
        )
    if not files:
        return
    landed = table.commit(
        files,
        {p: at.offset for p, at in known.items()},
        {p: max(known[p].offset, span.until) for p, span in work.spans.items()},
        {p: at.owner for p, at in known.items()},
        work.check,
    )
    if not landed:
        raise TryAgain(f"{table.path}: another consumer has just added rejects")


def pass_by(table: Table, spans: Mapping[int, Span]) -> None:
    """Let the table stand behind these spans, so that nobody adds rejects of them any more."""
    if table.exists():
        table.advance({p: span.until for p, span in spans.items()})


def kept(table: Table, topic_id: str, spans: Mapping[int, Span]) -> dict[int, list[int]]:
    """Give the offsets in these spans that stand among the rejects: they were read.

    Their cycle added them, and then the main table did not go on: Kafka deleted the rest first.
    """
    if not table.exists():
        return {}
    handle = table.update()
    if columns.TOPIC_ID.name not in {one.name for one in handle.schema().fields}:
        return {}
    found = {}
    for p, span in spans.items():
        where = [
            ("_partition", "=", p),
            (columns.TOPIC_ID.name, "=", topic_id),
            ("_offset", ">=", span.first),
            ("_offset", "<", span.until),
        ]
        rows = handle.to_pyarrow_table(columns=["_offset"], filters=where)
        found[p] = sorted(rows["_offset"].to_pylist())
    return found
