"""The commands `simulate`, `latency` and `evaluate`: algorithms on streams, recorded or drawn."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from lagless.cli import live, output

evaluation = typer.Typer(
    name="evaluate", help="Run the paper's experiments, simulated or live.", no_args_is_help=True
)


class Order(StrEnum):
    """In which order the online algorithms get the partitions."""

    shuffled = "shuffled"
    fixed = "fixed"


class Clamp(StrEnum):
    """Where speeds are cut off."""

    capacity = "capacity"
    none = "none"


Stream = Annotated[
    Path,
    typer.Option(help="CSV or Parquet: a column per partition, a measurement in bytes/s per row."),
]
Capacity = Annotated[float, typer.Option(help="Bytes per second that a consumer may be given.")]
Orders = Annotated[
    Order, typer.Option(help="Partitions' order for nf, ff, bf and wf: drawn anew, or the file's.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the shuffled orders.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this theme."""
    app.command()(simulate)
    app.command()(latency)
    evaluation.command()(live.live)
    app.add_typer(evaluation)


def simulate(
    stream: Stream,
    capacity: Capacity,
    algorithms: Annotated[
        str, typer.Option(help="Names with commas between, with parameters: mwf,sticky:slack=0.1")
    ],
    order: Orders = Order.shuffled,
    seed: Seed = 0,
    json: output.Json = False,
) -> None:
    """Replay packing algorithms over a recorded stream: consumers, CBS, Rscore, migrations."""
    from lagless.evaluation import experiments, recordings

    names = experiments.names(algorithms)
    speeds = recordings.read(stream).speeds
    found = experiments.simulate(speeds, capacity, names, order.value, seed)
    output.show(
        {"algorithms": {name: asdict(scores) for name, scores in found.items()}},
        json,
        lambda: _table(
            found,
            ("CBS", "cbs", "{:.2%}"),
            ("E(Rscore)", "rscore", "{:.4f}"),
            ("consumers", "consumers", "{:.2f}"),
            ("migrations", "migrations", "{:.2f}"),
        ),
    )


def latency(
    stream: Stream,
    capacity: Capacity,
    max_rate: Annotated[float, typer.Option(help="Bytes per second that a consumer can read.")],
    algorithms: Annotated[
        str,
        typer.Option(help="Names with commas between; also keda_cooperative and keda_range."),
    ],
    iteration: Annotated[float, typer.Option(help="Seconds between measurements.")] = 30.0,
    rebalance: Annotated[float, typer.Option(help="Seconds that moving a partition takes.")] = 5.0,
    order: Orders = Order.shuffled,
    seed: Seed = 0,
    json: output.Json = False,
) -> None:
    """Compute how long the bytes of a recorded stream wait under each algorithm."""
    from lagless.evaluation import experiments, recordings
    from lagless.simulation.latency import Model

    model = Model(max_rate, iteration, rebalance)
    names = experiments.names(algorithms, with_keda=True)
    speeds = recordings.read(stream).speeds
    found = {
        name: experiments.summary(
            experiments.waited(name, speeds, capacity, model, order.value, seed)
        )
        for name in names
    }
    output.show(
        {"algorithms": {name: asdict(waits) for name, waits in found.items()}},
        json,
        lambda: _table(
            found,
            ("consumers", "consumers", "{:.2f}"),
            ("MB", "bytes", "{:.2f}"),
            ("late MB", "late_bytes", "{:.2f}"),
            *((f"{key} (s)", key, "{:.2f}") for key in ("p50", "p90", "p99", "max")),
            millions=("bytes", "late_bytes"),
        ),
    )


@evaluation.command()
def paper(
    out: Annotated[Path, typer.Option(help="Folder for rows, tables, figures and report.html.")],
    partitions: Annotated[int, typer.Option(min=1)] = 200,
    measurements: Annotated[int, typer.Option(min=1)] = 500,
    deltas: Annotated[str, typer.Option(help="In % of the capacity.")] = "0,5,10,15,20,25",
    starts: Annotated[str, typer.Option(help="Of: random,zero,half,full.")] = (
        "random,zero,half,full"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Streams of each kind.")] = 1,
    clamp: Annotated[Clamp, typer.Option(help="Keep speeds below the capacity, or not.")] = (
        Clamp.capacity
    ),
    algorithms: Annotated[
        str, typer.Option(help="Beside the paper's twelve, with commas between.")
    ] = "sticky,ezzeddine",
    master: Annotated[
        str, typer.Option(help="Spark: local[n], spark://…, k8s://… or sc://…")
    ] = "local[*]",
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="What else Spark is told; as often as needed."),
    ] = None,
    json: output.Json = False,
) -> None:
    """Run every experiment of the paper on Spark; what was interrupted goes on where it stopped."""
    from lagless.cli import progress
    from lagless.evaluation import experiments, plans, sessions
    from lagless.evaluation import paper as experiment

    more = experiments.names(algorithms) if algorithms.strip() else []
    plan = plans.Plan(
        partitions=partitions,
        measurements=measurements,
        deltas=experiments.numbers(deltas, "--deltas"),
        starts=experiments.starts(starts),
        seeds=seeds,
        clamp=clamp.value,
        algorithms=tuple(dict.fromkeys((*experiments.PAPER, *more))),
    )
    opened = sessions.opened(master, plan.algorithms, sessions.settings(conf or ()))
    with progress.bars() as told, opened as spark:
        outcome = experiment.run(spark, plan, out, told)
    output.show(
        {**asdict(outcome), "report": str(outcome.report)},
        json,
        lambda: print(
            f"{outcome.cells} cells, {outcome.rows} rows in {outcome.grid_seconds:.1f} s: "
            f"{outcome.report}"
        ),
    )


def _table(
    found: dict[str, Any], *columns: tuple[str, str, str], millions: tuple[str, ...] = ()
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("algorithm", no_wrap=True, min_width=max(map(len, found)))
    for title, _, _ in columns:
        table.add_column(title, justify="right", no_wrap=True)
    for name, values in found.items():
        cells = (
            form.format(getattr(values, key) / (1e6 if key in millions else 1))
            for _, key, form in columns
        )
        table.add_row(name, *cells)
    Console().print(table)
