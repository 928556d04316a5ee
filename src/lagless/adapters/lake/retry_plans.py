"""Which rejects a retry has landed, and deleting them once, also after a crash.

Rejects and rows are in two tables, which no commit can change together. So the main table decides:
the commit that adds the rows of rejects also sets an app transaction,

    group/topic/topic id/retry      a number drawn by the last retry

and a plan, a file that was written before, says which rejects these are. From that commit on they
are to be deleted, which the retry does next. If it is killed in between, whoever claims a partition
or retries does it (`complete`). The table of rejects keeps the same number, so it is done once.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence

from lagless.adapters.lake import delta, schemas
from lagless.adapters.lake.store import Store
from lagless.adapters.lake.table import Table

PLANS = "_retries"
"""Folder of plans; vacuum leaves names with "_" in front alone."""
OLD = 86_400.0
"""Seconds after which a plan that was never carried out is deleted."""
Place = tuple[int, int]
"""Partition and offset of a record."""


def retry_id(table: Table) -> str:
    """Return the id of the last retry's number."""
    return f"{table.marker}/{table.topic.id}/retry"


def write(rejected: Table, mark: int, places: Collection[Place]) -> None:
    """Keep which rejects a retry with this number is about to land."""
    offsets: dict[str, list[int]] = {}
    for partition, offset in sorted(places):
        offsets.setdefault(str(partition), []).append(offset)
    plans = _plans(rejected)
    plans.prepare()
    before = time.time() - OLD
    plans.delete_all([plan.name for plan in plans.files() if plan.modified < before])
    with plans.create(_name(mark)) as sink:
        sink.write(json.dumps(offsets).encode())


def complete(table: Table, rejected: Table) -> None:
    """Delete the rejects that the topic's last retry has landed, if that was not done."""
    mark = table.handle.entries().get(retry_id(table), 0)
    if not mark or not rejected.handle.exists():
        return
    for attempt in delta.attempts(f"{rejected}: rejects that were read again are not deleted"):
        rejected.handle.update()
        if rejected.handle.entries().get(retry_id(rejected), 0) == mark:
            return
        with attempt:
            offsets = json.loads(_plans(rejected).read(_name(mark)))
            where = _predicate(offsets, table.topic.id)
            rejected.handle.write_without(where, {retry_id(rejected): mark}, {"retry": mark})
            _plans(rejected).delete(_name(mark))
            return


def _plans(rejected: Table) -> Store:
    return rejected.store.inside(PLANS)


def _name(mark: int) -> str:
    return f"{mark}.json"


def _predicate(offsets: Mapping[str, Sequence[int]], topic_id: str) -> str:
    parts = [
        f"(_partition = {partition} AND _offset IN ({', '.join(map(str, some))}))"
        for partition, some in offsets.items()
    ]
    return f"({' OR '.join(parts)}) AND {schemas.TOPIC_ID.name} = '{topic_id}'"
