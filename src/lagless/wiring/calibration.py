"""Calibration on the real parts: data from the load generator, read by a consumer's own cycles."""

import json
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from lagless import extras
from lagless.consumer.claims import Claims
from lagless.consumer.cycle import Cycle
from lagless.consumer.ledger import Batch
from lagless.embedded import flows
from lagless.embedded.load import Load
from lagless.errors import LaglessError
from lagless.evaluation import capacity
from lagless.evaluation.capacity import Capacity, Condition, choose
from lagless.model import TopicPartition
from lagless.settings import Settings, TopicSettings
from lagless.wiring.clocks import RealClock

with extras.needed("kafka"):
    from lagless.adapters.kafka import connection
    from lagless.adapters.kafka.partitions import Offsets, delete_topics
with extras.needed("spark"):
    from lagless.wiring.consumer import make_lake

__all__ = ["choose", "run"]
SCHEMA = "topic STRING, partition INT, seq BIGINT, at DOUBLE, pad STRING"
WARM = 3
"""Cycles at the beginning that do not count: probes, and a JVM that meets the code."""
FILLING = 40e6
"""Bytes/s at which the data are made."""


def run(
    settings: Settings,
    conditions: Sequence[Condition],
    scale: float,
    out: Path,
    tell: Callable[[str], None],
) -> Capacity:
    """Measure the throughput per cycle under each condition, and write what follows."""
    out.mkdir(parents=True, exist_ok=True)
    rates = {}
    for condition in conditions:
        size = condition.bytes * scale
        tell(
            f"condition {condition.number}: {size / 1e6:.0f} MB in {condition.partitions} "
            f"partitions and {condition.tables} tables"
        )
        rates[condition.number] = _measure(settings, condition, size, tell)
    found = Capacity(rates, settings.controller.iteration, settings.controller.rebalance)
    (out / "calibration.json").write_text(json.dumps({**found.told(), "rates": rates}, indent=1))
    (out / "calibration.toml").write_text(found.settings())
    capacity.draw(found, out / "calibration.svg")
    return found


def _measure(
    settings: Settings, condition: Condition, size: float, tell: Callable[[str], None]
) -> list[float]:
    mark = f"lagless-calibration-{uuid.uuid4().hex[:8]}"
    counts = condition.topics(mark)
    lake = settings.lake.path.absolute() / mark
    here = settings.model_copy(
        update={
            "group": mark,
            "topics": tuple(counts),
            "lake": settings.lake.model_copy(update={"path": lake}),
            "topic": dict.fromkeys(counts, TopicSettings(format="json", schema=SCHEMA)),
        }
    )
    try:
        speed = FILLING / condition.partitions
        client = connection.confluent(settings.kafka)
        client.pop("logger")
        load = Load(
            settings.kafka.bootstrap, flows.steady(flows.spread(counts), speed), client=client
        )
        made = load.run(size / FILLING)
        tell(f"{made.bytes / 1e6:.0f} MB are there")
        return _read(here, counts)
    finally:
        shutil.rmtree(lake, ignore_errors=True)
        try:
            delete_topics(settings, counts)
        except LaglessError as error:
            tell(f"the topics {mark}-* were left behind: {error}")


def _read(settings: Settings, counts: dict[str, int]) -> list[float]:
    """Read everything in cycles of one batch, and give the bytes/s of each."""
    offsets = Offsets(settings)
    lake = make_lake(settings)
    lake.ready()
    clock = RealClock()
    claims = Claims(offsets, lake, "earliest")
    batch = float(settings.consumer.batch_bytes)
    cycle = Cycle(
        offsets,
        lake,
        clock,
        claims,
        Batch(batch, batch),
        "fail",
        settings.consumer.cycle_deadline,
    )
    held: dict[TopicPartition, int] = {}
    for topic, count in counts.items():
        held |= claims.claim(topic, range(count), None)
    rates: list[float] = []
    done = 0
    while True:
        began = clock.now()
        gathered = cycle.gather(held)
        if not gathered.spans:
            break
        report = cycle.run(held, gathered, batch)
        for error in report.troubles.values():
            raise error
        done += 1
        read = sum(taken.bytes for taken in report.taken.values() if taken.intake.landed)
        # The last cycle has what is left over: it says nothing of a full one.
        if done > WARM and read >= 0.5 * batch:
            rates.append(read / (clock.now() - began))
    lake.close()
    offsets.close()
    return rates
