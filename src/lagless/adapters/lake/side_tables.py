"""The side tables of a topic, `<table>_rejected` and `<table>_gone`: see docs/exactly-once.md."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import data_files, delta, queries, resets, retry_plans, schemas
from lagless.adapters.lake.table import Table
from lagless.errors import TryAgain
from lagless.model import TopicPartition
from lagless.ports import Span, Topic

FOREVER = 2**62
"""The unknown end of a deleted topic."""
Reason = Literal["retention", "deleted"]


class Rejected:
    """Records that did not fit, with the reason."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(
        self,
        spans: Mapping[TopicPartition, Span],
        rejects: DataFrame,
        expected: int,
        check: Callable[[], None],
    ) -> None:
        """Add rejects before the main table moves on, and only those that are not there yet."""
        if not expected:
            return
        table = self.table
        known = table.look(spans)
        behind = {p: at.offset for p, at in known.items() if at.offset > spans[p].first}
        for p, offset in behind.items():
            newer = F.col("_offset") >= offset
            rejects = rejects.where((F.col("_partition") != p.partition) | newer)
        table.store.prepare()
        files = data_files.write(rejects, table.store)
        written = sum(file.rows for file in files)
        if not behind and written != expected:
            table.handle.discard(files)
            raise TryAgain(
                f"topic {table.topic.name}: {expected} rejects were counted, {written} written"
            )
        if not files:
            return
        landed = table.commit(
            files,
            {p: Span(at.offset, max(at.offset, spans[p].until)) for p, at in known.items()},
            {p: at.owner for p, at in known.items()},
            check,
        )
        if not landed:
            raise TryAgain(f"{table}: another consumer has just added rejects")

    def pass_by(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Move behind these spans, so that no rejects of them are added any more."""
        if self.table.handle.exists():
            self.table.advance({p: span.until for p, span in spans.items()})

    def close_former(self, partitions: Collection[TopicPartition]) -> None:
        """Let no rejects of deleted topics with this name be added any more."""
        if self.table.handle.exists():
            self.table.close_former(partitions)

    def complete(self, table: Table, partitions: Collection[TopicPartition]) -> None:
        """Delete rejects that were read again, and those that resets have made void."""
        retry_plans.complete(table, self.table)
        resets.complete(table, self.table, partitions)

    def offsets(self, topic: Topic, partition: TopicPartition, span: Span) -> list[int]:
        """Return the offsets in a span that stand among the rejects: they were read.

        Their cycle added them, and then the main table did not go on: Kafka deleted the rest first.
        """
        if not self.table.handle.exists():
            return []
        opened = self.table.handle.update()
        if schemas.TOPIC_ID.name not in {column.name for column in opened.schema().fields}:
            return []
        where = (
            f"_partition = {partition.partition} AND _offset >= {span.first} "
            f"AND _offset < {span.until} AND {schemas.TOPIC_ID.name} = {queries.text(topic.id)}"
        )
        return sorted(queries.read(opened, ["_offset"], where)["_offset"].to_pylist())


def record_gone(
    table: Table,
    partition: TopicPartition,
    gone: Span,
    reason: Reason,
    rejected: Collection[int] = (),
) -> None:
    """Record once that Kafka deleted a range before it was read, save for the rejects in it.

    `until` FOREVER: to the unknown end of a deleted topic.
    """
    for _ in delta.attempts(f"{table}: the deleted range could not be recorded", 5):
        at = table.look([partition])[partition]
        if at.offset >= gone.until:
            return
        rows: list[dict[str, object]] = [
            {
                "_topic": table.topic.name,
                "_topic_id": table.topic.id,
                "_partition": partition.partition,
                "first": span.first,
                "until": None if span.until == FOREVER else span.until,
                "reason": reason,
                "at": datetime.now(UTC),
            }
            for span in without(Span(max(gone.first, at.offset), gone.until), rejected)
        ]
        files = [data_files.write_rows(rows, schemas.GONE, table.store)] if rows else []
        span = Span(at.offset, gone.until)
        if table.commit(files, {partition: span}, {partition: at.owner}):
            return


def without(span: Span, offsets: Collection[int]) -> list[Span]:
    """Return the pieces of a span that are left without single offsets."""
    inside = sorted(offset for offset in offsets if span.first <= offset < span.until)
    edges = pairwise([span.first - 1, *inside, span.until])
    return [Span(left + 1, right) for left, right in edges if left + 1 < right]
