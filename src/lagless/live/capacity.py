"""Capacity: one consumer at full speed under the paper's three conditions, as `calibrate` does."""

from collections.abc import Callable

from lagless.evaluation.capacity import CONDITIONS
from lagless.live import machine, stand
from lagless.live.journal import Journal
from lagless.wiring import calibration


def run(journal: Journal, scale: float, tell: stand.Tell, told: Callable[[int, int], None]) -> None:
    """Measure the conditions that are not there yet, each with its own fresh stand."""
    for condition in CONDITIONS:
        there = [row["condition"] for row in journal.all("conditions")]
        told(len(there), len(CONDITIONS))
        if condition.number in there:
            continue
        with stand.raised(tell, spark=True) as here:
            settings, _ = here.settle("capacity", {"group": "capacity", "topics": ["capacity"]})
            found = calibration.run(settings, [condition], scale, here.folder / "out", tell)
        row = {
            "condition": condition.number,
            "bytes": condition.bytes * scale,
            "partitions": condition.partitions,
            "tables": condition.tables,
            "batch_bytes": settings.consumer.batch_bytes,
            "rates": list(found.rates[condition.number]),
        }
        journal.note("conditions", row)
        told(len(journal.all("conditions")), len(CONDITIONS))
    journal.finish(machine=machine.facts())
