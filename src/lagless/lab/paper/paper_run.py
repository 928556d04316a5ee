"""`lagless evaluate paper`: run the experiments, and write tables, figures and both pages."""

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median_high
from typing import TYPE_CHECKING, Any

import lagless
from lagless import packing
from lagless.errors import WrongInput
from lagless.lab import report
from lagless.lab.paper import (
    cells,
    claims,
    experiments,
    figures,
    fingerprints,
    gaps,
    grid,
    latency_claims,
    paper_blocks,
    paper_page,
    paper_panels,
    spread,
)
from lagless.lab.paper.claims import Claim
from lagless.lab.paper.experiments import MODEL, PARTITIONS, SETTING, Plan, Score, Wait
from lagless.lab.report import Section

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATES = f"C = {SETTING.capacity:g}, C̄ = {MODEL.max_rate:g}"
TITLE = "The paper's experiments"
COMMAND = "lagless evaluate paper --out DIR"
COMPARABLE = 100
"""The fewest partitions with which figures are compared with the published ones."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the results are and what they took."""

    cells: int
    rows: int
    grid_seconds: float
    seconds: float
    report: Path


OnProgress = Callable[[str, grid.Progress], None]


def run(spark: "SparkSession", plan: Plan, out: Path, progress: OnProgress) -> Outcome:
    """Run the paper's experiments, and write rows, tables, figures and the report into a folder."""
    began = time.perf_counter()
    for name in plan.algorithms:
        packing.packer(name)
    compared = plan.compared
    claim(out)
    resumed = not grid.done(out / "grid").keys().isdisjoint(plan.grid)
    rows = grid.run(spark, plan.grid, plan.setting, out / "grid", partial(progress, "grid"))
    grid_seconds = time.perf_counter() - began

    def other(name: str, wanted: Sequence[cells.Cell], **how: Any) -> list[Score]:
        setting, folder = replace(plan.setting, **how), out / f"grid-{name}"
        return experiments.score(grid.run(spark, wanted, setting, folder, partial(progress, name)))

    fixed = other("fixed", plan.varied, order="fixed")
    unclamped = other("unclamped", plan.varied, clamp="none")
    lowest = other("lowest", plan.lowest)
    scores = experiments.score(rows)
    apart = spread.apart(
        spark, compared, plan.setting, plan.exact_seconds, partial(progress, "exact")
    )
    waited, shown = _latency(spark, plan, progress)
    found = [
        *claims.on_packing(claims.Evidence(scores, fixed, unclamped, lowest)),
        *latency_claims.on_latency(waited),
    ]
    seconds = None if resumed else grid_seconds
    publish(out, plan, scores, waited, shown, found, seconds, apart)
    took = time.perf_counter() - began
    return Outcome(len(plan.grid), rows.num_rows, grid_seconds, took, out / "report.html")


def _latency(
    spark: "SparkSession", plan: Plan, progress: OnProgress
) -> tuple[list[Wait], dict[str, Any]]:
    """Run the latency experiment on many streams, and keep a typical one's distributions."""
    sticky = [name for name in plan.algorithms if name.split(":")[0] == "sticky"]
    names = [*experiments.COUNTED, "mwf", *sticky, *experiments.KEDA]
    waited = spread.waits(spark, plan.latency_streams, names, partial(progress, "latency"))
    return waited, experiments.on(experiments.typical(waited), names)


def publish(
    out: Path,
    plan: Plan,
    scores: Sequence[Score],
    waited: Sequence[Wait],
    shown: dict[str, Any],
    found: Sequence[Claim],
    grid_seconds: float | None,
    apart: Sequence[gaps.Gap] = (),
) -> None:
    """Write tables, figures and the report."""
    (out / "tables").mkdir(parents=True, exist_ok=True)
    experiments.write(out / "tables" / "scores.csv", scores)
    experiments.write(out / "tables" / "latency.csv", waited)
    if apart:
        experiments.write(out / "tables" / "gaps.csv", apart)
    (out / "claims.json").write_text(
        json.dumps([asdict(claim) for claim in found], indent=2, ensure_ascii=False), "utf-8"
    )
    starts = ["random"] if "random" in plan.starts else list(plan.starts)
    cbs, rscore = (experiments.mean(scores, key, starts) for key in ("cbs", "rscore"))
    pictures = out / "figures"
    figures.cbs(pictures, cbs)
    figures.rscore(pictures, rscore)
    for delta in experiments.VARIED:
        if delta in cbs:
            figures.pareto(pictures, delta, cbs[delta], rscore[delta])
    figures.latency(pictures, shown)
    p90 = _by_algorithm(waited, lambda wait: wait.p90)
    late = _by_algorithm(waited, lambda wait: 100 * wait.late_bytes / wait.bytes)
    figures.streams(pictures, p90, late)
    claimed = report.Table(
        "What the paper says and what was measured",
        ("paper", "says", "code", "measured", "verdict"),
        [(c.section, c.says, c.code, c.measured, c.verdict) for c in found],
    )
    # On a few partitions the algorithms hardly differ, and a comparison would mislead.
    told = paper_panels.on_packing(cbs, rscore) if plan.partitions >= COMPARABLE else []
    told += paper_panels.on_latency(shown, waited)
    captions = figures.CAPTIONS | {
        panel.name: f"{figures.CAPTIONS[panel.name]} {panel.see} {panel.beside}" for panel in told
    }
    first = f"pareto-{experiments.VARIED[0]:g}"
    sections = [
        Section("What was found", paper_panels.summary(cbs, rscore, waited), figures=[first]),
        Section("Figures", figures=[name for name in figures.CAPTIONS if name != first]),
        Section("Claims", tables=[claimed]),
        Section("Tables", tables=[*_tables(scores, starts, waited), *gaps.tables(apart)]),
        Section("Settings and versions", tables=_facts(plan, grid_seconds)),
    ]
    page = report.page(TITLE, sections, pictures, captions)
    (out / "report.html").write_text(page, "utf-8")
    parts = {"title": TITLE, "sections": [asdict(section) for section in sections]}
    (out / "report.json").write_text(
        json.dumps({**parts, "captions": captions}, ensure_ascii=False), "utf-8"
    )
    made = datetime.now(UTC).date()
    for folder, name in (("figures", "paper.md"), ("img", "docs-paper.md")):
        text = paper_page.document(
            plan, found, told, fingerprints.stamp("paper", _command(plan), made), folder
        )
        (out / name).write_text(text, "utf-8")
    blocks = paper_blocks.results(plan, cbs, rscore, waited)
    stamp = fingerprints.stamp("evaluation", _command(plan), made)
    (out / "docs-evaluation.md").write_text(f"{stamp}\n\n{blocks}", "utf-8")


