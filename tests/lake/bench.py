"""One topic on the way into its table, one cycle at a time."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from lagless.adapters.kafka.offsets import Offsets
from lagless.consumer.batches import Batch
from lagless.consumer.cycle import Cycle, Gathered, Report
from lagless.consumer.orders import Claims
from lagless.errors import Away
from lagless.model import TopicPartition
from lagless.settings import Settings, parse
from lagless.wiring import consumer as wiring
from lagless.wiring.clock import RealClock


class Bench:
    """A consumer's cycle without its loop."""

    def __init__(
        self,
        bootstrap: str,
        spark: str,
        lake: Path | str,
        group: str,
        topic: str,
        of_topic: Mapping[str, Any],
        registry: str | None = None,
        storage: Mapping[str, Any] | None = None,
        **consumer: Any,
    ) -> None:
        self.topic = topic
        self.path = Path(lake) / topic
        self.settings: Settings = parse(
            {
                "group": group,
                "topics": [topic],
                "kafka": {"bootstrap": bootstrap},
                "spark": {"url": spark},
                "lake": {"path": str(lake), "storage": dict(storage or {})},
                "registry": {"url": registry, "timeout": 5},
                "topic": {topic: dict(of_topic)},
                "consumer": {"on_data_loss": "continue", **consumer},
            }
        )
        self.offsets = Offsets(self.settings)
        self.lake = wiring.make_lake(self.settings)
        self.claims = Claims(self.offsets, self.lake, self.settings.consumer.start)
        self.cycle = Cycle(
            self.offsets,
            self.lake,
            RealClock(),
            self.claims,
            Batch(1e9, 1e9),
            self.settings.consumer.on_data_loss,
            60.0,
        )
        self.held: dict[TopicPartition, int] = {}

    def claim(self, generation: int | None = None) -> None:
        """Claim every partition of the topic."""
        (_, count) = self.offsets.topics([self.topic])[self.topic]
        every = [TopicPartition(self.topic, number) for number in range(count)]
        until = time.monotonic() + 60
        while True:
            try:
                self.held = dict(self.claims.claim(self.topic, every, generation))
                return
            except Away:  # the first to ask a new broker for a group's offsets
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def run(self, budget: float = 1e9) -> Report:
        """Run one cycle over all that is there, or about as many bytes of it."""
        if not self.held:
            self.claim()
        gathered: Gathered = self.cycle.gather(self.held)
        return self.cycle.run(self.held, gathered, budget)

    def drain(self, cycles: int = 40) -> None:
        """Run cycles until nothing is left; raise what a cycle could not do."""
        if not self.held:
            self.claim()
        for _ in range(cycles):
            gathered = self.cycle.gather(self.held)
            if not gathered.spans:
                return
            report = self.cycle.run(self.held, gathered, 1e9)
            for error in report.troubles.values():
                if "transform raises" not in str(error):
                    raise error
        raise AssertionError(f"{self.topic} was not drained in {cycles} cycles")

    def rows(self, suffix: str = "") -> list[dict[str, Any]]:
        """Return the rows of the table, by partition and offset."""
        path = Path(f"{self.path}{suffix}")
        if not DeltaTable.is_deltatable(str(path)):
            return []
        rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: (row["_partition"], row.get("_offset", 0)))

    def files(self) -> int:
        """Count the files of the table."""
        return len(DeltaTable(str(self.path)).file_uris())

    def strays(self) -> list[str]:
        """Name the data files that the table does not list."""
        listed = {Path(uri).name for uri in DeltaTable(str(self.path)).file_uris()}
        return sorted(
            p.name
            for p in self.path.rglob("*.parquet")
            if p.name not in listed and "_delta_log" not in p.parts
        )
