"""A small grid and latency experiment, worked in this process, for the tests of what is shown."""

from functools import cache
from pathlib import Path

import pyarrow as pa

from lagless.evaluation import (
    cells,
    claims,
    claims_assumptions,
    claims_latency,
    claims_packing,
    paper,
    plans,
    tables,
    waits,
)
from lagless.evaluation.experiments import KEDA, PAPER

PLAN = plans.Plan(
    partitions=30,
    measurements=25,
    deltas=(0.0, 5.0, 25.0),
    starts=("random", "zero"),
    algorithms=(*PAPER, "ezzeddine"),
    latency_streams=2,
)


@cache
def scores(order: str = "shuffled", clamp: str = "capacity") -> list[tables.Score]:
    """Score the plan's cells."""
    setting = cells.Setting(PLAN.measurements, clamp=clamp, order=order)  # type: ignore[arg-type]
    batches = [cells.work(cell, setting) for cell in sorted(PLAN.grid)]
    return tables.score(pa.Table.from_batches(batches))


@cache
def waited() -> list[waits.Wait]:
    """Run the latency experiment on two streams."""
    return waits.over(range(2), [*waits.COUNTED, "mwf", *KEDA])


@cache
def found() -> list[claims.Claim]:
    """Check all claims."""
    evidence = claims_assumptions.Evidence(scores(), scores("fixed"), scores(clamp="none"))
    return [*claims_packing.on_packing(evidence), *claims_latency.on_latency(waited())]


def publish(out: Path) -> None:
    """Write everything as `evaluate paper` does."""
    shown = waits.on(0, [*waits.COUNTED, "mwf", *KEDA])
    paper.publish(out, PLAN, scores(), waited(), shown, found(), 1.0)
