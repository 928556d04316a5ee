"""What a consumer can read (paper, section "Kafka Consumer Group Autoscaler Evaluation").

Here are the paper's three conditions, the density of what was measured, its mode, and the C̄ and C
that follow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lagless import model
from lagless.errors import WrongInput
from lagless.lab import report
from lagless.lab.model.streams import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS, DASHES = (report.BLUE, report.VERMILION, report.GREEN), ("-", "--", ":")
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
        """Return the topics and how the partitions are shared out among them."""
        least, more = divmod(self.partitions, self.tables)
        return {f"{prefix}-{i}": least + (i < more) for i in range(self.tables)}


CONDITIONS = (Condition(1, 648e6, 32, 1), Condition(2, 100e6, 116, 5), Condition(3, 678e6, 144, 5))


def choose(text: str) -> tuple[Condition, ...]:
    """Return the conditions with these numbers, "1,3" say."""
    known = {str(condition.number): condition for condition in CONDITIONS}
    asked = [part.strip() for part in text.split(",") if part.strip()]
    if not asked:
        raise WrongInput("name at least one of the conditions 1, 2 and 3")
    try:
        return tuple(known[part] for part in asked)
    except KeyError as part:
        raise WrongInput(f"unknown condition {part}; choose from 1, 2 and 3") from None


def density(rates: Sequence[float], grid: Floats) -> Floats:
    """Estimate the density of rates, with Gaussian kernels by Silverman's rule."""
    values = np.asarray(rates, dtype=np.float64)
    spread = min(values.std(), (np.quantile(values, 0.75) - np.quantile(values, 0.25)) / 1.34)
    width = 0.9 * (spread or values.std()) * len(values) ** -0.2
    width = max(width, 1e-3 * max(abs(values).max(), 1.0))
    distances = (grid[:, None] - values[None, :]) / width
    total = np.exp(-0.5 * distances**2).sum(axis=1)
    return np.asarray(total / (len(values) * width * np.sqrt(2 * np.pi)))


def mode(rates: Sequence[float]) -> float:
    """Return the rate at which the density is highest."""
    if not rates:
        raise WrongInput("there are no measurements to take the mode of")
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
        """Return the mode of each condition."""
        return {number: mode(rates) for number, rates in self.rates.items()}

    @property
    def max_rate(self) -> float:
        """Return C̄: the least of the modes, so that no condition is promised more than it has."""
        return min(self.modes.values())

    @property
    def capacity(self) -> float:
        """Return C."""
        return model.capacity(self.max_rate, self.iteration, self.rebalance)

    def settings(self) -> str:
        """Write the settings that take what was measured."""
        return settings(self.max_rate)

    def told(self) -> dict[str, Any]:
        """Return the numbers as JSON has them."""
        places = {"median": 0.5, "p10": 0.1, "p90": 0.9}
        return {
            "conditions": {
                str(number): {"cycles": len(rates), "mode": self.modes[number]}
                | {name: float(np.quantile(rates, q)) for name, q in places.items()}
                for number, rates in self.rates.items()
            },
            "max_rate": self.max_rate,
            "capacity": self.capacity,
        }

    def text(self) -> str:
        """Return the numbers as text for people."""
        return text(self.told())


def settings(max_rate: float) -> str:
    """Write the settings that take what was measured."""
    return f"[consumer]\ncalibrated_rate = {round(max_rate)}\n"


def text(told: Mapping[str, Any]) -> str:
    """Return the numbers that `Capacity.told` gives as text for people."""
    lines = [
        f"condition {number}: mode {row['mode'] / 1e6:.2f} MB/s in {row['cycles']} cycles"
        for number, row in told["conditions"].items()
    ]
    rates = {"max rate C̄": told["max_rate"], "capacity C": told["capacity"]}
    lines += [f"{name} {value / 1e6:.2f} MB/s" for name, value in rates.items()]
    return "\n".join(lines)


def plot(axes: "Axes", rates: Mapping[str, Sequence[float]]) -> None:
    """Draw the density of the rates of each condition, by its label."""
    grid = np.linspace(0, max(map(max, rates.values())) * 1.1, GRID)
    for label, dash, colour in zip(rates, DASHES, COLOURS, strict=False):
        line = density(rates[label], grid) * 1e6
        axes.plot(grid / 1e6, line, dash, color=colour, label=label)
    axes.set(xlim=(0, None), xlabel="throughput per cycle (MB/s)")
    axes.set(ylim=(0, None), ylabel="density (1 per MB/s)")


def draw(measured: Capacity, folder: Path) -> None:
    """Draw the density of each condition as calibration.svg."""
    with report.canvas(folder, "calibration") as axes:
        plot(axes, {f"Test {number}": rates for number, rates in measured.rates.items()})
        axes.axvline(measured.max_rate / 1e6, color="black", linestyle=":", label="C̄")
