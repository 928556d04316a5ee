"""Every group of a cluster, for `lagless status --all`."""

import sys
from collections.abc import Sequence
from dataclasses import asdict

from lagless.cli import options
from lagless.ports import GroupSummary
from lagless.settings import Settings, units

HEAD = ("group", "state", "consumers", "partitions", "lag", "unread")


def show(settings: Settings, json: bool) -> None:
    """Print every group of the cluster, one line each."""
    from lagless.operations import status

    groups = status.everywhere(settings)
    options.show({"groups": list(map(asdict, groups))}, json, lambda: _show(groups))


def _show(groups: Sequence[GroupSummary]) -> None:
    rows = [row(group) for group in groups]
    if not rows:
        print("no group of lagless has run in this cluster yet")
    elif not sys.stdout.isatty():
        print("\n".join(map("\t".join, rows)))
    else:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for name in HEAD:
            table.add_column(name, overflow="fold")
        for cells in rows:
            table.add_row(*map(Text, cells))
        Console().print(table)


def row(group: GroupSummary) -> list[str]:
    """Return what is known of a group; empty for what is not known."""
    if group.trouble:
        return [group.group, group.trouble, "", "", "", ""]
    lag = "" if group.lag_seconds is None else f"{group.lag_seconds:.1f} s"
    unread = "" if group.lag_bytes is None else units.text(group.lag_bytes)
    consumers = f"{group.alive} of {group.consumers}"
    return [group.group, group.mode, consumers, str(group.partitions), lag, unread]
