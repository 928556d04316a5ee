"""The command that merges a table's small files, once or for as long as it runs."""

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lagless.cli import options, role_runner
from lagless.errors import WrongInput

if TYPE_CHECKING:
    from lagless.settings import Settings

LOW = 10
"""Niceness of a compaction in the background: consumers on the same cores come first."""
commands = typer.Typer()


@commands.command()
def compact(
    file: options.Config = options.DEFAULT,
    tables: Annotated[
        list[str] | None, typer.Argument(help="Names of tables; all tables by default.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target size of merged files; compaction.target by default.")
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Keep merging, within compaction.budget, until SIGTERM or Ctrl-C."
        ),
    ] = False,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Merge small files and delete unused ones; safe while consumers are running."""
    settings = options.settings(file, overrides)
    size = _size(settings, target)
    if watch:
        _watch(settings, tables or (), size, json)
        return
    from lagless.operations import maintenance

    outcomes, summary = maintenance.compact(settings, tables or (), size)
    options.show(
        {"tables": {outcome.table: asdict(outcome) for outcome in outcomes}},
        json,
        lambda: print(summary or "the lake has no tables yet"),
    )


def _size(settings: "Settings", target: str | None) -> int:
    from pydantic import TypeAdapter, ValidationError

    from lagless.settings import units

    if target is None:
        return settings.compaction.target
    try:
        return int(TypeAdapter(units.Size).validate_python(target))
    except ValidationError as error:
        raise WrongInput(f"--target {target}: expected a size like 128 MB") from error


def _watch(
    settings: "Settings", tables: list[str] | tuple[str, ...], size: int, json: bool
) -> None:
    ending = role_runner.ending()
    role_runner.log_to_stderr()
    from lagless.operations.background_compaction import Watcher
    from lagless.settings import units
    from lagless.wiring import clock

    clock.end_with_named_process(ending)
    os.nice(LOW)
    watcher = Watcher(settings, tables, size, ending)
    role_runner.note(
        f"watching {settings.lake.path}: up to {units.text(settings.compaction.budget)}/s"
    )
    watcher.run()
    done = watcher.done
    options.show(
        asdict(done),
        json,
        lambda: print(
            f"{done.files} files became {done.merges}, {units.text(done.bytes)} in all; "
            f"{done.vacuumed} old ones deleted"
        ),
    )
