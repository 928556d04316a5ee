"""The record of what Kafka deleted before it was read: `<table>_gone`, one row per range.

It commits before the main table goes on behind a range, and keeps how far it has named each
partition: a crash in between repeats the step, and names nothing twice.
"""

import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from lagless.adapters.lake import columns, writing
from lagless.adapters.lake.table import Table
from lagless.errors import TryAgain
from lagless.ports import Span, Topic

FOREVER = 2**62
"""How far a topic that is no more is named: to its unknown end."""
Reason = Literal["retention", "deleted"]


def name(
    path: Path,
    group: str,
    topic: Topic,
    partition: int,
    first: int,
    until: int | None,
    reason: Reason,
    kept: Collection[int] = (),
) -> None:
    """Name a range once, without the offsets that are `kept` elsewhere.

    `until` None: to the unknown end of a topic that was deleted.
    """
    table = Table(path, group, topic, columns.GONE)
    end = FOREVER if until is None else until
    for _ in range(5):
        at = table.look([partition])[partition]
        if at.offset >= end:
            return
        rows: list[dict[str, object]] = [
            {
                "_topic": topic.name,
                "_topic_id": topic.id,
                "_partition": partition,
                "first": span.first,
                "until": None if span.until == FOREVER else span.until,
                "reason": reason,
                "at": datetime.fromtimestamp(time.time(), UTC),
            }
            for span in without(Span(max(first, at.offset), end), kept)
        ]
        files = [writing.write_rows(rows, columns.GONE, path)] if rows else []
        if table.commit(files, {partition: at.offset}, {partition: end}, {partition: at.owner}):
            return
    raise TryAgain(f"{path}: what is gone could not be named")


def without(span: Span, kept: Collection[int]) -> list[Span]:
    """Cut single offsets out of a span."""
    pieces = []
    begin = span.first
    for offset in sorted(one for one in kept if span.first <= one < span.until):
        if offset > begin:
            pieces.append(Span(begin, offset))
        begin = max(begin, offset + 1)
    if begin < span.until:
        pieces.append(Span(begin, span.until))
    return pieces
