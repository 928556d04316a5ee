"""The paper's figures, drawn with matplotlib as SVG and PNG.

Colours are Okabe and Ito's, which colour-blind people can tell apart. The colour says the fit
rule, line and marker say the kind, so that no figure needs its colours to be read.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagless import extras
from lagless.evaluation.experiments import MODIFIED, PAPER
from lagless.packing import scores
from lagless.simulation.latency import Latency

with extras.needed("evaluation"):
    import matplotlib as mpl
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, GREY = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
    "#999999",
)
# Rule by colour; online dotted, decreasing dashed, modified solid (by partition: dash-dotted).
STYLES: Mapping[str, tuple[str, str, str]] = {
    "nf": (PURPLE, ":", "v"),
    "nfd": (PURPLE, "--", "v"),
    "ff": (SKY, ":", "s"),
    "ffd": (SKY, "--", "s"),
    "bf": (BLUE, ":", "o"),
    "bfd": (BLUE, "--", "o"),
    "mbf": (BLUE, "-", "P"),
    "mbfp": (BLUE, "-.", "X"),
    "wf": (VERMILION, ":", "^"),
    "wfd": (VERMILION, "--", "^"),
    "mwf": (VERMILION, "-", "D"),
    "mwfp": (VERMILION, "-.", "d"),
    "sticky": (BLACK, "-", "*"),
    "ezzeddine": (GREEN, ":", "h"),
}
OTHER = (GREEN, "-", ".")
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lagless",
    "font.size": 10,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
Curves = Mapping[float, Mapping[str, float]]
"""δ → algorithm → value."""


@contextmanager
def canvas(folder: Path, name: str, width: float = 7.5, height: float = 4.5) -> Iterator["Axes"]:
    """Give axes to draw on, then save them as `name`.svg and `name`.png."""
    with mpl.rc_context(RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure.add_subplot()
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.png", dpi=144)


def style(name: str) -> tuple[str, str, str]:
    """Give an algorithm's colour, line and marker."""
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
    with canvas(folder, name) as axes:
        for a in shown:
            colour, line, marker = style(a)
            values = [factor * curves[delta][a] for delta in deltas]
            axes.plot(deltas, values, line, color=colour, marker=marker, markersize=5, label=a)
        axes.set_xticks(deltas)
        axes.set_xlabel("δ: largest change of a partition's speed per iteration (% of C)")
        axes.set_ylabel("CBS: consumers above the fewest (%)" if percent else "E(Rscore) (C)")
        axes.set_ylim(bottom=0)
        axes.set_title(title, loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def cbs(folder: Path, curves: Curves) -> None:
    """Draw the figures "CBS" and "CBS of the modified and BFD"."""
    shown = [*PAPER, *(a for a in next(iter(curves.values())) if a not in PAPER)]
    by_delta(folder, "cbs", curves, shown, "Cardinal Bin Score", percent=True)
    some = [*MODIFIED, "bfd", *(a for a in shown if a.startswith("sticky"))]
    by_delta(folder, "cbs-modified", curves, some, "CBS of the modified and BFD", percent=True)


def rscore(folder: Path, curves: Curves) -> None:
    """Draw the figure "Impact on Rscore for different deltas"."""
    shown = [a for a in next(iter(curves.values())) if a != "ezzeddine"]
    by_delta(folder, "rscore", curves, shown, "Rebalance cost", percent=False)


def pareto(
    folder: Path, delta: float, cbs: Mapping[str, float], rscore: Mapping[str, float]
) -> None:
    """Draw the algorithms by CBS and E(Rscore), and the front of those that none dominates."""
    points = {a: (100 * cbs[a], rscore[a]) for a in cbs if a in rscore and a != "ezzeddine"}
    paper = {a: point for a, point in points.items() if a in PAPER}
    front = sorted(paper[a] for a in scores.pareto_front(paper))
    with canvas(folder, f"pareto-{delta:g}", 7.0, 4.8) as axes:
        axes.plot(
            *zip(*front, strict=True),
            color=GREY,
            drawstyle="steps-post",
            label="Pareto front of the paper's twelve",
        )
        for a, (x, y) in points.items():
            colour, _, marker = style(a)
            axes.plot(x, y, marker, color=colour, markersize=9 if a == "sticky" else 7)
        _label(axes, points)
        axes.set_xlim(left=min(0.0, *(x for x, _ in points.values())) - 1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("CBS: consumers above the fewest (%)")
        axes.set_ylabel("E(Rscore) (C)")
        axes.set_title(f"Consumers and rebalance cost at δ = {delta:g} %", loc="left")
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


def histogram(folder: Path, found: Mapping[str, Latency], most: float = 40.0) -> None:
    """Draw how many bytes waited how long, of two algorithms, from the closed form."""
    edges = [most / 80 * i for i in range(81)]
    with canvas(folder, "latency-histogram") as axes:
        for (name, one), colour, hatch in zip(
            reversed(list(found.items())), (BLUE, VERMILION), ("///", ""), strict=True
        ):
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
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, most)
        axes.set_xlabel("latency (s)")
        axes.set_ylabel(f"bytes per {edges[1]:g} s of latency")
        axes.set_title("Latency of late bytes", loc="left")
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
            for place, value in enumerate(values.values()):
                if value == 0:
                    axes.text(place, least / 1.8, "0", ha="center", va="bottom")
        axes.grid(visible=False, axis="x")
        axes.set_ylabel(label)
        axes.set_title(title, loc="left")
        axes.tick_params(axis="x", rotation=90)
        axes.margins(x=0.01)


def ranges(
    folder: Path, name: str, values: Mapping[str, Sequence[float]], label: str, title: str
) -> None:
    """Draw the median over streams of each algorithm, with a bar from the least to the most."""
    with canvas(folder, name, 9.5, 4.0) as axes:
        for place, (a, found) in enumerate(values.items()):
            ordered = sorted(found)
            axes.vlines(place, ordered[0], ordered[-1], color=GREY, lw=2)
            middle = ordered[len(ordered) // 2]
            axes.plot(
                place,
                middle,
                "o",
                color=_tint(a),
                markeredgecolor=BLACK,
                markersize=6,
                clip_on=False,
            )
        axes.set_xticks(range(len(values)), list(values), rotation=90)
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=0, top=1.5 * max(map(max, values.values())) or 1)
        axes.grid(visible=False, axis="x")
        axes.set_ylabel(label)
        axes.set_title(title, loc="left")
        axes.margins(x=0.01)


def boxes(folder: Path, found: Mapping[str, Latency]) -> None:
    """Draw quartiles, and whiskers from 1 % to 99 %, of the late bytes' latency."""
    late = {name: one.late for name, one in found.items() if one.late.total > 0}
    drawn = [
        {
            "label": name,
            "med": one.quantile(0.5),
            "q1": one.quantile(0.25),
            "q3": one.quantile(0.75),
            "whislo": one.quantile(0.01),
            "whishi": one.quantile(0.99),
        }
        for name, one in late.items()
    ]
    with canvas(folder, "latency-boxes", 9.5, 4.5) as axes:
        boxes = axes.bxp(
            drawn, showfliers=False, patch_artist=True, medianprops={"color": BLACK}, widths=0.6
        )
        for box, name in zip(boxes["boxes"], late, strict=True):
            box.set_facecolor(_tint(name))
        axes.set_yscale("log")
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("latency of late bytes (s)")
        axes.set_title("Box: quartiles; whiskers: 1 % to 99 % of the late bytes", loc="left")
        axes.tick_params(axis="x", rotation=90)


def _tint(name: str) -> str:
    """Give a bar's or box's colour, light enough for a black line on it."""
    if name.startswith("kd_"):
        return "#b8cfe0"
    if name.startswith("keda"):
        return GREEN
    return VERMILION if name == "mwf" else ORANGE


def latency(folder: Path, found: Mapping[str, Latency]) -> None:
    """Draw the paper's four latency figures."""
    if "mwf" in found and "kd_27" in found:
        histogram(folder, {name: found[name] for name in ("mwf", "kd_27")})
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
