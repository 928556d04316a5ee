"""Calibration on the real parts: data from the load generator, read by a consumer's own cycles."""

import itertools
import json
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lagless import extras
from lagless.consumer.batches import Batch
from lagless.consumer.cycle import Cycle
from lagless.consumer.orders import Claims
from lagless.errors import LaglessError, MissingPart, WrongSettings
from lagless.lab import report
from lagless.lab.live import capacity
from lagless.lab.live.capacity import CONDITIONS, Capacity, Condition, choose
from lagless.lab.live.journal import Journal
from lagless.lab.load import flows, records
from lagless.lab.load.load import Load
from lagless.lab.testbed import Testbed
from lagless.model import TopicPartition
from lagless.settings import Settings, TopicSettings
from lagless.wiring.clock import RealClock

with extras.needed("kafka"):
    from lagless.adapters.kafka import connection
    from lagless.adapters.kafka.offsets import Offsets, delete_topics
with extras.needed("spark"):
    from lagless.adapters.lake import store
    from lagless.wiring.consumer import make_lake

__all__ = ["choose", "observe", "run", "run_in_pod"]
WARM = 3
"""First cycles, which do not count: probes, and code that the JVM has not compiled yet."""
FILLING = 40e6
"""Bytes/s at which the data are written."""


def run(
    settings: Settings,
    conditions: Sequence[Condition],
    scale: float,
    out: Path,
    tell: Callable[[str], None],
) -> Capacity:
    """Measure the throughput per cycle under each condition, and write the results."""
    out.mkdir(parents=True, exist_ok=True)
    rates = {}
    for condition in conditions:
        size = condition.bytes * scale
        tell(
            f"condition {condition.number}: {size / 1e6:.0f} MB in {condition.partitions} "
            f"partitions and {condition.tables} tables"
        )
        rates[condition.number] = _measure(settings, condition, size, tell)
    measured = Capacity(rates, settings.controller.iteration, settings.controller.rebalance)
    (out / "calibration.json").write_text(json.dumps({**measured.told(), "rates": rates}, indent=1))
    (out / "calibration.toml").write_text(measured.settings())
    try:
        capacity.draw(measured, out)
    except MissingPart as error:  # the images have no library for figures
        tell(f"no figure: {error}")
    return measured


def run_in_pod(
    settings: Settings, words: Sequence[str], out: Path, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Measure in a pod that is like a consumer's, and write the results but for the figure."""
    if settings.provisioner.kind != "kubernetes":
        raise WrongSettings('--pod needs provisioner.kind = "kubernetes"')
    with extras.needed("kubernetes"):
        from lagless.adapters.kubernetes import measuring_pod
    told = measuring_pod.run(settings, words, tell)
    out.mkdir(parents=True, exist_ok=True)
    (out / "calibration.json").write_text(json.dumps(told, indent=1))
    (out / "calibration.toml").write_text(capacity.settings(told["max_rate"]))
    return told


def _measure(
    settings: Settings, condition: Condition, size: float, tell: Callable[[str], None]
) -> list[float]:
    mark = f"lagless-calibration-{uuid.uuid4().hex[:8]}"
    counts = condition.topics(mark)
    root = settings.lake.path
    lake = root.absolute() / mark if isinstance(root, Path) else root.inside(mark)
    here = settings.model_copy(
        update={
            "group": mark,
            "topics": tuple(counts),
            "lake": settings.lake.model_copy(update={"path": lake}),
            "topic": dict.fromkeys(counts, TopicSettings(format="json", schema=records.SCHEMA)),
        }
    )
    try:
        speed = FILLING / condition.partitions
        client = connection.confluent(settings.kafka)
        client.pop("logger")
        flow = flows.steady(flows.spread(counts), speed)
        tally = Load(settings.kafka.bootstrap, flow, client=client).run(size / FILLING)
        tell(f"{tally.bytes / 1e6:.0f} MB are written")
        return _read(here, counts)
    finally:
        store.of(settings.lake).delete_folder(mark)
        try:
            delete_topics(settings, counts)
        except LaglessError as error:
            tell(f"the topics {mark}-* were left behind: {error}")


def _read(settings: Settings, counts: dict[str, int]) -> list[float]:
    """Read everything in cycles of one batch, and return the bytes/s of each."""
    offsets = Offsets(settings)
    lake = make_lake(settings)
    lake.ready()
    clock = RealClock()
    claims = Claims(offsets, lake, "earliest")
    batch = float(settings.consumer.batch_bytes)
    deadline = settings.consumer.cycle_deadline
    cycle = Cycle(offsets, lake, clock, claims, Batch(batch, batch), "fail", deadline)
    held: dict[TopicPartition, int] = {}
    for topic, count in counts.items():
        held |= claims.claim(topic, flows.spread({topic: count}), None)
    rates: list[float] = []
    for done in itertools.count(1):
        began = clock.now()
        gathered = cycle.gather(held)
        if not gathered.spans:
            break
        report = cycle.run(held, gathered, batch)
        for error in report.troubles.values():
            raise error
        read = sum(taken.bytes for taken in report.taken.values() if taken.intake.landed)
        # The last cycle reads the remainder, which says nothing about a full batch.
        if done > WARM and read >= 0.5 * batch:
            rates.append(read / (clock.now() - began))
    lake.close()
    offsets.close()
    return rates


def observe(journal: Journal, scale: float) -> None:
    """Measure the conditions that the journal lacks, each on a testbed of its own."""
    rows = journal.all("conditions")
    for condition in CONDITIONS:
        journal.progress(len(rows), len(CONDITIONS))
        if any(row["condition"] == condition.number for row in rows):
            continue
        with Testbed() as bed:
            settings, _ = bed.settle({"group": "capacity", "topics": ["capacity"]})
            measured = run(settings, [condition], scale, bed.folder / "out", journal.say)
        row = {
            "condition": condition.number,
            "bytes": condition.bytes * scale,
            "partitions": condition.partitions,
            "tables": condition.tables,
            "batch_bytes": settings.consumer.batch_bytes,
            "rates": list(measured.rates[condition.number]),
        }
        journal.note("conditions", row)
    journal.progress(len(rows), len(CONDITIONS))
    journal.finish(machine=report.machine())
