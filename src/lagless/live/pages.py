"""The pages: one HTML file with everything in it, and the same as Markdown."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lagless.evaluation import report
from lagless.evaluation.report import Table
from lagless.live import figures, journal, latencies, numbers
from lagless.live.layout import Section
from lagless.live.sections import SECTIONS

TITLE = "The running system, measured"
LIMITS = (
    "One machine runs the broker, Spark, the controller, all consumers and the load. Where they "
    "compete for its cores, times are longer than on machines of their own, and nothing here shows "
    "a network, a cloud's Kubernetes or more than one broker.",
    "Whatever else ran on the machine at the same time is in these numbers too; a load average "
    "well above the number of cores says that there was much.",
    "Each part is one run with one seed; a second one gives other numbers.",
    "Consumers are held to a small rate in the latency parts, so that a small load needs several "
    "of them. Nothing here shows how a group behaves at hundreds of MB/s.",
)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the files of the parts that are there."""
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    return {name: journal.read(file) for name, file in files.items() if file.exists()}


def sums(data: Mapping[str, numbers.Data]) -> dict[str, Any]:
    """Give the numbers of every part that is there."""
    return {
        name: {
            "complete": one["complete"],
            "seconds": one.get("seconds"),
            "settings": one["settings"],
            **numbers.SUMS[name](one),
        }
        for name, one in data.items()
    }


def write(folder: Path) -> Path:
    """Write figures, report.html and results.md from what is there; give the report."""
    data = read(folder)
    drawn = figures.draw(folder / "figures", data)
    told = [(name, _section(name, data)) for name in data]
    page = folder / "report.html"
    page.write_text(_html(folder / "figures", told, data, drawn), "utf-8")
    (folder / "results.md").write_text(_markdown(told, data, drawn), "utf-8")
    return page


def _section(name: str, data: Mapping[str, numbers.Data]) -> Section:
    found = SECTIONS[name](data[name])
    if name != "rival" or "delay" not in data:
        return found
    return replace(found, words=[*found.words, *latencies.against(data["delay"], data[name])])


def _machine(data: Mapping[str, numbers.Data]) -> Table:
    facts: dict[str, str] = {}
    for one in data.values():
        facts |= one.get("machine", {})
    return Table("Machine and versions", ("", ""), list(facts.items()))


def _sizes(data: Mapping[str, numbers.Data]) -> Table:
    rows = [
        (
            name,
            ", ".join(f"{key} = {value}" for key, value in one["settings"].items()),
            f"{one.get('seconds', 0) / 60:.1f}",
            "complete" if one["complete"] else "interrupted",
        )
        for name, one in data.items()
    ]
    return Table("Sizes", ("part", "asked for", "minutes", ""), rows)


def _missing(data: Mapping[str, numbers.Data]) -> list[str]:
    """Name the parts that were not measured."""
    absent = [name for name in SECTIONS if name not in data]
    return [f"Not measured here, so not on this page: {', '.join(absent)}."] if absent else []


def _html(
    pictures: Path,
    told: Sequence[tuple[str, Section]],
    data: Mapping[str, numbers.Data],
    drawn: Sequence[str],
) -> str:
    body: list[str] = []
    for name, section in told:
        body.append(f'<h2 id="{name}">{html.escape(section.title)}</h2>')
        body += [f"<p>{html.escape(words)}</p>" for words in section.words]
        body += [report.rendered(table) for table in section.tables]
        body += [
            report.figure(pictures, figure, figures.CAPTIONS[figure])
            for figure in section.figures
            if figure in drawn
        ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>lagless: {TITLE}</title><style>{report.STYLE}</style></head><body>",
            f"<h1>{TITLE}</h1>",
            report.rendered(_sizes(data)),
            *(f"<p>{html.escape(words)}</p>" for words in _missing(data)),
            *body,
            "<h2>What this does not show</h2>",
            *(f"<p>{html.escape(words)}</p>" for words in LIMITS),
            report.rendered(_machine(data)),
            "</body></html>",
        ]
    )


def _markdown(
    told: Sequence[tuple[str, Section]], data: Mapping[str, numbers.Data], drawn: Sequence[str]
) -> str:
    lines = [
        f"# {TITLE}",
        "",
        "`lagless evaluate live --out DIR` writes this page (`DIR/results.md`) from what it "
        "measured, with all figures in `DIR/report.html` and every observation in `DIR/*.json`.",
        "",
        report.markdown(_sizes(data)),
    ]
    for words in _missing(data):
        lines += ["", words]
    for _, section in told:
        lines += ["", f"## {section.title}"]
        for words in section.words:
            lines += ["", words]
        for table in section.tables:
            lines += ["", report.markdown(table)]
        for figure in section.figures:
            if figure in drawn:
                lines += ["", f"![{figures.CAPTIONS[figure]}](img/live-{figure}.svg)"]
    lines += ["", "## What this does not show", "", *(f"- {words}" for words in LIMITS)]
    lines += ["", "## Machine and versions", "", report.markdown(_machine(data))]
    return "\n".join(lines) + "\n"
