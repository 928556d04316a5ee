"""The paper's figures, drawn with matplotlib as SVG and PNG.

The colour says the fit rule, line and marker say the kind, so that no figure needs its colours to
be read.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_high
from typing import TYPE_CHECKING, Any

from lagless.lab import report
from lagless.lab.model.latency import Latency
from lagless.lab.paper.experiments import MODIFIED, PAPER
from lagless.lab.report import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, canvas
from lagless.packing import scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTIONS = {
    "cbs": "CBS of all algorithms by δ.",
    "cbs-modified": "CBS of the modified algorithms and BFD.",
    "rscore": "E(Rscore) by δ: the speeds of migrated partitions, in consumers' capacities C.",
    "pareto-5": "CBS and E(Rscore) at δ = 5.",
    "pareto-25": "CBS and E(Rscore) at δ = 25.",
    "latency-histogram": "How many bytes waited how long, in the stream of kd_27's median.",
    "cost": "Average number of consumers, the same stream.",
    "late-bytes": "Share of bytes with latency above 0, the same stream.",
    "latency-boxes": "Latency of the late bytes, the same stream; missing algorithms have none.",
    "streams-p90": "90th percentile of late bytes over many streams: median, least and most.",
    "streams-late": "Share of late bytes over many streams: median, least and most.",
}
RULES = {"nf": (PURPLE, "v"), "ff": (SKY, "s"), "bf": (BLUE, "o"), "wf": (VERMILION, "^")}
# Rule by colour; online dotted, decreasing dashed, modified solid (by partition: dash-dotted).
STYLES: Mapping[str, tuple[str, str, str]] = {
    **{rule: (colour, ":", marker) for rule, (colour, marker) in RULES.items()},
    **{f"{rule}d": (colour, "--", marker) for rule, (colour, marker) in RULES.items()},
    "mbf": (BLUE, "-", "P"),
    "mbfp": (BLUE, "-.", "X"),
    "mwf": (VERMILION, "-", "D"),
    "mwfp": (VERMILION, "-.", "d"),
    "sticky": (BLACK, "-", "*"),
    "ezzeddine": (GREEN, ":", "h"),
}
OTHER = (GREEN, "-", ".")
Curves = Mapping[float, Mapping[str, float]]
"""δ → algorithm → value."""


def style(name: str) -> tuple[str, str, str]:
    """Return an algorithm's colour, line and marker."""
    return STYLES.get(name.split(":")[0], OTHER)


def by_delta(
    folder: Path, name: str, curves: Curves, algorithms: Sequence[str], title: str, percent: bool
) -> None:
    """Draw a line per algorithm over δ."""
    deltas = list(curves)
    shown = [a for a in algorithms if all(a in curves[delta] for delta in deltas)]
    # The legend lists the lines as they lie at the right end.
    shown.sort(key=lambda a: -curves[deltas[-1]][a])
    factor = 100 if percent else 1
    lines = {a: [factor * curves[delta][a] for delta in deltas] for a in shown}
    far = beyond({a: max(values) for a, values in lines.items()})
    with canvas(folder, name) as axes:
        for a, values in lines.items():
            colour, line, marker = style(a)
            if a not in far:
                axes.plot(deltas, values, line, color=colour, marker=marker, markersize=5, label=a)
        label = "CBS: consumers above the fewest (%)" if percent else "E(Rscore) (C)"
        axes.set(xticks=deltas, ylabel=label, ylim=(0, None), title=title)
        axes.set_xlabel("δ: largest change of a partition's speed per iteration (% of C)")
        _above(axes, {a: f"{min(filter(None, lines[a])):.0f} to {max(lines[a]):.0f}" for a in far})
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def beyond(most: Mapping[str, float]) -> list[str]:
    """Return the algorithms that would press all others to the bottom of a figure."""
    others = {a: value for a, value in most.items() if a in PAPER}
    top = 1.6 * max(others.values(), default=0.0)
    return [a for a, value in most.items() if others and value > top > 0]