def _command(plan: Plan) -> str:
    """Return the command that makes the same results."""
    usual = Plan()
    words = {
        "partitions": plan.partitions,
        "measurements": plan.measurements,
        "deltas": ",".join(f"{delta:g}" for delta in plan.deltas),
        "starts": ",".join(plan.starts),
        "seeds": plan.seeds,
        "clamp": plan.clamp,
        "algorithms": ",".join(a for a in plan.algorithms if a not in experiments.PAPER),
    }
    shown = {
        "deltas": ",".join(f"{delta:g}" for delta in usual.deltas),
        "starts": ",".join(usual.starts),
        "algorithms": ",".join(a for a in usual.algorithms if a not in experiments.PAPER),
    }
    changed = [
        f"--{key} {value}"
        for key, value in words.items()
        if value != shown.get(key, getattr(usual, key))
    ]
    return " ".join([COMMAND, *changed])


def claim(out: Path) -> None:
    """Refuse a folder with the rows of code that gives other results."""
    out.mkdir(parents=True, exist_ok=True)
    file, mine = out / "fingerprint", fingerprints.of("paper")
    if not file.exists():
        file.write_text(mine + "\n", "utf-8")
    if file.read_text("utf-8").strip() != mine:
        raise WrongInput(
            f"{out} holds results of a version of lagless that finds others: choose another folder"
        )


def _by_algorithm(waited: Sequence[Wait], value: Callable[[Wait], float]) -> dict[str, list[float]]:
    gathered: dict[str, list[float]] = {}
    for row in waited:
        gathered.setdefault(row.algorithm, []).append(value(row))
    return gathered


def _tables(
    scores: Sequence[Score], starts: Sequence[str], waited: Sequence[Wait]
) -> list[report.Table]:
    tables = []
    for key, caption, form in (
        ("cbs", "CBS by δ", "{:.2%}"),
        ("rscore", "E(Rscore) by δ", "{:.3f}"),
        ("consumers", "Consumers by δ, mean", "{:.2f}"),
        ("migrations", "Migrations per iteration by δ, mean", "{:.1f}"),
        ("seconds", "Seconds per packing by δ, mean", "{:.6f}"),
    ):
        values = experiments.mean(scores, key, starts)
        names = list(dict.fromkeys(row.algorithm for row in scores))
        rows = [(a, *(form.format(values[delta][a]) for delta in values)) for a in names]
        tables.append(report.Table(caption, ("algorithm", *(f"{d:g}" for d in values)), rows))
    keys = ("consumers", "late_bytes", "p50", "p90", "p99", "max")
    found = [_by_algorithm(waited, attrgetter(key)) for key in keys]
    rows = [(a, *(f"{median_high(by_name[a]):.2f}" for by_name in found)) for a in found[0]]
    header = ("algorithm", "consumers", "late bytes", "p50 (s)", "p90 (s)", "p99 (s)", "max (s)")
    return [*tables, report.Table("Latency, medians over streams", header, rows)]


def _facts(plan: Plan, grid_seconds: float | None) -> list[report.Table]:
    settings = {
        "partitions": str(plan.partitions),
        "measurements": str(plan.measurements),
        "δ (% of C)": ", ".join(f"{delta:g}" for delta in plan.deltas),
        "starts": ", ".join(plan.starts),
        "seeds": str(plan.seeds),
        "clamp": plan.clamp,
        "algorithms": ", ".join(plan.algorithms),
        "online algorithms": "partitions in a new random order at each iteration",
        "latency": f"{PARTITIONS} partitions, {SETTING.measurements} measurements, "
        f"δ = {experiments.DELTA:g}, {RATES}, {plan.latency_streams} streams",
        "grid": f"{len(plan.grid)} cells"
        + ("" if grid_seconds is None else f" in {grid_seconds:.1f} s"),
    }
    software = {"lagless": lagless.__version__, "Python": platform.python_version()}
    libraries = report.versions("numpy", "numba", "pyspark", "pyarrow", "matplotlib")
    return [
        report.Table("Settings", ("", ""), list(settings.items())),
        report.Table("Versions", ("", ""), list((software | libraries).items())),
    ]
