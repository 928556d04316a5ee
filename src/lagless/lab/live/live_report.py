"""`lagless evaluate live`: its parts, and the figures, report.html and results.md."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np

from lagless.errors import WrongInput
from lagless.lab import calibration, report
from lagless.lab.live import (
    capacity,
    delay,
    foreign_findings,
    foreign_members,
    journal,
    live_findings,
    relief,
    response,
    rival,
    steps,
)
from lagless.lab.live.journal import Data, Journal, known, values
from lagless.lab.live.live_findings import PS, SECTIONS, SUMS
from lagless.lab.live.live_stream import MANY, PARTITIONS
from lagless.lab.report import Section, Table

COLOURS = (report.BLUE, report.VERMILION, report.GREEN, report.PURPLE, report.ORANGE)
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
    "members-delay": "Unmodified members, produced → processed: quartiles, whiskers 1 % to 99 %.",
    "members-consumers": "Unmodified members over time on the same stream.",
}


def draw(folder: Path, data: Mapping[str, Data]) -> None:
    """Draw every figure that the measured parts allow."""
    if data.get("dt1", {}).get("steps"):
        _steps(folder, data["dt1"])
    if data.get("response", {}).get("reassignments"):
        _response(folder, data["response"])
    if data.get("capacity", {}).get("conditions"):
        _capacity(folder, data["capacity"])
    runs = [row for name in ("delay", "rival") for row in data.get(name, {}).get("runs", [])]
    placed = foreign_findings.drawn(data.get("members", {}))
    for prefix, rows in (("", runs), ("members-", placed)):
        if any(row["sample"] for row in rows):
            _delays(folder, f"{prefix}delay", [row for row in rows if row["sample"]])
            _consumers(folder, f"{prefix}consumers", rows)


def histogram(
    folder: Path, name: str, groups: Mapping[str, Sequence[float]], title: str, bins: int = 40
) -> None:
    """Draw a stacked histogram of groups of seconds; a far tail is cut off and said."""
    some = {group: np.asarray(values) for group, values in groups.items() if len(values)}
    with report.canvas(folder, name) as axes:
        axes.set(title=title)
        if not some:
            return
        everything = np.concatenate(list(some.values()))
        least, most = float(everything.min()), float(everything.max())
        top = float(np.quantile(everything, 0.995)) * 1.1 or 1.0
        beyond = int((everything > top).sum())
        edges = np.linspace(0.0 if least < top / 2 else 0.95 * least, top, bins + 1)
        base = np.zeros(bins)
        for (group, values), colour, hatch in zip(some.items(), cycle(COLOURS), cycle(HATCHES)):
            counts, _ = np.histogram(values, edges)
            look: dict[str, Any] = {"facecolor": colour + "88", "edgecolor": colour, "hatch": hatch}
            label = f"{group} ({len(values)})"
            axes.stairs(base + counts, edges, baseline=base, fill=True, label=label, **look)
            base = base + counts
        tail = f"; {beyond} more up to {most:.1f} s" if beyond else ""
        axes.set(xlim=edges[[0, -1]], xlabel=f"Δt{name[2]} (s){tail}")
        axes.set(ylim=(0, None), ylabel="observations")


def _steps(folder: Path, data: Data) -> None:
    rows = data["steps"]
    groups = {
        "faster": known([r for r in rows if r["after"] > r["before"]], "seconds"),
        "slower": known([r for r in rows if r["after"] <= r["before"]], "seconds"),
    }
    histogram(folder, "dt1", groups, f"A window of {data['settings']['window']:g} s", bins=24)


DT3: Mapping[str, Callable[[Data], bool]] = {
    "1 to 3 at once": lambda row: not row.get("full") and row["together"] <= 3,
    "more at once": lambda row: not row.get("full") and row["together"] > 3,
    "no room at first": lambda row: bool(row.get("full")),
}
"""The groups of consumers in the figure of Δt3."""


def _response(folder: Path, data: Data) -> None:
    passes, creations = data["reassignments"], data.get("creations", [])
    kinds = list(dict.fromkeys(row["provisioner"] for row in [*passes, *creations]))
    titles = {"dt2": "Measurement → creation requested", "dt4": "First order → last receipt"}
    for key, title in titles.items():
        scenes = {
            f"{kind}, δ = {delta:g}, {'reading' if reading else 'idle'}": known(
                passes, key, provisioner=kind, delta=delta, reading=reading
            )
            for kind, delta, reading in product(kinds, (5.0, 25.0), (False, True))
        }
        histogram(folder, key, scenes, title)
    if creations:
        groups = {
            f"{kind}, {group}": known(filter(fits, creations), "dt3", provisioner=kind)
            for kind, (group, fits) in product(kinds, DT3.items())
        }
        histogram(folder, "dt3", groups, "Creation requested → ready")
    roomy = [row for row in passes if not row.get("full")]
    with report.canvas(folder, "dt4-consumers") as axes:
        for reading, marker, colour in ((False, "o", COLOURS[0]), (True, "^", COLOURS[1])):
            rows = values(roomy, "involved", "dt4", reading=reading)
            label = "consumers read" if reading else "nothing to read"
            axes.plot(*np.reshape(rows, (-1, 2)).T, marker, color=colour, alpha=0.6, label=label)
        axes.set(xlabel="consumers that give or get a partition", ylabel="Δt4 (s)")
        axes.set(ylim=(0, None), title="Δt4 and how many consumers take part")


def _capacity(folder: Path, data: Data) -> None:
    labelled = {
        f"Test {row['condition']}: {row['partitions']} partitions, {row['tables']} tables, "
        f"mode {capacity.mode(row['rates']) / 1e6:.1f} MB/s": row["rates"]
        for row in data["conditions"]
        if row["rates"]
    }
    with report.canvas(folder, "capacity") as axes:
        capacity.plot(axes, labelled)
        axes.set(title="What a consumer can read")


TINTS = {
    "mwf": report.VERMILION,
    "sticky": report.ORANGE,
    "lagless": report.ORANGE,
    "keda": report.GREEN,
}


def _delays(folder: Path, name: str, runs: Sequence[Data]) -> None:
    drawn: list[dict[str, Any]] = [
        {"label": f"{row['name']}\n{row['consumers']:.1f} consumers"}
        | {key: np.quantile(row["sample"], q) for key, q in report.BOX.items()}
        for row in runs
    ]
    with report.canvas(folder, name) as axes:
        report.boxes(axes, drawn, [TINTS.get(row["name"], report.SKY) for row in runs])
        models = [(index, row["model"]) for index, row in enumerate(runs, 1) if "model" in row]
        if models:
            places = [index for index, _ in models for _ in PS]
            shown = [max(model[p], 0.05) for _, model in models for p in PS]
            label = "the model's p50, p90, p99 (0 shown as 0.05)"
            axes.plot(places, shown, "x", color=report.BLACK, label=label)
            axes.legend(loc="upper left")
        axes.set(ylabel="produced → readable (s)", title="End-to-end latency")


def _consumers(folder: Path, name: str, runs: Sequence[Data]) -> None:
    with report.canvas(folder, name) as axes:
        for row, dash, tint in zip(runs, cycle(DASHES), cycle((report.SKY, report.BLUE))):
            if row["line"]:
                at, count = np.array([*row["line"], [row["seconds"], row["line"][-1][1]]]).T
                colour = TINTS.get(row["name"], tint)
                label = f"{row['name']} (mean {row['consumers']:.1f})"
                axes.step(at / 60, count, dash, where="post", color=colour, label=label)
        axes.axvline(runs[0]["settle"] / 60, color=report.GREY, lw=1)
        axes.set(xlim=(0, None), xlabel="minutes; records count from the grey line on")
        axes.set(ylim=(0, None), ylabel="consumers", title="Consumers over time")


TITLE = "The running system, measured"
INTRODUCTION = (
    "`lagless evaluate live --out DIR` writes this page (`DIR/results.md`) from what it "
    "measured, with all figures in `DIR/report.html` and every observation in `DIR/*.json`."
)
LIMITED = "What this does not show"
LIMITS = (
    "One machine runs the broker, Spark, the controller, all consumers and the load. Where they "
    "compete for its cores, times are longer than on machines of their own, and nothing here shows "
    "a network, a cloud's Kubernetes or more than one broker.",
    "Whatever else ran on the machine at the same time is in these numbers too; a load average "
    "well above the number of cores says that there was much.",
    "Each part but that of members that lagless did not write is one run with one seed; a second "
    "one gives other numbers.",
    "Consumers are held to a small rate in the latency parts, so that a small load needs several "
    "of them. Nothing here shows how a group behaves at hundreds of MB/s.",
)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the files of the parts that are there."""
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    return {name: journal.read(file) for name, file in files.items() if file.exists()}


