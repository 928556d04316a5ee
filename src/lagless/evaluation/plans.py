"""What an evaluation of the paper is to run."""

from collections.abc import Sequence
from dataclasses import dataclass

from lagless import packing
from lagless.errors import WrongInput
from lagless.evaluation import cells, gaps
from lagless.evaluation.experiments import PAPER
from lagless.simulation import streams

VARIED = (5.0, 25.0)
"""The δ of the Pareto fronts, and at which the paper's silent choices are varied."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run."""

    partitions: int = 200
    measurements: int = 500
    deltas: Sequence[float] = streams.DELTAS
    starts: Sequence[streams.Start] = streams.STARTS
    seeds: int = 1
    clamp: streams.Clamp = "capacity"
    algorithms: Sequence[str] = (*PAPER, "sticky", "ezzeddine")
    latency_streams: int = 20

    @property
    def setting(self) -> cells.Setting:
        """Give what all cells have in common."""
        return cells.Setting(measurements=self.measurements, clamp=self.clamp)

    @property
    def grid(self) -> list[cells.Cell]:
        """List the grid's cells."""
        return cells.every(
            self.algorithms, self.deltas, self.starts, range(self.seeds), (self.partitions,)
        )

    @property
    def compared(self) -> list[cells.Cell]:
        """List the cells that are compared with the exact solver's bounds, where it takes part."""
        if not any(name.split(":")[0] == "exact" for name in self.algorithms):
            return []
        if not gaps.is_possible(self.partitions):
            raise WrongInput(
                f"exact works to {gaps.MOST_PARTITIONS} partitions, not {self.partitions}: "
                "take fewer by --partitions, or leave it out of --algorithms"
            )
        return cells.every(
            self.algorithms, self.deltas, self.starts[:1], range(self.seeds), (self.partitions,)
        )

    @property
    def exact_seconds(self) -> float:
        """Give the seconds that the solver has for one question."""
        for name in self.algorithms:
            if name.split(":")[0] == "exact":
                _, parameters = packing.algorithm(name)
                return float(parameters.get("seconds", 10.0))
        return 10.0

    @property
    def varied(self) -> list[cells.Cell]:
        """List the cells that show what choices do that the paper leaves open."""
        deltas = [delta for delta in self.deltas if delta in VARIED]
        return cells.every(PAPER, deltas, ("random",), range(self.seeds), (self.partitions,))
