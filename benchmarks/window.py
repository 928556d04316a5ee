"""How soon a speed is right after a change, and how noisy it is at rest.

    python -m benchmarks.window [--intervals 1,5] [--days 2] [--steps 40] [--seed 0]
    python -m benchmarks.window --plot docs/images/window.svg      # noise of other window lengths

Synthetic writers of 0.5 MB/s in the mean are measured by the monitor's window: as the paper has
it (30 s, plain), with changes detected as lagless does, and with Page's CUSUM test in its place,
all on the same bytes. Printed per writer, method and interval:

    noise     standard deviation of the published speed over its mean, at rest
    alarms    changes seen per partition and day at rest, where there are none
    ×1.5 …    median seconds from a step at a random moment until the speed is within 10 % and stays
              there for 5 s; «–» where more than half of the steps were not told within a minute
    ramp, day by how much the published speed is off (99th percentile) on a ramp to 4 times the
              speed within 10 minutes, and over a day that swings between half and 1.5 times
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from lagless.model import TopicPartition
from lagless.monitor import changes
from lagless.monitor.window import Window
from lagless.ports import LogSize, Measurement

P = TopicPartition("t", 0)
RATE, RECORD, LENGTH = 500_000.0, 100, 30.0
FACTORS = (1.5, 2.0, 4.0, 1 / 1.5, 1 / 4)
LENGTHS = (5, 10, 15, 20, 30, 45, 60, 90, 120)
Writer = Callable[[np.random.Generator, float], float]
"""The bytes of one interval that is to have so many in the mean."""


def steady(share: float) -> Writer:
    """Write evenly, but for some noise in each interval."""
    return lambda rng, mean: max(0.0, mean * (1 + share * rng.standard_normal()))


def bursts(size: float, spread: float = 0.0) -> Writer:
    """Write bursts at random moments (a Poisson process); `spread` is that of their logarithm."""

    def write(rng: np.random.Generator, mean: float) -> float:
        number = rng.poisson(mean / size)
        logarithms = spread * rng.standard_normal(number) - spread**2 / 2
        return float(np.sum(size * np.exp(logarithms)))

    return write


WRITERS: dict[str, Writer] = {
    "steady, 1 %": steady(0.01),
    "steady, 5 %": steady(0.05),
    "steady, 15 %": steady(0.15),
    "bursts of 100 kB": bursts(1e5),
    "bursts of 1 MB": bursts(1e6),
    "uneven bursts": bursts(1e5, 1.0),
}


class Cusum:
    """Page's test: sums of what each interval is above or below the mean, in standard deviations.

    An alarm is a sum over LIMIT; the change is where that sum began to grow.
    """

    DRIFT, LIMIT = 0.5, 12.0

    def __init__(self) -> None:
        self.noise = changes.Noise()
        self.sums = [0.0, 0.0]
        self.began = [0, 0]

    def split(self, points: Sequence[changes.Point]) -> int:
        """Return the index from which on the speed is another one, or 0."""
        last = len(points) - 1
        self.began = [max(0, at - 1) if last >= LENGTH else at for at in self.began]
        if last < 3 or points[-1][1] <= points[0][1] or self.noise.intervals < changes.FEWEST:
            return 0
        (t0, b0), (t1, b1) = points[-2:]
        mean = (b0 - points[0][1]) / (t0 - points[0][0])
        size = max(self.noise.size, changes.least(mean, t1 - t0))
        z = ((b1 - b0) / (t1 - t0) - mean) / max(1e-9, (size * mean / (t1 - t0)) ** 0.5)
        for side, value in enumerate((z, -z)):
            if self.sums[side] == 0:
                self.began[side] = last - 1
            self.sums[side] = max(0.0, self.sums[side] + value - self.DRIFT)
            if self.sums[side] > self.LIMIT:
                self.sums = [0.0, 0.0]
                return min(max(1, self.began[side]), last - 1)
        return 0


class CusumWindow:
    """A window of the same length that Page's test cuts."""

    def __init__(self) -> None:
        self.test = Cusum()
        self.points: list[changes.Point] = []
        self.cuts = 0

    def add(self, at: float, total: float) -> float:
        """Add a measurement, and return the speed."""
        points = self.points
        points.append((at, total))
        while len(points) > 2 and points[0][0] < at - LENGTH * 1.02:
            del points[0]
        if where := self.test.split(points):
            self.cuts += 1
            del points[:where]
        self.test.noise.learn(points)
        (t0, b0), (t1, b1) = points[0], points[-1]
        return (b1 - b0) / (t1 - t0) if len(points) > 1 else 0.0