def sums(data: Mapping[str, Data]) -> dict[str, Any]:
    """Return the numbers of every part that is there."""
    return {
        name: {key: part.get(key) for key in ("complete", "seconds", "settings")} | SUMS[name](part)
        for name, part in data.items()
    }


def write(folder: Path) -> Path:
    """Write figures, report.html and results.md from what is there; return the report."""
    data, pictures = read(folder), folder / "figures"
    draw(pictures, data)
    parts = [replace(SECTIONS[name](data[name]), anchor=name) for name in data]
    if "delay" in data and "rival" in data:
        words = [*parts[-1].words, *live_findings.against(data["delay"], data["rival"])]
        parts[-1] = replace(parts[-1], words=words)
    absent = ", ".join(name for name in SECTIONS if name not in data)
    missing = [f"Not measured here, so not on this page: {absent}."] if absent else []
    facts: dict[str, str] = {}
    for part in data.values():
        facts |= part.get("machine", {})
    machine = Table("Machine and versions", ("", ""), list(facts.items()))
    measured = [Section(tables=[_sizes(data)]), Section(words=missing), *parts]
    html = report.page(TITLE, [*measured, Section(LIMITED, LIMITS, [machine])], pictures, CAPTIONS)
    (folder / "report.html").write_text(html, "utf-8")
    listed = "\n".join(f"- {words}" for words in LIMITS)
    after = [Section(LIMITED, [listed]), Section(machine.caption, tables=[machine])]
    links = {
        name: f"![{caption}](img/live-{name}.svg)"
        for name, caption in CAPTIONS.items()
        if (pictures / f"{name}.svg").exists()
    }
    sections = [Section(words=[INTRODUCTION]), *measured, *after]
    (folder / "results.md").write_text(report.document(TITLE, sections, links), "utf-8")
    return folder / "report.html"


