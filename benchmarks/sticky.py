"""Measure `sticky` against the paper's twelve algorithms and against the optimum.

    python benchmarks/sticky.py front|latency|gap|bound|speed|pictures|all [--seeds 4] [--jobs 2]

Each part writes its table into docs/sticky.md, between the marks that carry its name; `front` and
`pictures` write their plots beside it. `stamp` says that all tables are those of this code; `all`
ends with it. Streams start at random speeds and are clamped to
[0, C]. Times are CPU seconds of one thread.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lagless.lab.model import latency, replay, streams
from lagless.lab.paper import fingerprints
from lagless.packing import anyfit, bounds, exact, scores, sticky

PAPER = ["nf", "nfd", "ff", "ffd", "bf", "bfd", "wf", "wfd", "mwf", "mbf", "mwfp", "mbfp"]
DELTAS = [5, 10, 15, 20, 25]
SLACKS = [0.0, 0.01, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]
SLACKS += [0.1, 0.12, 0.13, 0.15, 0.2, 0.25, 0.35]
PARTS = ["front", "latency", "gap", "bound", "speed", "pictures"]
CAPACITY = 100.0
DOCS = Path(__file__).parent.parent / "docs"
Floats = NDArray[np.float64]
Runs = dict[str, replay.Replay]


def stream(delta: float, partitions: int, measurements: int, seed: int) -> Floats:
    """Draw the stream of a seed."""
    rng = np.random.default_rng([seed, int(delta)])
    return streams.speeds("random", delta, partitions, measurements, CAPACITY, rng)


def write(part: str, lines: Iterable[str]) -> None:
    """Put a table into the page, between its marks, and on the screen."""
    text = "\n".join(lines)
    print(text, flush=True)
    page = DOCS / "sticky.md"
    head, begin, rest = page.read_text().partition(f"<!-- {part} -->\n")
    _, end, tail = rest.partition(f"<!-- /{part} -->")
    page.write_text(head + begin + text + "\n" + end + tail)


def replayed(delta: int, seed: int) -> Runs:
    """Replay the twelve and sticky at every slack over one stream."""
    speeds = stream(delta, 200, 500, seed)
    specs = PAPER + [f"sticky:slack={slack}" for slack in SLACKS]
    return {spec: replay.run(spec, speeds, CAPACITY, "shuffled", seed) for spec in specs}


def points(runs: list[Runs], slack: float) -> dict[str, tuple[float, float]]:
    """Average CBS and E(Rscore) of the twelve and sticky at one slack over seeds."""
    ours = f"sticky:slack={slack}"
    found: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        cbs = scores.cbs({name: run[name].consumers.tolist() for name in [*PAPER, ours]})
        for name, value in cbs.items():
            found.setdefault(name, []).append((value, float(run[name].rscore.mean())))
    return {
        name: (float(np.mean([c for c, _ in seen])), float(np.mean([r for _, r in seen])))
        for name, seen in found.items()
    }


def front(seeds: int, jobs: int) -> None:
    """Compare the family's front with each of the twelve."""
    tasks = [(delta, seed) for delta in DELTAS for seed in range(seeds)]
    with ProcessPoolExecutor(jobs) as pool:
        done = dict(zip(tasks, pool.map(replayed, *zip(*tasks, strict=True)), strict=True))
    rows: dict[str, list[str]] = {name: [] for name in PAPER}
    family: dict[float, list[str]] = {slack: [] for slack in SLACKS}
    plots = {}
    for delta in DELTAS:
        runs = [done[delta, seed] for seed in range(seeds)]
        by_slack = {slack: points(runs, slack) for slack in SLACKS}
        for slack, scored in by_slack.items():
            cbs, rscore = scored[f"sticky:slack={slack}"]
            family[slack].append(f"{cbs:.2%}, {rscore:.2f}")
        for name in PAPER:
            fit = [
                (scored[f"sticky:slack={slack}"][1], slack)
                for slack, scored in by_slack.items()
                if scored[f"sticky:slack={slack}"][0] <= scored[name][0]
            ]
            cbs, rscore = by_slack[0.0][name]
            ours, slack = min(fit)
            rows[name].append(f"{cbs:.2%}, {rscore:.1f}: **{ours / rscore:.2f}** at {slack:g}")
        plots[delta] = by_slack
    heads = [f"δ = {delta}" for delta in DELTAS]
    write("front", table(["algorithm", *heads], [[name, *row] for name, row in rows.items()]))
    write("family", table(["slack", *heads], [[f"{s:g}", *row] for s, row in family.items()]))
    plot_front(plots)


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Lay out a table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def plot_front(plots: dict[int, dict[float, dict[str, tuple[float, float]]]]) -> None:
    """Draw CBS against E(Rscore): the twelve as points, sticky as a line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    for axes, delta in zip(figure.subplots(1, 2), (DELTAS[0], DELTAS[-1]), strict=True):
        by_slack = plots[delta]
        for name in PAPER:
            cbs, rscore = by_slack[0.0][name]
            axes.plot(100 * cbs, rscore, "o", color="tab:gray")
            axes.annotate(name, (100 * cbs, rscore), (3, 3), textcoords="offset points", size=8)
        line = [scored[f"sticky:slack={slack}"] for slack, scored in by_slack.items()]
        axes.plot([100 * c for c, _ in line], [r for _, r in line], "-o", ms=3, label="sticky")
        axes.set(title=f"δ = {delta}", xlabel="CBS (%)", ylabel="E(Rscore)", ylim=(0, None))
        axes.legend()
    save(figure, "sticky_front.svg")


def save(figure: object, name: str) -> None:
    """Save a figure without the date, so that the same data give the same file."""
    (DOCS / "img").mkdir(exist_ok=True)
    figure.savefig(DOCS / "img" / name, metadata={"Date": None})  # type: ignore[attr-defined]


def late(seeds: int) -> None:
    """Run the paper's latency experiment: late bytes and consumers beside MWF's."""
    # The price of a consumer was chosen on the streams 1000 to 1007.
    model = latency.Model(133.0)
    slacks = ["0", "0.05", "0.1", "0.11", "0.115", "0.12", "0.15"]
    found: dict[str, list[latency.Latency]] = {}
    for seed in range(seeds):
        speeds = stream(5, 32, 100, 1008 + seed)
        for spec in ["mwf", *(f"sticky:slack={slack}" for slack in slacks)]:
            steps = replay.assignments(spec, speeds, CAPACITY, "fixed", seed)
            found.setdefault(spec, []).append(latency.run(model, speeds, steps))
    base = sum(run.late.total for run in found["mwf"])
    rows = []
    for spec, runs in found.items():
        share = sum(run.late.total for run in runs)
        mean = np.mean([run.consumers for run in runs])
        rows.append([spec, f"{mean:.3f}", f"{share / base:.1%}"])
    write("latency", table(["algorithm", "consumers", "of MWF's late bytes"], rows))
    both = sum(
        ours.consumers <= mwf.consumers and ours.late.total <= 0.4 * mwf.late.total
        for ours, mwf in zip(found["sticky:slack=0.115"], found["mwf"], strict=True)
    )
    print(f"slack 0.115: no more consumers and at most 40 % of the late bytes in {both}")


def gap(seeds: int) -> None:
    """Compare sticky with the exact solver on streams of 24 partitions, at BFD's consumers."""
    rows = []
    for delta in DELTAS:
        sums = dict.fromkeys(("exact", "bound", "sticky", "bfd", "mbfp"), 0.0)
        proven, steps = 0, 0
        for seed in range(seeds):
            speeds = stream(delta, 24, 60, 2000 + seed)
            ours = replay.run("sticky:slack=0", speeds, CAPACITY, "fixed", 1)
            sums["sticky"] += ours.rscore.sum()
            for name in ("bfd", "mbfp"):
                sums[name] += replay.run(name, speeds, CAPACITY, "fixed", 1).rscore.sum()
            previous = np.zeros(24, np.int64)
            for measured, consumers in zip(speeds, ours.consumers, strict=True):
                best = exact.solve(measured, CAPACITY, previous, consumers=int(consumers))
                sums["exact"] += best.moved / CAPACITY
                sums["bound"] += best.least / CAPACITY
                proven += best.proven
                steps += 1
                previous = best.assignment
        mean = {name: value / steps for name, value in sums.items()}
        ratios = [("sticky", "exact"), ("exact", "bfd"), ("exact", "mbfp")]
        cells = [f"{mean[name]:.3f}" for name in sums]
        cells += [f"{proven / steps:.1%}", *(f"{mean[x] / mean[y]:.3f}" for x, y in ratios)]
        rows.append([str(delta), *cells])
    head = ["δ", "exact", "its bound", "sticky", "bfd", "mbfp", "proven"]
    write("gap", table([*head, "sticky/exact", "exact/bfd", "exact/mbfp"], rows))


