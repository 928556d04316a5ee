"""Figures of the live evaluation, as SVG and PNG; colours as in evaluation/figures.py."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lagless.evaluation import capacity, figures
from lagless.live import numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (figures.BLUE, figures.VERMILION, figures.GREEN, figures.PURPLE, figures.ORANGE)
HATCHES = ("///", "", "...", "xxx", "+++")
DASHES = ("-", "--", ":", "-.")

CAPTIONS = {
    "dt1": "Δt1: a step in a partition's write speed → the published speed is within 5 % of it.",
    "dt2": "Δt2: measurement published → orders sent and new consumers requested.",
    "dt3": "Δt3: consumer requested → ready, by how many were requested at once.",
    "dt4": "Δt4: first order, or last new consumer ready → last receipt.",
    "dt4-consumers": "Δt4 by the number of consumers that give or get a partition.",
    "capacity": "Density of a consumer's throughput per cycle in the paper's three conditions.",
    "delay": "Produced → readable in the lake: quartiles, and whiskers from 1 % to 99 %.",
    "consumers": "Consumers over time on the same stream.",
}


def draw(folder: Path, data: Mapping[str, numbers.Data]) -> list[str]:
    """Draw what the parts that are there allow, and give the names."""
    drawn: list[str] = []
    if data.get("dt1", {}).get("steps"):
        _steps(folder, data["dt1"])
        drawn.append("dt1")
    if data.get("response", {}).get("reassignments"):
        drawn += _response(folder, data["response"])
    if data.get("capacity", {}).get("conditions"):
        _capacity(folder, data["capacity"])
        drawn.append("capacity")
    runs = [row for name in ("delay", "rival") for row in data.get(name, {}).get("runs", [])]
    if any(row["sample"] for row in runs):
        _delays(folder, [row for row in runs if row["sample"]])
        _consumers(folder, runs)
        drawn += ["delay", "consumers"]
    return drawn


def histogram(
    axes: "Axes", groups: Mapping[str, Sequence[float]], label: str, bins: int = 40
) -> None:
    """Draw a stacked histogram of groups of seconds; a far tail is cut off and said."""
    some = {name: values for name, values in groups.items() if len(values)}
    if not some:
        return
    everything = np.concatenate([np.asarray(values) for values in some.values()])
    top = float(np.quantile(everything, 0.995)) * 1.1 or 1.0
    beyond = int((everything > top).sum())
    least = float(everything.min())
    low = 0.0 if least < top / 2 else 0.95 * least
    edges = np.linspace(low, top, bins + 1)
    base = np.zeros(bins)
    for place, (name, values) in enumerate(some.items()):
        counts, _ = np.histogram(values, edges)
        axes.stairs(
            base + counts,
            edges,
            baseline=base,
            fill=True,
            facecolor=COLOURS[place % len(COLOURS)] + "88",
            edgecolor=COLOURS[place % len(COLOURS)],
            hatch=HATCHES[place % len(HATCHES)],
            label=f"{name} ({len(values)})",
        )
        base = base + counts
    axes.set_xlim(low, top)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(label + (f"; {beyond} more up to {everything.max():.1f} s" if beyond else ""))
    axes.set_ylabel("observations")
    axes.legend()


def _steps(folder: Path, data: numbers.Data) -> None:
    rows = data["steps"]
    groups = {
        "faster": numbers.known([r for r in rows if r["after"] > r["before"]], "seconds"),
        "slower": numbers.known([r for r in rows if r["after"] <= r["before"]], "seconds"),
    }
    with figures.canvas(folder, "dt1") as axes:
        histogram(axes, groups, "Δt1 (s)", bins=24)
        axes.set_title(f"A window of {data['settings']['window']:g} s", loc="left")


def _response(folder: Path, data: numbers.Data) -> list[str]:
    passes, made = data["reassignments"], data.get("creations", [])
    kinds = list(dict.fromkeys(row["provisioner"] for row in [*passes, *made]))

    def scenes(key: str) -> dict[str, list[float]]:
        return {
            f"{kind}, δ = {delta:g}, {'reading' if reading else 'idle'}": numbers.known(
                passes, key, provisioner=kind, delta=delta, reading=reading
            )
            for kind in kinds
            for delta in (5.0, 25.0)
            for reading in (False, True)
        }

    with figures.canvas(folder, "dt2") as axes:
        histogram(axes, scenes("dt2"), "Δt2 (s)")
        axes.set_title("Measurement → creation requested", loc="left")
    with figures.canvas(folder, "dt4") as axes:
        histogram(axes, scenes("dt4"), "Δt4 (s)")
        axes.set_title("First order → last receipt", loc="left")
    drawn = ["dt2", "dt4"]
    if made:
        groups: dict[str, list[float]] = {}
        for kind in kinds:
            mine = [row for row in made if row["provisioner"] == kind]
            room = [row for row in mine if not row.get("full")]
            few = [row for row in room if row["together"] <= 3]
            many = [row for row in room if row["together"] > 3]
            groups[f"{kind}, 1 to 3 at once"] = numbers.known(few, "dt3")
            groups[f"{kind}, more at once"] = numbers.known(many, "dt3")
            full = [row for row in mine if row.get("full")]
            groups[f"{kind}, no room at first"] = numbers.known(full, "dt3")
        with figures.canvas(folder, "dt3") as axes:
            histogram(axes, groups, "Δt3 (s)")
            axes.set_title("Creation requested → ready", loc="left")
        drawn.append("dt3")
    with figures.canvas(folder, "dt4-consumers") as axes:
        for place, reading in enumerate((False, True)):
            rows = [
                row
                for row in passes
                if row["reading"] is reading and not row.get("full") and row["dt4"] is not None
            ]
            axes.plot(
                [row["involved"] for row in rows],
                [row["dt4"] for row in rows],
                "o^"[place],
                color=COLOURS[place],
                alpha=0.6,
                label="consumers read" if reading else "nothing to read",
            )
        axes.set_xlabel("consumers that give or get a partition")
        axes.set_ylabel("Δt4 (s)")
        axes.set_ylim(bottom=0)
        axes.set_title("Δt4 and how many consumers take part", loc="left")
        axes.legend()
    return [*drawn, "dt4-consumers"]


def _capacity(folder: Path, data: numbers.Data) -> None:
    rows: Sequence[Mapping[str, Any]] = [row for row in data["conditions"] if row["rates"]]
    everything = [rate for row in rows for rate in row["rates"]]
    grid = np.linspace(0, max(everything) * 1.1, capacity.GRID)
    with figures.canvas(folder, "capacity") as axes:
        for place, row in enumerate(rows):
            found = capacity.density(row["rates"], grid)
            mode = capacity.mode(row["rates"])
            axes.plot(
                grid / 1e6,
                found * 1e6,
                DASHES[place],
                color=COLOURS[place],
                label=f"Test {row['condition']}: {row['partitions']} partitions, "
                f"{row['tables']} tables, mode {mode / 1e6:.1f} MB/s",
            )
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel("throughput per cycle (MB/s)")
        axes.set_ylabel("density (1 per MB/s)")
        axes.set_title("What a consumer can read", loc="left")
        axes.legend()


TINTS = {"mwf": figures.VERMILION, "sticky": figures.ORANGE, "keda": figures.GREEN}


def _delays(folder: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    drawn = []
    for row in runs:
        low, q1, med, q3, high = np.quantile(row["sample"], [0.01, 0.25, 0.5, 0.75, 0.99])
        label = f"{row['name']}\n{row['consumers']:.1f} consumers"
        drawn.append(
            {"label": label, "whislo": low, "q1": q1, "med": med, "q3": q3, "whishi": high}
        )
    with figures.canvas(folder, "delay") as axes:
        boxes = axes.bxp(
            drawn, showfliers=False, patch_artist=True, medianprops={"color": figures.BLACK}
        )
        for box, row in zip(boxes["boxes"], runs, strict=True):
            box.set_facecolor(TINTS.get(row["name"], figures.SKY))
        modelled = [(place, row["model"]) for place, row in enumerate(runs, 1) if "model" in row]
        for number, (place, model) in enumerate(modelled):
            axes.plot(
                [place] * 3,
                [max(model[q], 0.05) for q in ("p50", "p90", "p99")],
                "x",
                color=figures.BLACK,
                label="the model's p50, p90, p99 (0 shown as 0.05)" if number == 0 else None,
            )
        axes.set_yscale("log")
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("produced → readable (s)")
        axes.set_title("End-to-end latency", loc="left")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper left")


def _consumers(folder: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    with figures.canvas(folder, "consumers") as axes:
        for place, row in enumerate(runs):
            if not row["line"]:
                continue
            end = [row["seconds"], row["line"][-1][1]]
            at, count = zip(*[*row["line"], end], strict=True)
            axes.step(
                np.array(at) / 60,
                count,
                DASHES[place % len(DASHES)],
                where="post",
                color=TINTS.get(row["name"], (figures.SKY, figures.BLUE)[place % 2]),
                label=f"{row['name']} (mean {row['consumers']:.1f})",
            )
        axes.axvline(runs[0]["settle"] / 60, color=figures.GREY, lw=1)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("minutes; records count from the grey line on")
        axes.set_ylabel("consumers")
        axes.set_title("Consumers over time", loc="left")
        axes.legend()
