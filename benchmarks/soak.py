"""A soak: the whole system under a load that moves, for hours, and what grows meanwhile.

    python -m benchmarks.soak [--minutes 120] [--rate 0.8] [--every 10] [--out DIR] [--json]
        [--page docs]

Samples each process (monitor, controller, compaction, dashboard, the largest consumer, and the JVMs
of Spark and Kafka): memory that no file backs, open handles, threads; and the seconds of the
consumers' cycles, the age of the oldest unread record, the entries of the tables' logs, and the
bytes of the roles' own logs. Draws a figure for each, and compares the last quarter with the
second one. At the end the lake is counted against what was produced.

Exits with 1 if a figure grew, or if a record was lost or doubled.
"""

import argparse
import csv
import json
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types

from benchmarks import page
from benchmarks.growth import growth
from lagless.adapters.lake import store
from lagless.lab import demo, report
from lagless.lab.load import counting
from lagless.lab.parts import children
from lagless.lab.testbed import Listener, Testbed
from lagless.settings import Settings
from lagless.wiring import clock, controller

ROLES = ("monitor", "controller", "dashboard")
FIGURES = {
    "memory": ("MB", "memory that no file backs"),
    "handles": ("handles", "open files and connections"),
    "threads": ("threads", "threads"),
    "cycle": ("s", "seconds of a cycle, median of the consumers"),
    "unread": ("s", "age of the oldest unread record"),
    "entries": ("entries", "entries of the tables' logs"),
    "logs": ("kB", "bytes in the logs of the roles"),
}
PATIENCE = 180.0
Series = dict[tuple[str, str], list[tuple[float, float]]]
"""By figure and part: seconds since the start, and the value."""


def part_of(process: psutil.Process, folder: str) -> str | None:
    """Return which part of the group in a folder a process is; None if it is none of them."""
    try:
        return named(process.cmdline(), folder)
    except psutil.Error:
        return None


def named(line: Sequence[str], folder: str) -> str | None:
    """Return the part that a command line starts; None if it is not of the group in the folder."""
    if not any(folder in word for word in line):
        return None
    if line[0].endswith("java"):
        return "Kafka" if "kafka.Kafka" in line else "Spark"
    roles = [word for word in line if word in (*ROLES, "consumer", "compact")]
    return roles[0] if "lagless" in line and roles else None


def memory(process: psutil.Process) -> float:
    """Return the MB of a process that no file backs."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1000
    raise ProcessLookupError(process.pid)


def processes(folder: str) -> Iterator[tuple[str, str, float]]:
    """Yield figure, part and value of each process; of several consumers each one."""
    for process in psutil.process_iter():
        part = part_of(process, folder)
        if part is None:
            continue
        try:
            yield "memory", part, memory(process)
            yield "handles", part, float(process.num_fds())
            yield "threads", part, float(process.num_threads())
        except (psutil.Error, OSError):
            continue  # it has just ended


def sample(settings: Settings, bed: Testbed, listener: Listener) -> dict[tuple[str, str], float]:
    """Return every figure as it is now; of several consumers the largest."""
    found: dict[tuple[str, str], float] = {}
    for figure, part, value in processes(str(bed.folder)):
        found[figure, part] = max(value, found.get((figure, part), 0.0))
    beats = [beat for beat in listener.fresh() if beat.state == "ready"]
    if beats:
        cycles = sorted(beat.cycle_seconds for beat in beats)
        found["cycle", "consumers"] = cycles[len(cycles) // 2]
        found["unread", "consumers"] = max(beat.lag_seconds for beat in beats)
    here = store.of(settings.lake)
    for topic in demo.TOPICS:
        entries = here.inside(settings.table_of(topic)).inside("_delta_log").files()
        found["entries", topic] = float(len(entries))
    for log in (bed.folder / "logs").glob("*.log"):
        if log.stem in ROLES:
            found["logs", log.stem] = log.stat().st_size / 1000
    return found


def run(given: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Let the group work, sample it, and return what was found."""
    series: Series = defaultdict(list)
    (port,) = children.free_tcp_ports()
    with Testbed() as bed:
        settings, config = bed.settle({**demo.tree(port), "compaction": {"watch": True}})
        listener = Listener(settings)
        try:
            for role in ROLES:
                bed.start_role(role, config)
            load = demo.flow(given.rate * 1e6, settings.capacity, seed=0)
            began = bed.start_load(load, "--sizes", "lognormal:400:0.6")
            _watch(given, bed, listener, settings, series, began, out)
            tally = bed.end_load()
            _drain(settings, listener, tally.records)
            bed.children.end("controller", patience=5)
        finally:
            controller.end_consumers(settings)
            listener.close()
        tables = {topic: settings.table_of(topic) for topic in tally.produced}
        count = counting.count(store.of(settings.lake), tables, tally.produced)
    return {
        "minutes": given.minutes,
        "produced": count.produced,
        "landed": count.landed,
        "lost": count.lost,
        "duplicated": count.duplicated,
        "out_of_order": count.out_of_order,
        "reassignments": len(listener.history.reassignments),
        "figures": compared(series),
    }


