"""The record of what Kafka deleted before it was read: `<table>_gone`, one row per range.

It commits before the main table goes on behind a range, and keeps how far it has named each
partition: a crash in between repeats the step, and names nothing twice.
"""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from lagless.adapters.lake import columns, writing
from lagless.adapters.lake.table import Table
from lagless.errors import TryAgain
from lagless.ports import Topic

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
) -> None:
    """Name a range once; `until` None: to the unknown end of a topic that was deleted."""
    table = Table(path, group, topic, columns.GONE)
    end = FOREVER if until is None else until
    for _ in range(5):
        at = table.look([partition])[partition]
        begin = max(first, at.offset)
        if begin >= end:
            return
        row: dict[str, object] = {
            "_topic": topic.name,
            "_topic_id": topic.id,
            "_partition": partition,
            "first": begin,
            "until": until,
            "reason": reason,
            "at": datetime.fromtimestamp(time.time(), UTC),
        }
        file = writing.write_rows([row], columns.GONE, path)
        if table.commit([file], {partition: at.offset}, {partition: end}, {partition: at.owner}):
            return
    raise TryAgain(f"{path}: what is gone could not be named")
