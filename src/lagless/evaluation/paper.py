"""`lagless evaluate paper`: the grid, the latency experiment, and all that is made from them."""

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lagless
from lagless import packing
from lagless.evaluation import (
    claims,
    claims_assumptions,
    claims_latency,
    claims_packing,
    document,
    figures,
    gaps,
    grid,
    report,
    tables,
    waits,
)
from lagless.evaluation.experiments import KEDA
from lagless.evaluation.plans import VARIED, Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIBRARIES = ("numpy", "numba", "pyspark", "pyarrow", "matplotlib")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the results are and what they took."""

    cells: int
    rows: int
    grid_seconds: float
    seconds: float
    report: Path


Told = Callable[[str, grid.Progress], None]


def run(spark: "SparkSession", plan: Plan, out: Path, told: Told = lambda *_: None) -> Outcome:
    """Run the paper's experiments, and write rows, tables, figures and the report into a folder."""
    began = time.perf_counter()
    for name in plan.algorithms:
        packing.packer(name)
    compared = plan.compared
    resumed = not grid.done(out / "grid").keys().isdisjoint(plan.grid)
    rows = grid.run(spark, plan.grid, plan.setting, out / "grid", partial(told, "grid"))
    grid_seconds = time.perf_counter() - began
    other = {
        name: tables.score(
            grid.run(spark, plan.varied, setting, out / f"grid-{name}", partial(told, name))
        )
        for name, setting in (
            ("fixed", replace(plan.setting, order="fixed")),
            ("unclamped", replace(plan.setting, clamp="none")),
        )
    }
    scores = tables.score(rows)
    apart = gaps.over(
        compared,
        plan.setting,
        plan.exact_seconds,
        lambda done: told("exact", grid.Progress(done, 0, len(compared))),
    )
    waited, shown = _latency(plan, told)
    found = [
        *claims_packing.on_packing(
            claims_assumptions.Evidence(scores, other["fixed"], other["unclamped"])
        ),
        *claims_latency.on_latency(waited),
    ]
    seconds = None if resumed else grid_seconds
    publish(out, plan, scores, waited, shown, found, seconds, apart)
    return Outcome(
        cells=len(plan.grid),
        rows=rows.num_rows,
        grid_seconds=grid_seconds,
        seconds=time.perf_counter() - began,
        report=out / "report.html",
    )


def _latency(plan: Plan, told: Told) -> tuple[list[waits.Wait], dict[str, Any]]:
    """Run the latency experiment on many streams, and keep a typical one's distributions."""
    sticky = [name for name in plan.algorithms if name.split(":")[0] == "sticky"]
    names = [*waits.COUNTED, "mwf", *sticky, *KEDA]
    waited: list[waits.Wait] = []
    for seed in range(plan.latency_streams):
        told("latency", grid.Progress(seed, 0, plan.latency_streams))
        waited += waits.over([seed], names)
    told("latency", grid.Progress(plan.latency_streams, 0, plan.latency_streams))
    return waited, waits.on(waits.typical(waited), names)


def publish(
    out: Path,
    plan: Plan,
    scores: Sequence[tables.Score],
    waited: Sequence[waits.Wait],
    shown: dict[str, Any],
    found: Sequence[claims.Claim],
    grid_seconds: float | None,
    apart: Sequence[gaps.Gap] = (),
) -> None:
    """Write tables, figures and the report."""
    (out / "tables").mkdir(parents=True, exist_ok=True)
    tables.write(out / "tables" / "scores.csv", scores)
    tables.write(out / "tables" / "latency.csv", waited)
    if apart:
        tables.write(out / "tables" / "gaps.csv", apart)
    (out / "claims.json").write_text(
        json.dumps([asdict(claim) for claim in found], indent=2, ensure_ascii=False), "utf-8"
    )
    starts = ["random"] if "random" in plan.starts else list(plan.starts)
    cbs, rscore = (tables.mean(scores, key, starts) for key in ("cbs", "rscore"))
    pictures = out / "figures"
    figures.cbs(pictures, cbs)
    figures.rscore(pictures, rscore)
    for delta in VARIED:
        if delta in cbs:
            figures.pareto(pictures, delta, cbs[delta], rscore[delta])
    figures.latency(pictures, shown)
    figures.streams(pictures, _by_algorithm(waited, "p90"), _late_share(waited))
    made = [*_tables(scores, starts, waited), *gaps.tables(apart)]
    page = report.page(pictures, found, made, _facts(plan, grid_seconds))
    (out / "report.html").write_text(page, "utf-8")
    (out / "paper.md").write_text(document.write(plan, found), "utf-8")


def _by_algorithm(waited: Sequence[waits.Wait], key: str) -> dict[str, list[float]]:
    gathered: dict[str, list[float]] = {}
    for one in waited:
        gathered.setdefault(one.algorithm, []).append(getattr(one, key))
    return gathered


def _late_share(waited: Sequence[waits.Wait]) -> dict[str, list[float]]:
    late, written = _by_algorithm(waited, "late_bytes"), _by_algorithm(waited, "bytes")
    return {
        name: [100 * x / y for x, y in zip(late[name], written[name], strict=True)] for name in late
    }


def _tables(
    scores: Sequence[tables.Score], starts: Sequence[str], waited: Sequence[waits.Wait]
) -> list[report.Table]:
    made = []
    for key, caption, form in (
        ("cbs", "CBS by δ", "{:.2%}"),
        ("rscore", "E(Rscore) by δ", "{:.3f}"),
        ("consumers", "Consumers by δ, mean", "{:.2f}"),
        ("migrations", "Migrations per iteration by δ, mean", "{:.1f}"),
        ("seconds", "Seconds per packing by δ, mean", "{:.6f}"),
    ):
        values = tables.mean(scores, key, starts)
        names = list(dict.fromkeys(one.algorithm for one in scores))
        rows = [(a, *(form.format(values[delta][a]) for delta in values)) for a in names]
        made.append(report.Table(caption, ("algorithm", *(f"{d:g}" for d in values)), rows))
    keys = ("consumers", "late_bytes", "p50", "p90", "p99", "max")
    medians = {key: _by_algorithm(waited, key) for key in keys}
    rows = [
        (a, *(f"{sorted(medians[key][a])[len(medians[key][a]) // 2]:.2f}" for key in keys))
        for a in medians["p90"]
    ]
    header = ("algorithm", "consumers", "late bytes", "p50 (s)", "p90 (s)", "p99 (s)", "max (s)")
    return [*made, report.Table("Latency, medians over streams", header, rows)]


def _facts(plan: Plan, grid_seconds: float | None) -> dict[str, dict[str, str]]:
    settings = {
        "partitions": str(plan.partitions),
        "measurements": str(plan.measurements),
        "δ (% of C)": ", ".join(f"{delta:g}" for delta in plan.deltas),
        "starts": ", ".join(plan.starts),
        "seeds": str(plan.seeds),
        "clamp": plan.clamp,
        "algorithms": ", ".join(plan.algorithms),
        "online algorithms": "partitions in an order shuffled anew at each iteration",
        "latency": f"{waits.PARTITIONS} partitions, {waits.SETTING.measurements} measurements,"
        f" δ = {waits.DELTA:g}, C = {waits.SETTING.capacity:g}, C̄ = {waits.MODEL.max_rate:g},"
        f" {plan.latency_streams} streams",
        "grid": f"{len(plan.grid)} cells"
        + ("" if grid_seconds is None else f" in {grid_seconds:.1f} s"),
    }
    versions = {"lagless": lagless.__version__, "Python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed under this name"
    return {"Settings": settings, "Versions": versions}
