"""The list of every group of the cluster, as a page without scripts. Pure."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from lagless.dashboard import markup, text
from lagless.ports import GroupSummary

HEAD = ("group", "state", "consumers", "partitions", "lag", "unread")


def row(group: GroupSummary) -> list[str]:
    """Return what is known of a group, as a row of a table; a dash for what is not known."""
    if group.trouble:
        return [group.group, group.trouble, *[text.DASH] * 4]
    lag = text.DASH if group.lag_seconds is None else text.duration(group.lag_seconds)
    unread = text.DASH if group.lag_bytes is None else text.size(group.lag_bytes)
    consumers = f"{group.alive} of {group.consumers}"
    return [group.group, group.mode, consumers, str(group.partitions), lag, unread]


def page(groups: Sequence[GroupSummary], path: str) -> str:
    """Return the page."""
    table = markup.table("Groups of this cluster", HEAD, map(row, groups))
    body = table if groups else "<p>No group of lagless has run in this cluster yet.</p>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>lagless · groups</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="stylesheet" href="{escape(path)}/assets/style.css"></head>'
        f'<body><main class="content"><h1>Groups of this cluster</h1>{body}'
        f'<p><a href="{escape(path)}/">back to the group</a></p></main></body></html>'
    )


def document(groups: Sequence[GroupSummary]) -> dict[str, Any]:
    """Return the list as JSON."""
    return {"version": 1, "groups": [asdict(group) for group in groups]}
