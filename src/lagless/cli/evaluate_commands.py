"""The commands that measure: algorithms on streams, a consumer's rate, the running system."""

import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lagless import extras
from lagless.cli import options, role_runner
from lagless.settings import units

commands = typer.Typer()
evaluation = typer.Typer(
    name="evaluate", help="Run the paper's experiments, simulated or live.", no_args_is_help=True
)
commands.add_typer(evaluation)


class Order(StrEnum):
    """The order in which the online algorithms see the partitions."""

    shuffled = "shuffled"
    fixed = "fixed"


class Clamp(StrEnum):
    """The upper limit of drawn speeds."""

    capacity = "capacity"
    none = "none"


Stream = Annotated[
    Path,
    typer.Option(help="CSV or Parquet: a column per partition, a row per measurement (bytes/s)."),
]
Capacity = Annotated[float, typer.Option(help="Capacity of a consumer in bytes per second.")]
Orders = Annotated[
    Order, typer.Option(help="Order of partitions for nf, ff, bf and wf; fixed: as in the file.")
]
Column = tuple[str, str, Callable[[float], str]]
"""Title, name, and how the number is written."""
Seed = Annotated[int, typer.Option(min=0, help="Random seed for shuffled orders.")]


@commands.command()
def simulate(
    stream: Stream,
    capacity: Capacity,
    algorithms: Annotated[
        str, typer.Option(help="Comma-separated algorithms with parameters: mwf,sticky:slack=0.1.")
    ],
    order: Orders = Order.shuffled,
    seed: Seed = 0,
    json: options.Json = False,
) -> None:
    """Run packing algorithms on a recorded stream: consumers, CBS, Rscore, migrations."""
    from lagless.lab.model import streams
    from lagless.lab.paper import experiments

    names = experiments.names(algorithms)
    speeds = streams.read(stream).speeds
    found = experiments.simulate(speeds, capacity, names, order.value, seed)
    _show(
        found,
        json,
        ("CBS", "cbs", "{:.2%}".format),
        ("E(Rscore)", "rscore", "{:.4f}".format),
        ("consumers", "consumers", "{:.2f}".format),
        ("migrations", "migrations", "{:.2f}".format),
    )


@commands.command()
def latency(
    stream: Stream,
    capacity: Capacity,
    max_rate: Annotated[float, typer.Option(help="Bytes per second a consumer can read.")],
    algorithms: Annotated[
        str, typer.Option(help="Comma-separated algorithms; also keda_cooperative and keda_range.")
    ],
    iteration: Annotated[float, typer.Option(help="Seconds between measurements.")] = 30.0,
    rebalance: Annotated[float, typer.Option(help="Seconds that a move takes.")] = 5.0,
    order: Orders = Order.shuffled,
    seed: Seed = 0,
    json: options.Json = False,
) -> None:
    """Compute how long the bytes of a recorded stream wait under each algorithm."""
    from lagless.lab.model import streams
    from lagless.lab.model.latency import Model
    from lagless.lab.paper import experiments

    model = Model(max_rate, iteration, rebalance)
    names = experiments.names(algorithms, with_keda=True)
    speeds = streams.read(stream).speeds
    found = {
        name: experiments.summary(
            experiments.waited(name, speeds, capacity, model, order.value, seed)
        )
        for name in names
    }
    _show(
        found,
        json,
        ("consumers", "consumers", "{:.2f}".format),
        ("bytes", "bytes", units.text),
        ("late bytes", "late_bytes", units.text),
        *((f"{key} (s)", key, "{:.2f}".format) for key in ("p50", "p90", "p99", "max")),
    )