def _watch(
    given: argparse.Namespace,
    bed: Testbed,
    listener: Listener,
    settings: Settings,
    series: Series,
    began: float,
    out: Path,
) -> None:
    """Sample until the time is over, and write down every sample at once."""
    with (out / "samples.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["seconds", "figure", "part", "value"])
        due = time.time()
        while (passed := time.time() - began) < 60 * given.minutes:
            bed.children.check()
            listener.listen()
            if time.time() >= due:
                due += given.every
                for (figure, part), value in sample(settings, bed, listener).items():
                    series[figure, part].append((passed, value))
                    rows.writerow([f"{passed:.0f}", figure, part, f"{value:.3f}"])
                file.flush()
                consumers = sum(beat.state == "ready" for beat in listener.fresh())
                done = f"{passed / 60:.1f} of {given.minutes:g} minutes"
                print(f"{done}, {consumers} consumers", file=sys.stderr, flush=True)
            time.sleep(0.5)
    draw(series, out)


def _drain(settings: Settings, listener: Listener, records: int) -> None:
    tables = [settings.table_of(topic) for topic in demo.TOPICS]
    until = time.monotonic() + PATIENCE
    while counting.arrived(store.of(settings.lake), tables) < records:
        listener.listen()
        if time.monotonic() > until:
            return  # the count will say what is missing
        time.sleep(0.5)


def compared(series: Series) -> list[dict[str, Any]]:
    """Return early and late medians of each figure and part."""
    rows = []
    for (figure, part), samples in sorted(series.items()):
        unit = FIGURES[figure][0]
        if (found := growth(samples, unit)) is not None:
            ends = {"early": round(found.early, 3), "late": round(found.late, 3)}
            rows.append({"figure": figure, "part": part, "unit": unit, **ends})
            rows[-1]["grows"] = found.grows
    return rows


def draw(series: Series, out: Path) -> None:
    """Draw a figure of each kind, with a line for each part."""
    for figure, (unit, title) in FIGURES.items():
        with report.canvas(out, f"soak-{figure}", height=3.0) as axes:
            for (kind, part), samples in sorted(series.items()):
                if kind == figure:
                    minutes = [at / 60 for at, _ in samples]
                    axes.plot(minutes, [value for _, value in samples], label=part)
            axes.set(title=title, xlabel="minutes", ylabel=unit, ylim=(0, None))


def table(found: dict[str, Any]) -> str:
    """Return the figures as a table in Markdown."""
    rows = [
        (
            FIGURES[row["figure"]][1],
            row["part"],
            f"{row['early']:.4g} {row['unit']}",
            f"{row['late']:.4g} {row['unit']}",
            "yes" if row["grows"] else "no",
        )
        for row in found["figures"]
    ]
    head = ("figure", "part", "second quarter", "last quarter", "grows")
    words = (
        f"{found['minutes']:g} minutes, {found['reassignments']} reassignments: "
        f"{found['produced']:,} records produced, {found['landed']:,} landed, "
        f"{found['lost']} lost, {found['duplicated']} duplicated, "
        f"{found['out_of_order']} out of order. "
        f"Measured on {time.strftime('%Y-%m-%d')} by `python -m benchmarks.soak`."
    )
    return f"{words}\n\n{report.markdown(report.Table('', head, rows))}"


def main() -> None:
    """Run the soak, and exit with 1 if anything grew or was lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--minutes", type=float, default=120)
    add("--rate", type=float, default=0.8, help="MB/s of the whole load, between spikes")
    add("--every", type=float, default=10, help="seconds from one sample to the next")
    add("--out", type=Path, help="folder for samples.csv and the figures; a temporary one if none")
    add("--json", action="store_true")
    add("--page", type=Path, metavar="FOLDER", help="put table and figures into the docs there")
    given = parser.parse_args()
    # On SIGTERM, end through the context managers, which leave nothing behind.
    clock.on_signals(lambda: sys.exit(1), (signal.SIGTERM,))
    out = given.out or Path(tempfile.mkdtemp(prefix="lagless-soak-"))
    out.mkdir(parents=True, exist_ok=True)
    found = run(given, out)
    (out / "soak.json").write_text(json.dumps(found, indent=1) + "\n")
    if given.page:
        shown = [table(found)]
        for name in ("memory", "cycle"):
            drawn = (out / f"soak-{name}.svg").read_text()
            (given.page / "img" / f"soak-{name}.svg").write_text(drawn)
            shown.append(f"![{FIGURES[name][1]}](img/soak-{name}.svg)")
        page.write(given.page / "limits.md", "soak", "\n\n".join(shown))
    print(json.dumps(found, indent=1) if given.json else table(found))
    print(f"The samples and figures are in {out}", file=sys.stderr)
    grown = [row for row in found["figures"] if row["grows"]]
    sys.exit(bool(grown or found["lost"] or found["duplicated"] or found["out_of_order"]))


if __name__ == "__main__":
    main()
