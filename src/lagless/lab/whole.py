"""`lagless evaluate all`: every part that the machine can run, and one report to read.

A part keeps its results in a folder of its own and resumes there. A part that cannot run here, or
that fails, is named in the report with the reason, and the others go on.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lagless
from lagless.errors import LaglessError
from lagless.lab import report
from lagless.lab.live import live_findings, live_report
from lagless.lab.report import Section, Table

TITLE = "What lagless does, measured"
PICTURES = ("delay", "pareto-5")
"""The picture at the beginning: the first of these that was drawn."""
ROOT = Path(lagless.__file__).parents[2]
BENCHMARKS: Mapping[str, Sequence[str]] = {
    "packing": ("benchmarks.packing", "--sizes", "200,1000,10000"),
    "controller": ("benchmarks.controller",),
    "window": ("benchmarks.window",),
    "monitor": ("benchmarks.monitor", "accuracy"),
    "load": ("benchmarks.load",),
    "consumer": ("benchmarks.consumer",),
}
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """A part by name, and how it runs."""

    name: str
    run: Callable[[], None]


def chosen(parts: Sequence[Part], only: str, skip: str) -> list[Part]:
    """Return the parts that are named, or all, without those to skip."""
    known = [part.name for part in parts]
    wanted = live_report.named("--only", only, known) or known
    unwanted = live_report.named("--skip", skip, known)
    return [part for part in parts if part.name in wanted and part.name not in unwanted]


def run(out: Path, parts: Sequence[Part], say: Say) -> dict[str, str]:
    """Run the parts one after the other; return why some did not end, and write the report."""
    out.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}
    for part in parts:
        say(f"{part.name}: beginning")
        try:
            part.run()
        except (LaglessError, OSError, ImportError, subprocess.SubprocessError) as error:
            failed[part.name] = str(error)
            say(f"{part.name}: {error}")
        write(out, failed)
    return failed


def benchmarks(out: Path) -> list[Part]:
    """Return the benchmarks, which are beside the sources; none where those are not there."""
    if not (ROOT / "benchmarks").is_dir():
        return []
    return [Part(name, partial(_benchmark, out, name)) for name in BENCHMARKS]


def _benchmark(out: Path, name: str) -> None:
    file = out / "benchmarks" / f"{name}.txt"
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", *BENCHMARKS[name]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
        raise subprocess.SubprocessError(f"ended with status {done.returncode}: {last}")
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(done.stdout, "utf-8")
    unfinished.replace(file)


def write(out: Path, failed: Mapping[str, str]) -> Path:
    """Write report.html from what is there: what was found, then the parts, then the settings."""
    pictures = out / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    simulated = _paper(out / "paper")
    live = live_report.read(out / "live")
    captions = {**simulated.get("captions", {}), **live_report.CAPTIONS}
    for folder in (out / "paper" / "figures", out / "live" / "figures"):
        for file in folder.glob("*.svg"):
            shutil.copy(file, pictures / file.name)
    sections = [_section(section) for section in simulated.get("sections", [])]
    found, sections, settings = sections[:1], sections[1:-1], sections[-1:]
    words = [*_compared(live), *(found[0].words if found else [])]
    first = [name for name in PICTURES if (pictures / f"{name}.svg").exists()][:1]
    rest = [
        Section(section.title, section.words, section.tables, _without(section.figures, first))
        for section in (*sections, *(live_findings.SECTIONS[name](live[name]) for name in live))
    ]
    # The paper's first picture is where it began, unless it begins here too.
    shown = _without(found[0].figures, first) if found else []
    page = [
        Section("What was found", words or ["Nothing was measured yet."], figures=first),
        Section(figures=shown),
        *rest,
        *_benchmarks(out),
        *_missing(failed),
        *settings,
        *_machine(live),
    ]
    file = out / "report.html"
    file.write_text(report.page(TITLE, page, pictures, captions), "utf-8")
    return file


def _without(figures: Sequence[str], shown: Sequence[str]) -> list[str]:
    return [name for name in figures if name not in shown]


def _missing(failed: Mapping[str, str]) -> list[Section]:
    words = [f"{name} did not end: {why}" for name, why in failed.items()]
    return [Section("What is missing", words)] if words else []


def _paper(folder: Path) -> dict[str, Any]:
    file = folder / "report.json"
    return dict(json.loads(file.read_text("utf-8"))) if file.exists() else {}


def _section(kept: Mapping[str, Any]) -> Section:
    tables = [Table(**table) for table in kept["tables"]]
    return Section(**{**kept, "tables": tables})


def _compared(live: Mapping[str, Any]) -> list[str]:
    if "delay" not in live or "rival" not in live:
        return []
    return live_findings.against(live["delay"], live["rival"])


def _benchmarks(out: Path) -> list[Section]:
    files = sorted((out / "benchmarks").glob("*.txt"))
    tables = [
        Table(file.stem, ("",), [(line,) for line in file.read_text("utf-8").splitlines() if line])
        for file in files
    ]
    return [Section("Benchmarks", tables=tables)] if tables else []


def _machine(live: Mapping[str, Any]) -> list[Section]:
    facts: dict[str, str] = {}
    for part in live.values():
        facts |= part.get("machine", {})
    facts = facts or report.machine()
    return [
        Section(
            "The machine", tables=[Table("Machine and versions", ("", ""), list(facts.items()))]
        )
    ]