def _above(axes: "Axes", values: Mapping[str, str]) -> None:
    """Name those that lie above the figure, with their values."""
    words = "; ".join(f"{a}: {text}" for a, text in values.items())
    if words:
        look: dict[str, Any] = {"va": "top", "fontsize": 9, "color": GREEN, "fontweight": "bold"}
        axes.text(0.02, 0.97, f"above the figure ↑ {words}", transform=axes.transAxes, **look)
        axes.set_ylim(top=1.12 * axes.get_ylim()[1])


def cbs(folder: Path, curves: Curves) -> None:
    """Draw the figures "CBS" and "CBS of the modified and BFD"."""
    shown = [*PAPER, *(a for a in next(iter(curves.values())) if a not in PAPER)]
    by_delta(folder, "cbs", curves, shown, "Cardinal Bin Score", percent=True)
    some = [*MODIFIED, "bfd", *(a for a in shown if a.startswith("sticky"))]
    by_delta(folder, "cbs-modified", curves, some, "CBS of the modified and BFD", percent=True)


def rscore(folder: Path, curves: Curves) -> None:
    """Draw the figure "Impact on Rscore for different deltas"."""
    by_delta(
        folder, "rscore", curves, list(next(iter(curves.values()))), "Rebalance cost", percent=False
    )


def pareto(
    folder: Path, delta: float, cbs: Mapping[str, float], rscore: Mapping[str, float]
) -> None:
    """Draw the algorithms by CBS and E(Rscore), and the front of those that none dominates."""
    points = {a: (100 * cbs[a], rscore[a]) for a in cbs if a in rscore}
    paper = {a: point for a, point in points.items() if a in PAPER}
    far = beyond({a: y for a, (_, y) in points.items()})
    above = {a: f"{points.pop(a)[1]:.0f}, with {100 * cbs[a]:.1f} % above the fewest" for a in far}
    front = sorted(paper[a] for a in scores.pareto_front(paper))
    with canvas(folder, f"pareto-{delta:g}", 7.0, 4.8) as axes:
        label = "Pareto front of the paper's twelve"
        axes.plot(*zip(*front, strict=True), color=GREY, drawstyle="steps-post", label=label)
        for a, (x, y) in points.items():
            colour, _, marker = style(a)
            axes.plot(x, y, marker, color=colour, markersize=9 if a == "sticky" else 7)
        _label(axes, points)
        least = min(0.0, *(x for x, _ in points.values())) - 1
        axes.set(xlim=(least, None), xlabel="CBS: consumers above the fewest (%)")
        axes.set(ylim=(0, None), ylabel="E(Rscore) (C)")
        _above(axes, above)
        axes.set(title=f"Consumers and rebalance cost at δ = {delta:g} %")
        axes.legend(loc="lower right")


def _label(axes: "Axes", points: Mapping[str, tuple[float, float]]) -> None:
    """Name the points, each a little above the last one where they lie close together."""
    width = max(x for x, _ in points.values()) or 1.0
    height = max(y for _, y in points.values()) or 1.0
    placed: list[tuple[float, float]] = []
    for a, (x, y) in sorted(points.items(), key=lambda item: item[1][1]):
        at = y
        while any(
            abs(x - px) < 0.14 * width and abs(at - py) < 0.045 * height for px, py in placed
        ):
            at += 0.005 * height
        placed.append((x, at))
        axes.annotate(
            a,
            (x, y),
            (x + 0.02 * width, at),
            va="center",
            fontsize=9,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
            arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.6} if at > y else None,
        )


def histogram(folder: Path, found: Mapping[str, Latency]) -> None:
    """Draw how many bytes waited how long, of two algorithms, from the closed form."""
    edges = [i / 2 for i in range(81)]
    with canvas(folder, "latency-histogram") as axes:
        looks = ((BLUE, "///"), (VERMILION, ""))
        for (name, one), (colour, hatch) in zip(found.items(), looks, strict=True):
            under = [one.late.below(edge) for edge in edges]
            beyond = one.late.total - under[-1]
            more = f"; {beyond / 1000:.0f} kB more up to {one.late.max:.0f} s" if beyond else ""
            axes.stairs(
                [high - low for low, high in itertools.pairwise(under)],
                edges,
                fill=True,
                facecolor=colour + "66",
                edgecolor=colour,
                hatch=hatch,
                label=f"{name} ({one.consumers:.1f} consumers{more})",
            )
        axes.set(xlim=(0, edges[-1]), xlabel="latency (s)", title="Latency of late bytes")
        axes.set(ylim=(0, None), ylabel=f"bytes per {edges[1]:g} s of latency")
        axes.legend(loc="upper right")


