"""Which tables a lake has."""

from collections.abc import Collection
from pathlib import Path

from deltalake import DeltaTable

from lagless.errors import WrongInput


def tables(lake: Path) -> list[Path]:
    """Give the tables of a lake, by name."""
    if not lake.is_dir():
        return []
    return sorted(
        one for one in lake.iterdir() if one.is_dir() and DeltaTable.is_deltatable(str(one))
    )


def chosen(lake: Path, names: Collection[str]) -> list[Path]:
    """Give the named tables, or all; WrongInput where one is not there."""
    there = {one.name: one for one in tables(lake.absolute())}
    for name in names:
        if name not in there:
            raise WrongInput(
                f"there is no table {name} in {lake}; there are: {', '.join(there) or 'none'}"
            )
    return [there[name] for name in names] if names else list(there.values())
