"""What a load produced, written down so that it can be checked against Kafka and the lake."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lagless.errors import WrongInput

Counts = dict[str, dict[int, int]]
"""By topic and partition."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many records each partition got; their sequence numbers are 0, 1, 2, …

    `produced` are those that the broker confirmed. While a load runs, or after it crashed, up to
    `handed` may have arrived. `failed` is 0 unless Kafka gave records up for good.
    """

    produced: Counts = field(default_factory=dict)
    handed: Counts = field(default_factory=dict)
    bytes: int = 0
    seconds: float = 0.0
    failed: int = 0
    spoiled: int = 0
    complete: bool = False

    @property
    def records(self) -> int:
        """How many records the broker confirmed."""
        return sum(sum(counts.values()) for counts in self.produced.values())

    def report(self) -> dict[str, Any]:
        """Return the tally as JSON has it, with each partition's last sequence number."""
        return {
            "version": 1,
            "complete": self.complete,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "failed": self.failed,
            "spoiled": self.spoiled,
            "topics": {
                topic: {
                    str(number): {
                        "produced": count,
                        "handed": self.handed[topic][number],
                        "last_seq": count - 1,
                    }
                    for number, count in counts.items()
                }
                for topic, counts in self.produced.items()
            },
        }

    def save(self, path: Path) -> None:
        """Write the tally; a crash leaves the old file or the new one."""
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with draft.open("w") as file:
            json.dump(self.report(), file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a tally."""
        try:
            tally = json.loads(path.read_text())
            return cls(
                produced=_counts(tally["topics"], "produced"),
                handed=_counts(tally["topics"], "handed"),
                **{name: tally[name] for name in ("bytes", "seconds", "failed", "spoiled")},
                complete=tally["complete"],
            )
        except (KeyError, ValueError, TypeError) as error:
            raise WrongInput(f"{path} is not the tally of a load ({error!r})") from error


def _counts(topics: Mapping[str, Mapping[str, Mapping[str, int]]], which: str) -> Counts:
    return {
        topic: {int(number): counts[which] for number, counts in partitions.items()}
        for topic, partitions in topics.items()
    }