def _sizes(data: Mapping[str, Data]) -> Table:
    rows = [
        (
            name,
            ", ".join(f"{key} = {value}" for key, value in part["settings"].items()),
            f"{part.get('seconds', 0) / 60:.1f}",
            "complete" if part["complete"] else "interrupted",
        )
        for name, part in data.items()
    ]
    return Table("Sizes", ("part", "asked for", "minutes", ""), rows)


@dataclass(frozen=True, slots=True)
class Size:
    """How much each part observes."""

    steps: int = 30
    window: float = 30.0
    observations: int = 300
    partitions: int = 32
    scale: float = 1.0
    minutes: float = 5.0
    repeats: int = 3
    surges: int = 3
    seed: int = 0
    kubeconfig: Path | None = None


TITLES = {
    "dt1": "Δt1: a step in the write speed → the monitor shows it",
    "response": "Δt2, Δt3, Δt4: a measurement → the group has answered it",
    "capacity": "Capacity: what a consumer reads at most, in the paper's three conditions",
    "delay": "Latency: produced → readable in the lake, beside groups of fixed size",
    "rival": "A plain consumer group scaled by KEDA's rule, on the same work",
    "members": "Members that lagless did not write, placed and scaled in three ways",
    "relieved": "Step → relieved: a step in the load → the backlog is gone, beside KEDA's rule",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part: its name, the settings that its file must have, and how it is run."""

    name: str
    settings: Mapping[str, Any]
    run: Callable[[Journal], None]
    lacks: Callable[[Journal], bool] = lambda _: False
    """Whether more is asked of a part that was complete."""


def parts(size: Size) -> dict[str, Part]:
    """Return every part in its size."""
    seed, pods = size.seed, size.kubeconfig
    stepped = {"steps": size.steps, "window": size.window, "seed": seed}
    answered = {"observations": size.observations, "partitions": size.partitions, "seed": seed}
    streamed = {"minutes": size.minutes, "partitions": PARTITIONS, "seed": seed}
    placed = {"minutes": size.minutes, "partitions": MANY, "repeats": size.repeats, "seed": seed}
    surged = {"surges": size.surges, "partitions": relief.PARTITIONS, "seed": seed}
    wanted = response.Size(size.observations, size.partitions)
    listed = (
        Part("dt1", stepped, partial(steps.run, steps=size.steps, window=size.window, seed=seed)),
        Part(
            "response",
            answered,
            partial(response.run, size=wanted, seed=seed, kubeconfig=pods),
            # A cluster that was not there at first adds to what is there.
            lambda journal: pods is not None and "kubernetes" not in journal.all("ended"),
        ),
        Part("capacity", {"scale": size.scale}, partial(calibration.observe, scale=size.scale)),
        Part("delay", streamed, partial(delay.run, minutes=size.minutes, seed=seed)),
        Part("rival", streamed, partial(rival.run, minutes=size.minutes, seed=seed)),
        Part(
            "members",
            placed,
            partial(foreign_members.run, minutes=size.minutes, repeats=size.repeats, seed=seed),
        ),
        Part("relieved", surged, partial(relief.run, surges=size.surges, seed=seed)),
    )
    return {part.name: part for part in listed}


def chosen(known: Mapping[str, Part], text: str) -> list[Part]:
    """Return the named parts, "dt1,response" say; all if none is named."""
    asked = named("--only", text, known)
    return [part for name, part in known.items() if not asked or name in asked]


def named(option: str, text: str, known: Collection[str]) -> list[str]:
    """Return the parts that an option names, separated by commas; WrongInput for others."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise WrongInput(f"{option} {word}: there is no such part, only {', '.join(known)}")
    return words


def run(
    out: Path,
    asked: Sequence[Part],
    say: Callable[[str], None],
    progress: Callable[[str, int, int], None],
) -> None:
    """Run the parts that the folder does not have yet, and write the pages after each."""
    journals = [
        Journal(
            out / f"{part.name}.json", part.name, part.settings, say, partial(progress, part.name)
        )
        for part in asked
    ]
    for part, kept in zip(asked, journals, strict=True):
        if kept.complete and not part.lacks(kept):
            say(f"{part.name}: already measured, {kept.file}")
            continue
        begins = f"resuming with what {kept.file} has" if kept.resumed else "beginning"
        say(f"{TITLES[part.name]}: {begins}")
        kept.begin()
        part.run(kept)
        write(out)
        say(f"{part.name}: done in {kept.data['seconds']:.0f} s")
