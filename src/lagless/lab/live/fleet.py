"""Members of a consumer group as child processes: started and ended one by one on request."""

import itertools
from collections.abc import Callable, Collection
from pathlib import Path

from lagless.lab.live import live_stream
from lagless.lab.testbed import Testbed


class Fleet:
    """The members of one group; all run `rival_consumer` with the same words."""

    def __init__(
        self,
        bed: Testbed,
        group: str,
        topic: str,
        table: Path,
        words: Callable[[str], list[str]] = lambda _: [],
        partitions: int = live_stream.PARTITIONS,
    ) -> None:
        self._bed = bed
        self.group, self.topic, self.partitions = group, topic, partitions
        self._words = words
        self._common = ["--bootstrap", bed.broker.bootstrap, "--topic", topic, "--group", group]
        self._common += ["--table", str(table), "--max-rate", f"{live_stream.MAX_RATE:g}"]
        self._numbers = itertools.count(1)
        self.names: list[str] = []
        """The members that run, the oldest first."""

    def resize(self, size: int, idle: Collection[str] | None = None) -> None:
        """Start what is missing; end what is too much, the youngest first.

        With `idle`, only members named there may be ended.
        """
        while len(self.names) < size:
            name = f"{self.group}-{next(self._numbers)}"
            self.names.append(name)
            words = [*self._common, *self._words(name)]
            self._bed.start_module(name, "lagless.lab.live.rival_consumer", *words)
        may_go = [name for name in self.names if idle is None or name in idle]
        gone = may_go[len(may_go) - min(len(may_go), len(self.names) - size) :]
        self.names = [name for name in self.names if name not in gone]
        if gone:
            self._bed.children.end(*gone, patience=30)

    def end(self) -> None:
        """End all members."""
        self.resize(0)

    def refused(self) -> int:
        """Return how many commits of offsets the group refused."""
        logs = self._bed.log("").parent.glob(f"{self.group}-*.log")
        return sum(
            log.read_text(errors="replace").count("offsets were not committed") for log in logs
        )
