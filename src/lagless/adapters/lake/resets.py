"""Reset: begin at other offsets, in one commit that also takes the partitions from their readers.

Each owner's generation goes up by one. So readers lose their claim, as to any other consumer, and
whoever claims next begins at the new place. Rows that are there already are kept, or deleted in the
same commit: the table is as it was before, or as it should be after.

Rejects are in a table of their own, which no commit can change together with the main one. Where
rows are deleted, the commit notes in two more app transactions of each partition which rejects
belong to them:

    group/topic/topic id/partition/reset     a number drawn by the last reset
    group/topic/topic id/partition/void      the rejects from this offset on are void

Whoever claims the partition deletes them before it reads (`complete`), which the reset itself does
too. The table of rejects keeps the number, so that it is done once.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lagless.adapters.lake import delta, queries, schemas
from lagless.adapters.lake.table import Table
from lagless.errors import GiveUp, TryAgain
from lagless.model import TopicPartition
from lagless.ports import Position

RESET = "/reset"
VOID = "/void"
NOTHING = 2**62
"""The void of a partition whose rejects all count."""


@dataclass(frozen=True, slots=True)
class Void:
    """Rejects that a reset has made void."""

    first: int
    """The offset from which on they are void."""
    mark: int
    """The number that the reset drew."""


def reset(table: Table, to: Mapping[TopicPartition, int], remove: bool, mark: int) -> int:
    """Begin at other offsets, and return how many rows were deleted.

    `remove` deletes the rows from there on. `mark` is a fresh random number: an attempt that landed
    although its answer was lost is recognised by it.
    """
    failure = f"{table}: the reset was not accepted, so nothing has changed"
    for attempt in delta.attempts(failure, pause=0.05):
        table.handle.update()
        if remove:
            check_alone(
                table,
                to,
                "the rows to be removed cannot be told from them: use --rows keep, and delete rows "
                "by hand",
            )
        entries = table.handle.entries()
        if all(entries.get(table.offset_id(p) + RESET) == mark for p in to):
            return 0
        positions = table.positions(to)
        ids = table.ids({p: Position(to[p], at.owner + 1) for p, at in positions.items()})
        ids |= {table.offset_id(p) + RESET: mark for p in to}
        ids |= table.without_epochs(to)
        for p, offset in to.items() if remove else ():
            name = table.offset_id(p) + VOID
            ids[name] = min(offset, entries.get(name, NOTHING))
        note = {"reset": {str(p): [at.offset, to[p]] for p, at in positions.items()}}
        with attempt:
            if not remove:
                table.handle.write((), ids)
                return 0
            return table.handle.write_without(predicate(to), ids, note)
    raise TryAgain(failure)


def complete(table: Table, rejected: Table, partitions: Collection[TopicPartition]) -> None:
    """Delete the rejects that resets of these partitions have made void, each once."""
    voids = _voids(table, partitions)
    if not voids:
        return
    if rejected.handle.exists():
        _delete(rejected, voids)

    def settled() -> dict[str, int]:
        now = _voids(table, voids)
        return {table.offset_id(p) + VOID: NOTHING for p, void in now.items() if void == voids[p]}

    table.insist(settled)


def predicate(first: Mapping[TopicPartition, int], topic_id: str = "") -> str:
    """Return the SQL condition of the rows from these offsets on."""
    parts = [f"(_partition = {p.partition} AND _offset >= {first[p]})" for p in sorted(first)]
    either = f"({' OR '.join(parts)})"
    if not topic_id:
        return either
    return f"{either} AND {schemas.TOPIC_ID.name} = {queries.text(topic_id)}"


def count(table: Table, first: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return how many rows each partition has from these offsets on; the newest version counts."""
    if not table.handle.exists():
        return dict.fromkeys(first, 0)
    opened = table.handle.update()
    return {p: queries.count(opened, predicate({p: offset})) for p, offset in first.items()}


def check_alone(table: Table, partitions: Collection[TopicPartition], consequence: str) -> None:
    """Raise GiveUp where other rows of the table have the same partition and offset."""
    others = [
        name
        for name in table.handle.entries()
        if name != table.marker and not name.startswith(table.marker + "/")
    ]
    what = f"rows that were written as {min(others)}" if others else ""
    if any(former.offset > 0 for former in table.former(partitions)):
        what = f"rows of a deleted topic {table.topic.name}"
    if what:
        raise GiveUp(
            f"{table} also has {what}, which have the same partitions and offsets, so that "
            f"{consequence}"
        )


def _voids(table: Table, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Void]:
    """Return from where the rejects of partitions are void and not deleted yet."""
    entries = table.handle.entries()
    names = {p: table.offset_id(p) for p in partitions}
    return {
        p: Void(entries[name + VOID], entries[name + RESET])
        for p, name in names.items()
        if entries.get(name + VOID, NOTHING) < NOTHING
    }


def _delete(rejected: Table, voids: Mapping[TopicPartition, Void]) -> None:
    """Delete void rejects, and go back to where they begin, unless that is done already."""
    failure = f"{rejected}: the rejects of the reset range were not deleted"
    for attempt in delta.attempts(failure, pause=0.05):
        opened = rejected.handle.update()
        entries = rejected.handle.entries()
        marks = {p: entries.get(rejected.offset_id(p) + RESET) for p in voids}
        due = {p: void for p, void in voids.items() if marks[p] != void.mark}
        if not due:
            return
        positions = rejected.positions(due)
        ids = rejected.ids(
            {p: Position(min(at.offset, due[p].first), at.owner) for p, at in positions.items()}
        )
        ids |= {rejected.offset_id(p) + RESET: void.mark for p, void in due.items()}
        # Tables of 0.1.0 may not have the column.
        known = schemas.TOPIC_ID.name in {column.name for column in opened.schema().fields}
        rows = predicate(
            {p: void.first for p, void in due.items()}, rejected.topic.id if known else ""
        )
        with attempt:
            note = {"void": {str(p): void.first for p, void in due.items()}}
            rejected.handle.write_without(rows, ids, note)
            return