def bars(
    folder: Path, name: str, values: Mapping[str, float], label: str, title: str, log: bool = False
) -> None:
    """Draw a bar per algorithm; Kafka's plain, the others in colour."""
    with canvas(folder, name, 9.5, 4.0) as axes:
        axes.bar(list(values), list(values.values()), color=[_tint(a) for a in values])
        if log:
            axes.set_yscale("log")
            least = min((value for value in values.values() if value > 0), default=1.0)
            axes.set_ylim(bottom=least / 2)
            for position, value in enumerate(values.values()):
                if value == 0:
                    axes.text(position, least / 1.8, "0", ha="center", va="bottom")
        axes.tick_params(axis="x", rotation=90)
        _finish(axes, label, title)


def ranges(
    folder: Path, name: str, values: Mapping[str, Sequence[float]], label: str, title: str
) -> None:
    """Draw the median over streams of each algorithm, with a bar from the least to the most."""
    with canvas(folder, name, 9.5, 4.0) as axes:
        for position, (a, found) in enumerate(values.items()):
            axes.vlines(position, min(found), max(found), color=GREY, lw=2)
            marker: dict[str, Any] = {"markeredgecolor": BLACK, "markersize": 6, "clip_on": False}
            axes.plot(position, median_high(found), "o", color=_tint(a), **marker)
        axes.set_xticks(range(len(values)), list(values), rotation=90)
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=0, top=1.5 * max(map(max, values.values())) or 1)
        _finish(axes, label, title)


def _finish(axes: "Axes", label: str, title: str) -> None:
    axes.grid(visible=False, axis="x")
    axes.set(ylabel=label, title=title)
    axes.margins(x=0.01)


def boxes(folder: Path, found: Mapping[str, Latency]) -> None:
    """Draw quartiles, and whiskers from 1 % to 99 %, of the late bytes' latency."""
    late = {name: one.late for name, one in found.items() if one.late.total > 0}
    drawn = [
        {"label": name, **{key: one.quantile(q) for key, q in report.BOX.items()}}
        for name, one in late.items()
    ]
    with canvas(folder, "latency-boxes", 9.5, 4.5) as axes:
        report.boxes(axes, drawn, [_tint(name) for name in late], widths=0.6)
        title = "Box: quartiles; whiskers: 1 % to 99 % of the late bytes"
        axes.set(ylabel="latency of late bytes (s)", title=title)
        axes.tick_params(axis="x", rotation=90)


def _tint(name: str) -> str:
    """Return a bar's or box's colour, light enough for a black line on it."""
    if name.startswith("kd_"):
        return "#b8cfe0"
    if name.startswith("keda"):
        return GREEN
    return VERMILION if name == "mwf" else ORANGE


def latency(folder: Path, found: Mapping[str, Latency]) -> None:
    """Draw the paper's four latency figures."""
    if "mwf" in found and "kd_27" in found:
        histogram(folder, {name: found[name] for name in ("kd_27", "mwf")})
    costs = {name: one.consumers for name, one in found.items()}
    bars(folder, "cost", costs, "consumers, mean", "Average operational cost")
    late = {name: 100 * one.late.total / one.bytes for name, one in found.items()}
    bars(folder, "late-bytes", late, "share of all bytes (%)", "Bytes with latency above 0", True)
    boxes(folder, found)


def streams(
    folder: Path, p90: Mapping[str, Sequence[float]], late: Mapping[str, Sequence[float]]
) -> None:
    """Draw what many streams of the same kind give, where the paper shows one."""
    count = len(next(iter(p90.values())))
    title = f"Median and range over {count} streams"
    ranges(folder, "streams-p90", p90, "p90 of late bytes (s)", title)
    ranges(folder, "streams-late", late, "bytes with latency above 0 (%)", title)