def bounded(delta: int, slack: float, rival: str, seed: int) -> Floats:
    """Sum, over every 20th step, the Rscores of sticky, of its bound and of a rival."""
    speeds = stream(delta, 200, 500, seed)
    beside = replay.run(rival, speeds, CAPACITY, "fixed", 1).rscore
    sums, previous = np.zeros(3), np.zeros(200, np.int64)
    for at, measured in enumerate(speeds):
        current = sticky.pack(measured, CAPACITY, previous, slack=slack)
        if at and at % 20 == 0:
            moved = scores.moved_rate(measured, previous, current)
            allowed = len(np.unique(current))
            least = bounds.least_moved(measured, CAPACITY, previous, current, allowed)
            sums += np.array([moved / CAPACITY, least / CAPACITY, beside[at]])
        previous = current
    return sums / len(range(20, len(speeds), 20))


def bound(seeds: int, jobs: int) -> None:
    """Compare sticky on 200 partitions with what any packing has to move from its assignments."""
    cases = [(d, s, r) for s, r in ((0.0, "bfd"), (0.05, "mbf"), (0.12, "mwf")) for d in DELTAS]
    tasks = [(*case, seed) for case in cases for seed in range(seeds)]
    with ProcessPoolExecutor(jobs) as pool:
        found = np.array(list(pool.map(bounded, *zip(*tasks, strict=True))))
    rows = []
    for (delta, slack, rival), runs in zip(cases, np.split(found, len(cases)), strict=True):
        ours, least, theirs = runs.mean(axis=0)
        cells = [f"{ours:.2f}", f"{least:.2f}", f"{ours / least:.3f}", f"{rival}, {theirs:.2f}"]
        cells += [f"{ours / theirs:.3f}", f"{least / theirs:.3f}"]
        rows.append([f"{slack:g}", str(delta), *cells])
    head = ["slack", "δ", "sticky", "bound", "sticky/bound", "rival", "sticky/rival", "bound/rival"]
    write("bound", table(head, rows))


