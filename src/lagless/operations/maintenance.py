"""Upkeep of a lake's tables, beside running consumers too."""

from collections.abc import Collection

from lagless import extras
from lagless.settings import Settings

with extras.needed("spark"):
    from lagless.adapters.lake import compaction, store


def compact(
    settings: Settings, names: Collection[str], target: int
) -> tuple[list[compaction.Outcome], str]:
    """Merge small files of the named tables, or of all, into files of about `target` bytes.

    Return what was done, table by table and in a few lines of text.
    """
    tables = store.chosen(store.of(settings.lake), names)
    kept = settings.lake.log_entries
    outcomes = [compaction.compact(table, target, log_entries=kept) for table in tables]
    return outcomes, "\n".join(
        f"{o.table}: {o.files_before} files became {o.files_after}, {o.vacuumed} old ones deleted"
        for o in outcomes
    )
