"""Figures in the documentation, written by the benchmark that measured them: nothing by hand.

A page has a place between two comments, `<!-- NAME -->` and `<!-- end of NAME -->`. Figures are
kept in a JSON file beside the page's pictures, so that parts of a benchmark can be measured one by
one.
"""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def replaced(text: str, name: str, content: str) -> str:
    """Return a page with other content in a place; ValueError if it has no such place."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    place = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not place.search(text):
        raise ValueError(f"there is no place {begin} … {end}")
    return place.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text, count=1)


def write(file: Path, name: str, content: str) -> None:
    """Put content into a place of a page."""
    file.write_text(replaced(file.read_text(), name, content))


def keep(file: Path, new: Mapping[str, Any]) -> dict[str, Any]:
    """Add figures, with today's date, to those of the file; return all of them."""
    old = json.loads(file.read_text()) if file.exists() else {}
    whole = {**old, **dated(new)}
    file.write_text(json.dumps(whole, indent=1) + "\n")
    return whole


def dated(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return figures with today's date."""
    return {key: _dated(row) for key, row in rows.items()}


def _dated(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "date": time.strftime("%Y-%m-%d")}