def quickest(speeds: Floats, previous: NDArray[np.int64], slack: float) -> float:
    """Return the CPU milliseconds of the quickest of several packings."""
    best = float("inf")
    for _ in range(max(5, min(300, 1_000_000 // len(speeds)))):
        began = time.thread_time()
        sticky.pack(speeds, CAPACITY, previous, slack=slack)
        best = min(best, time.thread_time() - began)
    return 1000 * best


def speed() -> None:
    """Time one packing of uniform speeds, each up to δ % of C from those packed before."""
    rows = []
    for delta in (5, 25):
        for slack in (0.05, 0.0):
            times = {}
            for size in (200, 10_000, 100_000):
                speeds = stream(delta, size, 4, 3000)
                before = np.zeros(size, np.int64)
                for measured in speeds[:-1]:
                    before = sticky.pack(measured, CAPACITY, before, slack=slack)
                times[size] = quickest(speeds[-1], before, slack)
            growth = times[100_000] / times[10_000]
            rows.append([str(delta), f"{slack:g}", *(f"{t:.2f}" for t in times.values())])
            rows[-1].append(f"{growth:.1f}")
    write("speed", table(["δ", "slack", "200", "10,000", "100,000", "growth of the last"], rows))


def pictures() -> None:
    """Draw one step: what BFD and sticky make of the same change of speeds."""
    from matplotlib.figure import Figure

    speeds = stream(15, 12, 4, 6)
    before = anyfit.bfd(speeds[2], CAPACITY, np.zeros(12, np.int64))
    after = {
        "before, with the new speeds": before,
        "bfd": anyfit.bfd(speeds[3], CAPACITY, before),
        "sticky, slack 0": sticky.pack(speeds[3], CAPACITY, before, slack=0.0),
    }
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for axes, (title, placed) in zip(
        figure.subplots(1, 3, sharey=True), after.items(), strict=True
    ):
        height = dict.fromkeys(placed.tolist(), 0.0)
        for j in np.argsort(-speeds[3]):
            consumer = int(placed[j])
            moves = consumer != before[j]
            axes.bar(
                consumer,
                speeds[3][j],
                bottom=height[consumer],
                color="tab:orange" if moves else "lightsteelblue",
                edgecolor="black",
            )
            height[consumer] += speeds[3][j]
        moved = speeds[3][placed != before].sum() / CAPACITY
        axes.axhline(CAPACITY, color="black", ls="--", lw=1)
        axes.set(title=f"{title}: Rscore {moved:.2f}", xlabel="consumer", xticks=sorted(height))
    save(figure, "sticky_step.svg")


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=[*PARTS, "stamp", "all"])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "pictures": pictures,
        "speed": speed,
        "latency": lambda: late(4 * asked.seeds),
        "gap": lambda: gap(asked.seeds),
        "bound": lambda: bound(asked.seeds, asked.jobs),
        "front": lambda: front(asked.seeds, asked.jobs),
    }
    for name, part in parts.items():
        if asked.part in (name, "all"):
            part()
    if asked.part in ("stamp", "all"):
        command = f"python benchmarks/sticky.py all --seeds {asked.seeds}"
        write("made", [fingerprints.stamp("sticky", command, datetime.now(UTC).date())])


if __name__ == "__main__":
    main()
