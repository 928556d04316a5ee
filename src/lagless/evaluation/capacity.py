"""What a consumer can read (paper, section "Kafka Consumer Group Autoscaler Evaluation").

The paper had one consumer read three very different sets of data at its maximum rate, and found a
common mode of its throughput per cycle. Here are the three conditions, the density of what was
measured, its mode, and the C̄ and C that follow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lagless import extras, model
from lagless.errors import WrongInput

Floats = NDArray[np.float64]
GRID = 512
"""Points at which a density is given."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the paper's testing conditions."""

    number: int
    bytes: float
    partitions: int
    tables: int

    def topics(self, prefix: str) -> dict[str, int]:
        """Give the topics and how the partitions are shared out among them."""
        least, more = divmod(self.partitions, self.tables)
        return {f"{prefix}-{i}": least + (i < more) for i in range(self.tables)}


CONDITIONS = (Condition(1, 648e6, 32, 1), Condition(2, 100e6, 116, 5), Condition(3, 678e6, 144, 5))


def choose(text: str) -> tuple[Condition, ...]:
    """Read the numbers of conditions, "1,3" say."""
    known = {str(one.number): one for one in CONDITIONS}
    asked = [part.strip() for part in text.split(",") if part.strip()]
    for part in asked:
        if part not in known:
            raise WrongInput(f"there is no condition {part!r}; there are 1, 2 and 3")
    if not asked:
        raise WrongInput("name at least one of the conditions 1, 2 and 3")
    return tuple(known[part] for part in asked)


def density(rates: Sequence[float], grid: Floats) -> Floats:
    """Estimate the density of rates, with Gaussian kernels by Silverman's rule."""
    values = np.asarray(rates, dtype=np.float64)
    spread = min(values.std(), (np.quantile(values, 0.75) - np.quantile(values, 0.25)) / 1.34)
    width = 0.9 * (spread or values.std()) * len(values) ** -0.2
    width = max(width, 1e-3 * max(abs(values).max(), 1.0))
    distances = (grid[:, None] - values[None, :]) / width
    total = np.exp(-0.5 * distances**2).sum(axis=1)
    found: Floats = total / (len(values) * width * np.sqrt(2 * np.pi))
    return found


def mode(rates: Sequence[float]) -> float:
    """Give the rate at which the density is highest."""
    if not rates:
        raise WrongInput("there is no mode of no measurements")
    low, high = min(rates), max(rates)
    if low == high:
        return float(low)
    grid = np.linspace(low, high, 4 * GRID)
    return float(grid[int(density(rates, grid).argmax())])


@dataclass(frozen=True, slots=True)
class Capacity:
    """What was measured, and what follows."""

    rates: Mapping[int, Sequence[float]]
    """Bytes/s of each cycle, by condition."""
    iteration: float
    rebalance: float

    @property
    def modes(self) -> dict[int, float]:
        """Give the mode of each condition."""
        return {number: mode(rates) for number, rates in self.rates.items()}

    @property
    def max_rate(self) -> float:
        """Give C̄: the least of the modes, so that no condition is promised more than it has."""
        return min(self.modes.values())

    @property
    def capacity(self) -> float:
        """Give C."""
        return model.capacity(self.max_rate, self.iteration, self.rebalance)

    def settings(self) -> str:
        """Write the settings that take what was measured."""
        return f"[consumer]\ncalibrated_rate = {round(self.max_rate)}\n"

    def told(self) -> dict[str, object]:
        """Give the numbers as they are told in JSON."""
        return {
            "conditions": {
                str(number): {
                    "cycles": len(rates),
                    "mode": self.modes[number],
                    "median": float(np.median(rates)),
                    "p10": float(np.quantile(rates, 0.1)),
                    "p90": float(np.quantile(rates, 0.9)),
                }
                for number, rates in self.rates.items()
            },
            "max_rate": self.max_rate,
            "capacity": self.capacity,
        }

    def text(self) -> str:
        """Tell the numbers for people."""
        lines = [
            f"condition {number}: mode {value / 1e6:.2f} MB/s in {len(self.rates[number])} cycles"
            for number, value in self.modes.items()
        ]
        lines.append(f"max rate C̄ {self.max_rate / 1e6:.2f} MB/s")
        lines.append(f"capacity C {self.capacity / 1e6:.2f} MB/s")
        return "\n".join(lines)


def draw(found: Capacity, file: Path) -> None:
    """Draw the density of each condition."""
    with extras.needed("evaluation"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    everything = [rate for rates in found.rates.values() for rate in rates]
    grid = np.linspace(0, max(everything) * 1.1, GRID)
    for number, rates in found.rates.items():
        axes.plot(grid / 1e6, density(rates, grid) * 1e6, label=f"Test {number}")
    axes.axvline(found.max_rate / 1e6, color="black", linestyle=":", label="C̄")
    axes.set_xlabel("throughput per cycle, MB/s")
    axes.set_ylabel("density")
    axes.legend()
    figure.savefig(file)
