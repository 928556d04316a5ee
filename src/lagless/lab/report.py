"""The report kit of both evaluations: tables, sections, figures and pages, and what ran them.

A page is a list of sections. The kit writes it as one HTML file that loads nothing from elsewhere,
or as Markdown; an evaluation brings only the content. matplotlib is imported when a figure is
drawn.
"""

import base64
import html
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lagless
from lagless import extras
from lagless.adapters.spark import jars, java

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } figure { margin: 1.5rem 0; } img { width: 100%; height: auto; }
figcaption { color: #444; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { border-bottom: 1px solid #ccc; padding: 0.25rem 0.6rem; text-align: left;
         vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts with its caption."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: paragraphs, then tables, then figures by name; a title is optional."""

    title: str = ""
    words: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[str] = ()
    anchor: str = ""


def page(title: str, sections: Sequence[Section], folder: Path, captions: Mapping[str, str]) -> str:
    """Return the HTML page; figures are embedded, and those missing in the folder are left out."""
    name = title[:1].lower() + title[1:]
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>lagless: {name}</title><style>{STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
    ]
    for section in sections:
        if section.title:
            anchor = f' id="{section.anchor}"' if section.anchor else ""
            lines.append(f"<h2{anchor}>{html.escape(section.title)}</h2>")
        lines += [f"<p>{html.escape(words)}</p>" for words in section.words]
        lines += map(_table, section.tables)
        lines += [
            _figure(folder, figure, captions[figure])
            for figure in section.figures
            if (folder / f"{figure}.svg").exists()
        ]
    return "\n".join([*lines, "</body></html>"])


def document(title: str, sections: Sequence[Section], links: Mapping[str, str]) -> str:
    """Return the page as Markdown; `links` is the Markdown of each figure to show."""
    lines = [f"# {title}"]
    for section in sections:
        lines += ["", f"## {section.title}"] if section.title else []
        for text in (*section.words, *map(markdown, section.tables)):
            lines += ["", text]
        for name in section.figures:
            lines += ["", links[name]] if name in links else []
    return "\n".join(lines) + "\n"


def markdown(table: Table) -> str:
    """Return a table as Markdown, without its caption."""
    lines = [table.header, ["---"] * len(table.header), *table.rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def _figure(folder: Path, name: str, caption: str) -> str:
    data = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
    caption = html.escape(caption)
    return (
        f'<figure id="{name}"><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    """Return a table as HTML; numbers are aligned."""

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


BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#999999"
"""Okabe and Ito's colours, which colour-blind people can tell apart."""
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lagless",
    "font.size": 10,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
}


@contextmanager
def canvas(folder: Path, name: str, width: float = 7.5, height: float = 4.5) -> Iterator["Axes"]:
    """Yield axes to draw on, then save them as `name`.svg and `name`.png.

    What has a label is in a legend, whether or not the drawing asks for one.
    """
    with extras.needed("evaluation"):
        import matplotlib as mpl
        from matplotlib.figure import Figure

    with mpl.rc_context(RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        yield axes
        if axes.get_legend() is None and axes.get_legend_handles_labels()[0]:
            axes.legend()
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.png", dpi=144)


BOX = {"whislo": 0.01, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.99}


def boxes(axes: "Axes", rows: Sequence[dict[str, Any]], colours: Sequence[str], **how: Any) -> None:
    """Draw a filled box per row of quantiles, on a logarithmic scale."""
    shapes = axes.bxp(
        rows, showfliers=False, patch_artist=True, medianprops={"color": BLACK}, **how
    )
    for box, colour in zip(shapes["boxes"], colours, strict=True):
        box.set_facecolor(colour)
    axes.set_yscale("log")
    axes.grid(visible=False, axis="x")


def machine() -> dict[str, str]:
    """Return the machine and the software that something was measured with."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kafka = [path.stem for path in jars.home("broker").glob("kafka_2*.jar")]
    return {
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory / 2**30:.0f} GiB",
        "load average at the end": f"{os.getloadavg()[1]:.1f} over five minutes",
        "system": f"{platform.system()} {platform.release()}",
        "lagless": lagless.__version__,
        "Python": platform.python_version(),
        "Java": java.find().full_version,
        "Kafka": kafka[0].rpartition("-")[2] if kafka else "unknown",
        **versions("pyspark", "deltalake", "confluent-kafka", "kafka-python", "numpy", "pyarrow"),
    }


def versions(*names: str) -> dict[str, str]:
    """Return the installed versions of libraries."""
    installed = dict.fromkeys(names, "not installed under this name")
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = re.search(r"^model name\s*:\s*(.*?)\s*$", text, re.MULTILINE)
    return found[1] if found else platform.machine()
