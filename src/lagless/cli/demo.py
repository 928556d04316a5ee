"""The command that shows everything at work on this machine."""

import json as encoder
from pathlib import Path
from typing import Annotated

import typer

from lagless import extras
from lagless.cli import output


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command()(demo)


def demo(
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="End after so many minutes of load; at Ctrl-C if not given."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write what was counted at the end as JSON.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep lake, logs and settings here; a temporary folder if not given."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the dashboard; free if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the load.")] = 0,
    json: output.Json = False,
) -> None:
    """Show it all at work here: broker, load, monitor, controller, consumers, lake, dashboard."""
    with extras.needed("dev"):
        from lagless.demo import running, summary

    found = running.Demo(running.Wishes(minutes, data_dir, port, seed), output.notes).run()
    if report is not None:
        report.write_text(encoder.dumps(found.fields(), indent=2) + "\n")
    output.show(found.fields(), json, lambda: summary.show(found, output.notes))
    if not found.clean:
        output.complain("the lake does not hold every record once and in order")
        raise typer.Exit(1)