class RealWindow:
    """The monitor's window, and how often it was cut."""

    def __init__(self, detect: bool, length: float = LENGTH) -> None:
        self.window = Window(length, detect)
        self.cuts = 0

    def add(self, at: float, total: float) -> float:
        """Add a measurement, and return the speed."""
        end = int(total / RECORD)
        before = self._points()
        self.window.add(Measurement(at, {P: LogSize(int(total), 0, end, "id", 1)}))
        # What the window forgets by itself is one point, or two where a measurement was late.
        self.cuts += self._points() < before - 1
        reading = self.window.readings().get(P)
        return reading.speed if reading else 0.0

    def _points(self) -> int:
        log = self.window._logs.get(P)
        return len(log.past) if log else 0


METHODS: dict[str, Callable[[], RealWindow | CusumWindow]] = {
    "plain": lambda: RealWindow(detect=False),
    "detected": lambda: RealWindow(detect=True),
    "CUSUM": CusumWindow,
}


def measured(
    method: RealWindow | CusumWindow, sizes: Sequence[float], interval: float
) -> Iterator[float]:
    """Return the speed after each interval."""
    method.add(0.0, 0.0)
    total = 0.0
    for number, size in enumerate(sizes, 1):
        total += size
        yield method.add(number * interval, total)


def written(
    writer: Writer, rng: np.random.Generator, rates: Sequence[float], interval: float
) -> list[float]:
    """Return the bytes of each interval, the rate being that of the interval's mean."""
    return [writer(rng, rate * interval) for rate in rates]


def told_after(speeds: Sequence[float], truth: float, interval: float) -> float:
    """Return the seconds until a speed is within 10 % of the truth for 5 s; infinite if never."""
    hold = max(1, round(5 / interval))
    good = [abs(speed / truth - 1) <= 0.1 for speed in speeds]
    for i in range(len(good) - hold + 1):
        if all(good[i : i + hold]):
            return i * interval
    return float("inf")


def row(
    name: str, method: str, interval: float, days: float, steps: int, seed: int
) -> dict[str, object]:
    """Measure one writer with one method."""
    writer, make = WRITERS[name], METHODS[method]
    rng = np.random.default_rng([seed, round(interval * 1000)])
    rounds = round(days * 86_400 / interval)
    rest = make()
    sizes = written(writer, rng, [RATE] * rounds, interval)
    speeds = np.array(list(measured(rest, sizes, interval)))[round(2 * LENGTH / interval) :]
    found: dict[str, object] = {
        "writer": name,
        "method": method,
        "interval": interval,
        "noise": float(np.std(speeds) / np.mean(speeds)),
        "alarms": rest.cuts / days,
    }
    quiet, after = round(180 / interval), round(60 / interval)
    for factor in FACTORS:
        seconds = []
        for _ in range(steps):
            share = rng.uniform()
            mixed = RATE * (share + factor * (1 - share))
            rates = [RATE] * quiet + [mixed] + [factor * RATE] * after
            told = list(measured(make(), written(writer, rng, rates, interval), interval))
            seconds.append(
                told_after(told[quiet:], factor * RATE, interval) + (1 - share) * interval
            )
        median = float(np.median(seconds))
        found[f"x{factor:.2g}"] = None if np.isinf(median) else round(median, 2)
    at = np.arange(0, 600, interval)
    ramp = [RATE] * quiet + list(RATE * (1 + 3 * at / 600))
    found["ramp"] = worst(make(), writer, rng, ramp, interval, quiet)
    at = np.arange(0, 86_400, interval)
    found["day"] = worst(
        make(),
        writer,
        rng,
        list(RATE * (1 + 0.5 * np.sin(at / 86_400 * 2 * np.pi))),
        interval,
        quiet,
    )
    return found


