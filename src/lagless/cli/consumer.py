"""The commands of the data plane."""

import gc
import logging
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from lagless.cli import config, output
from lagless.errors import LaglessError, WrongInput

if TYPE_CHECKING:
    from lagless.model import TopicPartition

Assign = Annotated[
    list[str] | None,
    typer.Option(
        "--assign",
        metavar="TOPIC:0,1,2",
        help="Read these partitions, by hand and without a controller; may be repeated.",
    ),
]


def register(app: typer.Typer) -> None:
    """Put the commands of this theme on the app."""
    app.command("consumer")(consumer)
    app.command("calibrate")(calibrate)
    app.command("compact")(compact)


def consumer(
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="The consumer's number.")],
    file: config.Config = config.DEFAULT,
    assign: Assign = None,
    overrides: config.Set = None,
    json: output.Json = False,
) -> None:
    """Read partitions into the lake, each record exactly once, until SIGTERM or Ctrl-C."""
    settings = config.settings(file, overrides)
    partitions = [p for text in assign or () for p in parse(text)]
    ending = Event()
    for signalled in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signalled, lambda *_: ending.set())
    logging.basicConfig(
        level=os.environ.get("LAGLESS_LOG", "INFO"),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for noisy in ("py4j", "pyspark", "SQLQueryContextLogger"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    # Imports make half a million objects that stay: looking through them is a tenth of the start.
    gc.set_threshold(100_000, 50, 100)
    from lagless.wiring import consumer as wiring

    status = 0
    try:
        outcome = wiring.run(
            settings,
            number,
            partitions,
            ending,
            lambda words: output.notes.print(words, markup=False),
        )
        output.show(
            asdict(outcome),
            json,
            lambda: print(
                f"{outcome.records} records in {outcome.cycles} cycles, "
                f"{outcome.rejected} rejected, {outcome.gone} gone"
            ),
        )
    except LaglessError as error:
        output.complain(str(error))
        status = 2 if isinstance(error, WrongInput) else 1
    # A call to Spark that never returns would keep Python from ending in order.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def calibrate(
    file: config.Config = config.DEFAULT,
    out: Annotated[
        Path, typer.Option(help="Folder for the figure, the numbers and the settings.")
    ] = Path("calibration"),
    scale: Annotated[
        float, typer.Option(min=0.001, max=10, help="Share of the paper's bytes to read.")
    ] = 1.0,
    conditions: Annotated[
        str, typer.Option(help="Which of the paper's three conditions, by number.")
    ] = "1,2,3",
    overrides: config.Set = None,
    json: output.Json = False,
) -> None:
    """Measure what a consumer can read: the paper's three conditions, and the C̄ that follows."""
    from lagless.wiring import calibration

    settings = config.settings(file, overrides)
    chosen = calibration.choose(conditions)
    found = calibration.run(
        settings, chosen, scale, out, lambda words: output.notes.print(words, markup=False)
    )
    output.show(found.told(), json, lambda: print(found.text()))
    sys.stdout.flush()
    os._exit(0)


def compact(
    file: config.Config = config.DEFAULT,
    tables: Annotated[
        list[str] | None, typer.Argument(help="Names of tables; all of the lake by default.")
    ] = None,
    target: Annotated[str, typer.Option(help="Size of a merged file.")] = "128 MB",
    overrides: config.Set = None,
    json: output.Json = False,
) -> None:
    """Merge small files of tables and delete old ones, beside running consumers too."""
    from pydantic import TypeAdapter, ValidationError

    from lagless import extras
    from lagless.settings import units

    with extras.needed("spark"):
        from lagless.adapters.lake import compaction, folders

    settings = config.settings(file, overrides)
    try:
        size = TypeAdapter(units.Size).validate_python(target)
    except ValidationError as error:
        raise WrongInput(f"--target {target}: should be a size like 128 MB") from error
    chosen = folders.chosen(settings.lake.path, tables or ())
    kept = settings.lake.log_entries
    outcomes = [compaction.compact(path, size, log_entries=kept) for path in chosen]
    output.show(
        {"tables": {one.table: asdict(one) for one in outcomes}},
        json,
        lambda: print(compaction.summary(outcomes) or "there are no tables yet"),
    )


def parse(text: str) -> "list[TopicPartition]":
    """Read TOPIC:0,1,2."""
    from lagless.model import TopicPartition

    topic, sign, numbers = text.rpartition(":")
    parts = [part.strip() for part in numbers.split(",")]
    if not sign or not topic or not all(part.isdigit() for part in parts):
        raise WrongInput(f"--assign {text}: should be TOPIC:0,1,2")
    return [TopicPartition(topic, int(part)) for part in parts]