@evaluation.command()
def paper(
    out: Annotated[Path, typer.Option(help="Folder for rows, tables, figures and report.html.")],
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of each stream.")] = 200,
    measurements: Annotated[int, typer.Option(min=1, help="Measurements of each stream.")] = 500,
    deltas: Annotated[str, typer.Option(help="Speed changes, % of capacity.")] = "0,5,10,15,20,25",
    starts: Annotated[str, typer.Option(help="Initial speeds: random, zero, half, full.")] = (
        "random,zero,half,full"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Number of streams of each kind.")] = 1,
    clamp: Annotated[Clamp, typer.Option(help="Upper limit of the speeds.")] = Clamp.capacity,
    algorithms: Annotated[
        str, typer.Option(help="Algorithms to add to the paper's twelve, comma-separated.")
    ] = "sticky,ezzeddine",
    master: Annotated[
        str, typer.Option(help="Spark master, such as local[*], or a Spark Connect address.")
    ] = "local[*]",
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run every experiment of the paper on Spark; an interrupted run resumes."""
    from lagless.lab.paper import experiments, grid
    from lagless.lab.paper import paper_run as experiment

    more = experiments.names(algorithms) if algorithms.strip() else []
    plan = experiments.Plan(
        partitions=partitions,
        measurements=measurements,
        deltas=experiments.numbers(deltas, "--deltas"),
        starts=experiments.starts(starts),
        seeds=seeds,
        clamp=clamp.value,
        algorithms=tuple(dict.fromkeys((*experiments.PAPER, *more))),
    )
    opened = grid.opened(master, plan.algorithms, grid.settings(conf or ()))
    with options.bars() as told, opened as spark:
        outcome = experiment.run(spark, plan, out, told)
    options.show(
        {**asdict(outcome), "report": str(outcome.report)},
        json,
        lambda: print(
            f"{outcome.cells} cells, {outcome.rows} rows in {outcome.grid_seconds:.1f} s: "
            f"{outcome.report}"
        ),
    )


def _show(found: Mapping[str, Mapping[str, float]], json: bool, *columns: Column) -> None:
    """Show the numbers of each algorithm: a table, or lines with tabs where no terminal is."""
    from rich.console import Console
    from rich.table import Column as Cells
    from rich.table import Table

    titles = [title for title, _, _ in columns]
    rows = [["algorithm", *titles]]
    rows += [[name, *(form(row[key]) for _, key, form in columns)] for name, row in found.items()]
    numbers = [Cells(title, justify="right", no_wrap=True) for title in titles]
    # A long name goes on in the next line; a number is never cut off.
    table = Table(Cells("algorithm", overflow="fold"), *numbers, box=None, padding=(0, 1, 0, 0))
    for row in rows[1:]:
        table.add_row(*row)
    lines = "\n".join(map("\t".join, rows))
    shown = partial(Console().print, table) if sys.stdout.isatty() else partial(print, lines)
    options.show({"algorithms": found}, json, shown)


@evaluation.command()
def live(
    out: Annotated[Path, typer.Option(help="Folder for observations, figures and report.html.")],
    only: Annotated[
        str,
        typer.Option(
            help="Any of dt1, response, capacity, delay, rival, members, relieved; default: all."
        ),
    ] = "",
    steps: Annotated[int, typer.Option(min=1, help="dt1: number of steps in write speed.")] = 30,
    window: Annotated[float, typer.Option(min=1, help="dt1: monitor window in seconds.")] = 30.0,
    observations: Annotated[
        int,
        typer.Option(min=1, help="response: reassignments to observe, and a third as many starts."),
    ] = 300,
    partitions: Annotated[int, typer.Option(min=1, help="response: number of partitions.")] = 32,
    scale: Annotated[
        float, typer.Option(min=0.001, max=10, help="capacity: fraction of the paper's data.")
    ] = 1.0,
    minutes: Annotated[
        float,
        typer.Option(min=0.2, help="delay, rival, members: minutes per run, after one of warm-up."),
    ] = 5.0,
    repeats: Annotated[
        int,
        typer.Option(
            min=1, help="members: runs of each group, each time with other partitions hot."
        ),
    ] = 3,
    surges: Annotated[int, typer.Option(min=1, help="relieved: steps in the load.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the streams.")] = 0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            envvar="LAGLESS_TEST_KUBECONFIG",
            help="response: also run as pods on this cluster; its only node must be this machine.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure the running system on this machine; an interrupted run resumes."""

    with extras.needed("dev"):
        from lagless.lab.live import live_report as live
        from lagless.lab.paper.grid import Progress
    from lagless.wiring import clock

    # A controller that runs in this process reports its decisions to the observations.
    role_runner.drop_logs()
    # On SIGTERM, exit through the context managers that stop the children.
    clock.on_signals(lambda: sys.exit(1), (signal.SIGTERM,))
    size = live.Size(
        steps, window, observations, partitions, scale, minutes, repeats, surges, seed, kubeconfig
    )
    asked = live.chosen(live.parts(size), only)
    with options.bars() as told:
        live.run(
            out,
            asked,
            lambda words: options.notes.print(words, markup=False, soft_wrap=True),
            lambda name, done, total: told(name, Progress(done, 0, total)),
        )
    report = live.write(out)
    found = live.sums(live.read(out))
    options.show(
        {"parts": found, "report": str(report)},
        json,
        lambda: print(f"{', '.join(found)}: {report}"),
    )


@commands.command()
def calibrate(
    file: options.Config = options.DEFAULT,
    out: Annotated[
        Path, typer.Option(help="Folder for the figure, the numbers and the settings file.")
    ] = Path("calibration"),
    scale: Annotated[
        float, typer.Option(min=0.001, max=10, help="Fraction of the paper's data to read.")
    ] = 1.0,
    conditions: Annotated[str, typer.Option(help="The paper's conditions to run.")] = "1,2,3",
    pod: Annotated[
        bool,
        typer.Option(
            help="Measure in a pod with a consumer's image, CPU and memory; it reads the settings "
            "from the group's ConfigMap."
        ),
    ] = False,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Measure how many bytes per second one consumer can read (C̄)."""
    from lagless.lab import calibration
    from lagless.lab.live import capacity

    settings = options.settings(file, overrides)
    chosen = calibration.choose(conditions)
    if pod:
        words = ["calibrate", "--json", "--out", "/tmp/calibration"]
        words += ["--scale", str(scale), "--conditions", conditions]
        words += [word for pair in overrides or () for word in ("--set", pair)]
        told = calibration.run_in_pod(settings, words, out, role_runner.note)
    else:
        told = calibration.run(settings, chosen, scale, out, role_runner.note).told()
    options.show(told, json, lambda: print(capacity.text(told)))
    role_runner.leave()