def worst(
    method: RealWindow | CusumWindow,
    writer: Writer,
    rng: np.random.Generator,
    rates: Sequence[float],
    interval: float,
    quiet: int,
) -> float:
    """Return by how much speeds are off, the 99th percentile of shares."""
    speeds = np.array(list(measured(method, written(writer, rng, rates, interval), interval)))
    return float(np.quantile(np.abs(speeds / np.array(rates) - 1)[quiet:], 0.99))


def lengths(seed: int) -> list[dict[str, float]]:
    """Return noise of a bursty writer and time to converge for plain windows of many lengths."""
    interval, found = 5.0, []
    for length in LENGTHS:
        rng = np.random.default_rng(seed)
        sizes = written(bursts(1e6), rng, [RATE] * 20_000, interval)
        speeds = np.array(list(measured(RealWindow(False, length), sizes, interval)))
        begun = int(length / interval) + 2
        rates = [RATE] * begun + [2 * RATE] * (2 * begun + 10)
        told = list(measured(RealWindow(False, length), [r * interval for r in rates], interval))
        near = next(i for i, s in enumerate(told[begun:]) if abs(s / (2 * RATE) - 1) < 0.02)
        at_rest = speeds[begun:]
        noise = float(np.std(at_rest) / np.mean(at_rest))
        found.append({"window": float(length), "noise": noise, "converges": (near + 1) * interval})
    return found


def plot(rows: list[dict[str, float]], file: str) -> None:
    """Draw noise against time to converge, a point per length."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "lagless"  # the same picture gives the same file
    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    x, y = [row["converges"] for row in rows], [100 * row["noise"] for row in rows]
    axes.plot(x, y, "-", color="0.7", zorder=1)
    axes.scatter(x, y, c=["tab:red" if row["window"] == 30 else "tab:blue" for row in rows])
    for row, left, up in zip(rows, x, y, strict=True):
        axes.annotate(
            f"{row['window']:g} s", (left, up), (5, 5), textcoords="offset points", fontsize=9
        )
    axes.set_xlabel("time to converge after a step (s)")
    axes.set_ylabel("noise: std / mean (%)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None})


def table(rows: Sequence[dict[str, object]]) -> str:
    """Return the rows as a table in Markdown."""
    header = [
        "writer",
        "method",
        "interval",
        "noise",
        "alarms",
        *(f"×{f:.2g}" for f in FACTORS),
        "ramp",
        "day",
    ]
    lines = [header, ["---"] * len(header)]
    for found in rows:
        times = [found[f"x{f:.2g}"] for f in FACTORS]
        lines.append(
            [
                str(found["writer"]),
                str(found["method"]),
                f"{found['interval']:g} s",
                *(f"{found['noise']:.1%}", f"{found['alarms']:.1f}"),
                *("–" if value is None else f"{value:.1f}" for value in times),
                *(f"{found['ramp']:.0%}", f"{found['day']:.0%}"),
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plot", help="draw the noise of other window lengths to this file")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--days", type=float, default=2, help="of rest, per writer and method")
    parser.add_argument("--intervals", default="1,5", help="seconds between measurements")
    parser.add_argument("--steps", type=int, default=40, help="per writer, method and factor")
    asked = parser.parse_args()
    if asked.plot:
        found = lengths(asked.seed)
        plot(found, asked.plot)
        for before, after in pairwise(found):
            assert after["converges"] >= before["converges"]
        print(json.dumps(found) if asked.json else "\n".join(map(str, found)))
        return
    rows = [
        row(name, method, interval, asked.days, asked.steps, asked.seed)
        for name in WRITERS
        for interval in map(float, asked.intervals.split(","))
        for method in METHODS
    ]
    print(json.dumps(rows) if asked.json else table(rows))


if __name__ == "__main__":
    main()
