"""One page with every figure, table, setting and version, and nothing outside it."""

import base64
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lagless.evaluation.claims import Claim

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } figure { margin: 1.5rem 0; } img { max-width: 100%; height: auto; }
figcaption { color: #444; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { border-bottom: 1px solid #ccc; padding: 0.25rem 0.6rem; text-align: left;
         vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""

CAPTIONS = {
    "cbs": "CBS of all algorithms by δ.",
    "cbs-modified": "CBS of the modified algorithms and BFD.",
    "rscore": "E(Rscore) by δ: the speeds of migrated partitions, in consumers' capacities C.",
    "pareto-5": "CBS and E(Rscore) at δ = 5.",
    "pareto-25": "CBS and E(Rscore) at δ = 25.",
    "latency-histogram": "How many bytes waited how long, in the stream of kd_27's median.",
    "cost": "Average number of consumers, the same stream.",
    "late-bytes": "Share of bytes with latency above 0, the same stream.",
    "latency-boxes": "Latency of the late bytes, the same stream; who is missing has none.",
    "streams-p90": "90th percentile of late bytes over many streams: median, least and most.",
    "streams-late": "Share of late bytes over many streams: median, least and most.",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts with its caption."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def page(
    folder: Path,
    claims: Sequence[Claim],
    tables: Sequence[Table],
    facts: Mapping[str, Mapping[str, str]],
) -> str:
    """Write the page; figures are taken from the folder, and those that are not there left out."""
    pictures = [name for name in CAPTIONS if (folder / f"{name}.svg").exists()]
    claimed = Table(
        "What the paper says and what was measured",
        ("paper", "says", "code", "measured", "verdict"),
        [(c.place, c.says, c.code, c.measured, c.verdict) for c in claims],
    )
    listed = [Table(name, ("", ""), list(facts[name].items())) for name in facts]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>lagless: the paper's experiments</title><style>{STYLE}</style></head><body>",
            "<h1>The paper's experiments</h1>",
            *(rendered(table) for table in listed),
            "<h2>Figures</h2>",
            *(figure(folder, name, CAPTIONS[name]) for name in pictures),
            "<h2>Tables</h2>",
            *(rendered(table) for table in tables),
            "<h2>Claims</h2>",
            rendered(claimed),
            "</body></html>",
        ]
    )


def markdown(table: Table) -> str:
    """Write a table as Markdown."""
    lines = [table.header, ["---"] * len(table.header), *table.rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def figure(folder: Path, name: str, caption: str) -> str:
    """Write a figure with the picture itself in it."""
    data = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
    caption = html.escape(caption)
    return (
        f'<figure id="{name}"><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def rendered(table: Table) -> str:
    """Write a table as HTML; numbers are aligned."""

    def cell(text: str) -> str:
        number = re.fullmatch(r"[-+−]?[0-9.,]+( ?%)?", text) is not None
        body = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))
        return f"<td{' class=n' if number else ''}>{body}</td>"

    head = "".join(f"<th>{html.escape(text)}</th>" for text in table.header)
    body = "\n".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in table.rows)
    return (
        f"<h3>{html.escape(table.caption)}</h3>"
        f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'
    )
