"""The command `replay`: what recorded or generated traffic costs under your settings and others."""

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagless import extras
from lagless.cli import options, role_runner
from lagless.errors import WrongInput
from lagless.settings import Settings, load, parse, units

if TYPE_CHECKING:
    from lagless.lab.rehearsals import Material

commands = typer.Typer()

COLUMNS = (
    ("way", "{name}"),
    ("late", "{late_share:.2%}"),
    ("p50 s", "{p50:.1f}"),
    ("p99 s", "{p99:.1f}"),
    ("99 % by", "{delay_p99:.1f} s"),
    ("consumer-h", "{consumer_hours:.2f}"),
    ("reassigned/h", "{reassignments_per_hour:.1f}"),
    ("moves/h", "{moves_per_hour:.1f}"),
    ("moved", "{moved}"),
)
"""Title and text of each column: 80 characters together."""


@commands.command()
def replay(
    file: options.Config = options.DEFAULT,
    since: Annotated[
        str, typer.Option(metavar="24h", help="How far back to read: 90m, 24h, 3d.")
    ] = "24h",
    stream: Annotated[
        Path | None,
        typer.Option(help="Replay a stream file (CSV or Parquet, as for simulate) instead."),
    ] = None,
    step: Annotated[
        float, typer.Option(min=1, help="Seconds between two rows of --stream.")
    ] = 30.0,
    kinds: Annotated[
        str | None,
        typer.Option(
            metavar="rest,steps,…",
            help="Replay generated streams instead: all, or some of rest, walk, steps, ramps, "
            "days, bursts, dead, hot.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="--kinds: random seed.")] = 0,
    hours: Annotated[float, typer.Option(min=0.02, help="--kinds: length of each stream.")] = 4.0,
    partitions: Annotated[int, typer.Option(min=1, help="--kinds: partitions.")] = 60,
    consumers: Annotated[
        float, typer.Option(min=0.1, help="--kinds: load, in consumers' worth.")
    ] = 10.0,
    ways: Annotated[
        str, typer.Option(help="Rules to compare, comma-separated.")
    ] = "lagless,0.1.0,mwf,keda,clairvoyant",
    save: Annotated[
        Path | None, typer.Option(help="Also write the recorded stream to this file.")
    ] = None,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Replay recorded traffic through the controller's rules, and compare with other rules."""
    role_runner.drop_logs()
    if stream is not None and kinds is not None:
        raise WrongInput("--stream and --kinds are two sources of traffic: give one of them")
    with extras.needed("evaluation"):
        from lagless.lab import rehearsals
        from lagless.lab.model import kinds as drawing
    chosen = [name.strip() for name in ways.split(",")]
    for way in chosen:
        if way not in rehearsals.WAYS:
            raise WrongInput(f'unknown way "{way}": choose from {", ".join(rehearsals.WAYS)}')
    settings = _settings(file, overrides or (), needed=stream is None and kinds is None)
    if kinds is not None:
        names = list(drawing.KINDS) if kinds == "all" else [k.strip() for k in kinds.split(",")]
        shape = drawing.Shape(partitions, hours, settings.capacity, consumers)
        materials = rehearsals.drawn(settings, names, shape, seed)
    elif stream is not None:
        from lagless.lab.model import streams

        read = streams.read(stream)
        named = rehearsals.named(read.partitions)
        materials = [rehearsals.Material(stream.name, named, read.speeds, step)]
    else:
        materials = [recorded(settings, options.ago(since, "--since"), save)]
    found = []
    with options.advancing("replaying") as told:
        for result in rehearsals.run(settings, materials, chosen, told):
            found.append(result)
    options.show({"max_rate": settings.max_rate, "streams": found}, json, lambda: show(found))


def _settings(file: Path, overrides: list[str] | tuple[()], needed: bool) -> Settings:
    """Return the settings; where nothing is read from Kafka, the file may be missing."""
    if needed or file.exists():
        return load(file, overrides=overrides)
    document = {"group": "replay", "topics": ["replay"], "lake": {"path": "."}}
    return parse(document, "replay", overrides=overrides)


def recorded(settings: Settings, since: timedelta, save: Path | None = None) -> "Material":
    """Return what the monitor published lately."""
    from lagless.lab import rehearsals
    from lagless.lab.model import streams

    begin = datetime.now().astimezone() - since
    doing = f"reading {settings.monitor.topic}"
    with options.notes.status(doing) as line:
        recording = rehearsals.recorded(
            settings, begin, lambda share: line.update(f"{doing}: {share:.0%}")
        )
    if recording.missing:
        options.notes.print(
            f"nothing was published in {recording.missing:.0f} s of that time: left out",
            markup=False,
        )
    if save is not None:
        streams.write(recording.stream, save)
    names = rehearsals.named(recording.stream.partitions)
    speeds = recording.stream.speeds
    return rehearsals.Material(settings.monitor.topic, names, speeds, recording.step)


def show(found: list[dict[str, Any]]) -> None:
    """Print a table for each stream; lines with tabs where no terminal is."""
    for result in found:
        rows = [[title for title, _ in COLUMNS]]
        for name, figures in result["ways"].items():
            values = {**figures, "name": name, "moved": units.text(figures["moved_bytes"])}
            rows.append([text.format_map(values) for _, text in COLUMNS])
        head = (
            f"{result['stream']}: {result['hours']:.1f} h, {result['partitions']} partitions, "
            f"{units.text(result['mean_rate'])}/s"
        )
        print(head)
        if sys.stdout.isatty():
            _table(rows)
        else:
            print("\n".join(map("\t".join, rows)))
        if result["distance"] is not None:
            apart = result["distance"]
            print(
                f"to the clairvoyant: {apart['late_share']:+.2%} of the bytes late, "
                f"{apart['consumer_hours']:+.1%} consumer-hours"
            )
        print(f"without late bytes at least {result['least_consumer_hours']:.2f} consumer-hours")
        print()


def _table(rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    first, *rest = rows[0]
    numbers = [Column(title, justify="right", no_wrap=True) for title in rest]
    table = Table(Column(first, no_wrap=True), *numbers, box=None, padding=(0, 1, 0, 0))
    for row in rows[1:]:
        table.add_row(*row)
    Console().print(table)
