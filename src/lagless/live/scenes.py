"""What the response of a group is observed under, and how much of it is there already."""

import math
from dataclasses import dataclass
from typing import Any

from lagless.live.journal import Journal
from lagless.live.witness import Witness

SCENES = ((5.0, True), (25.0, True), (5.0, False), (25.0, False))
"""δ, and whether there is something to read; the last one goes on until enough were created."""
PARTS = {True: 1 / 8, False: 3 / 8}
"""Of the reassignments: those of consumers that read take longest."""
FASTEST = 0.85
"""How fast a partition is at most, in C, so that 20 consumers are enough for 32 of them."""
READ = 6.4
"""How fast all that are read can be together at most, in C: about five consumers."""
PATIENCE = 4
"""Measurements for each reassignment that is wanted: some need none."""
FULL = 4
"""How often consumers are requested while the node is full."""


def most(reading: bool, partitions: int) -> float:
    """Give how fast a partition is at most, in C."""
    return min(FASTEST, READ / partitions) if reading else FASTEST


@dataclass(frozen=True, slots=True)
class Size:
    """How much is observed: reassignments, a third as many creations."""

    observations: int = 300
    partitions: int = 32
    consumers: int = 20
    algorithm: str = "mwf"
    most: float = 18 * 60.0
    """Seconds after which it ends with what is there."""

    @property
    def creations(self) -> int:
        """How many consumers have to be created."""
        return -(-self.observations // 3)


class Counts:
    """What is there and what is still wanted."""

    def __init__(self, journal: Journal, size: Size, provisioner: str) -> None:
        self._journal = journal
        self._size = size
        self._provisioner = provisioner

    @property
    def total(self) -> int:
        """Give how many reassignments and creations are wanted."""
        return self._size.observations + self._size.creations

    @property
    def done(self) -> int:
        """Give how many of them are there."""
        made = min(len(self._all("creations")), self._size.creations)
        return min(len(self._all("reassignments")), self._size.observations) + made

    def wanted(self, place: int) -> int:
        """Give how many reassignments a scene should have."""
        return math.ceil(PARTS[SCENES[place][1]] * self._size.observations)

    def wants(self, place: int) -> bool:
        """Say whether this scene has to go on."""
        delta, reading = SCENES[place]
        known = self._all("reassignments")
        mine = [one for one in known if (one["delta"], one["reading"]) == (delta, reading)]
        if len(mine) < self.wanted(place):
            return True
        last = place == len(SCENES) - 1
        return last and len(self._all("creations")) < self._size.creations

    @property
    def full_rounds(self) -> int:
        """Give how often consumers are still to be requested on a full node."""
        known = {one["generation"] for one in self._all("creations") if one.get("full")}
        return max(0, FULL - len(known))

    def take(self, witness: Witness, place: int, full: bool = False) -> None:
        """Write down what the witness saw."""
        delta, reading = SCENES[place]
        mark: dict[str, Any] = {"provisioner": self._provisioner}
        mark |= {"delta": None if full else delta, "reading": reading, "full": full}
        done, made = witness.take()
        self._journal.all("creations").extend({**mark, **one} for one in made)
        self._journal.note("reassignments", *({**mark, **one} for one in done))

    def _all(self, key: str) -> list[dict[str, Any]]:
        found = self._journal.all(key)
        return [one for one in found if one["provisioner"] == self._provisioner]
