"""A small grid and latency experiment, worked in this process, for the tests of what is shown."""

from functools import cache
from pathlib import Path

import pyarrow as pa

from lagless.lab.model.latency import Latency
from lagless.lab.paper import cells, claims, experiments, latency_claims, paper_run
from lagless.lab.paper.experiments import KEDA, PAPER

PLAN = experiments.Plan(
    partitions=30,
    measurements=25,
    deltas=(0.0, 5.0, 25.0),
    starts=("random", "zero"),
    algorithms=(*PAPER, "ezzeddine"),
    latency_streams=2,
)


@cache
def scores(order: str = "shuffled", clamp: str = "capacity") -> list[experiments.Score]:
    """Score the plan's cells."""
    setting = cells.Setting(PLAN.measurements, clamp=clamp, order=order)  # type: ignore[arg-type]
    batches = [cells.work(cell, setting) for cell in sorted(PLAN.grid)]
    return experiments.score(pa.Table.from_batches(batches))


@cache
def lowest() -> list[experiments.Score]:
    """Score Next Fit with the lowest number as its first consumer."""
    setting = cells.Setting(PLAN.measurements)
    return experiments.score(
        pa.Table.from_batches([cells.work(cell, setting) for cell in sorted(PLAN.lowest)])
    )


@cache
def waited() -> list[experiments.Wait]:
    """Run the latency experiment on two streams."""
    return experiments.over(range(2), [*experiments.COUNTED, "mwf", *KEDA])


@cache
def one() -> dict[str, Latency]:
    """Keep the distributions of one stream."""
    return experiments.on(0, [*experiments.COUNTED, "mwf", *KEDA])


@cache
def found() -> list[claims.Claim]:
    """Check all claims."""
    evidence = claims.Evidence(scores(), scores("fixed"), scores(clamp="none"), lowest())
    return [*claims.on_packing(evidence), *latency_claims.on_latency(waited())]


def publish(out: Path) -> None:
    """Write everything as `evaluate paper` does."""
    paper_run.publish(out, PLAN, scores(), waited(), one(), found(), 1.0)
