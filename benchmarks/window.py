"""How noisy a speed is, and how long it takes to converge, for windows of other lengths.

    python -m benchmarks.window [--plot docs/images/window.svg] [--json]

A partition is written to in bursts, as producers do that collect records into batches: bursts of
1 MB at random moments (a Poisson process), 0.5 MB/s in the mean. The real window measures it every
5 s. Noise is the standard deviation of the speed over its mean; time to converge is how long
after a step to twice the rate a writer without noise is told within 2 %.
"""

import argparse
import json

import numpy as np

from lagless.model import TopicPartition
from lagless.monitor.window import Window
from lagless.ports import LogSize, Measurement

LENGTHS = (5, 10, 15, 20, 30, 45, 60, 90, 120)
INTERVAL = 5.0
BURST = 1_000_000
RATE = 500_000.0
PARTITIONS = 50
ROUNDS = 400
RECORD = 500


def noise(length: float, rng: np.random.Generator) -> float:
    """Give the relative standard deviation of the speeds of a bursty, steady writer."""
    names = [TopicPartition("t", n) for n in range(PARTITIONS)]
    window, ends = Window(length), np.zeros(PARTITIONS, np.int64)
    seen = []
    for number in range(ROUNDS):
        ends += rng.poisson(RATE / BURST * INTERVAL, PARTITIONS) * (BURST // RECORD)
        sizes = {
            name: LogSize(int(end) * RECORD, 0, int(end), "id", 1)
            for name, end in zip(names, ends, strict=True)
        }
        window.add(Measurement(number * INTERVAL, sizes))
        if number * INTERVAL > length:
            seen += [reading.speed for reading in window.readings().values()]
    return float(np.std(seen) / np.mean(seen))


def convergence(length: float) -> float:
    """Give the seconds from a step until the speed is within 2 % of the new rate."""
    name, window, end = TopicPartition("t", 0), Window(length), 0
    begun = int(length / INTERVAL) + 2
    for number in range(4 * begun + 40):
        rate = RATE if number <= begun else 2 * RATE
        end += round(rate * INTERVAL / RECORD)
        window.add(Measurement(number * INTERVAL, {name: LogSize(end * RECORD, 0, end, "id", 1)}))
        readings = window.readings()
        if number > begun and abs(readings[name].speed / (2 * RATE) - 1) < 0.02:
            return (number - begun) * INTERVAL
    raise AssertionError("the window does not converge")


def plot(rows: list[dict[str, float]], file: str) -> None:
    """Draw noise against time to converge, a point per length."""
    import matplotlib.pyplot as plt

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


def main() -> None:
    """Measure all lengths, print them, and plot them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", help="file to draw to")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rows = [
        {
            "window": float(length),
            "noise": noise(length, np.random.default_rng(asked.seed)),
            "converges": convergence(length),
        }
        for length in LENGTHS
    ]
    if asked.plot:
        import matplotlib as mpl

        mpl.rcParams["svg.hashsalt"] = "lagless"  # the same picture gives the same file
        plot(rows, asked.plot)
    if asked.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(
            f"{row['window']:4g} s  noise {row['noise']:6.1%}  converges in {row['converges']:g} s"
        )


if __name__ == "__main__":
    main()
