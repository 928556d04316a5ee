"""The commands that stop a group from reading, and resume it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagless.cli import options, role_runner

if TYPE_CHECKING:
    from lagless.messages import OperationKind

commands = typer.Typer()
Wait = Annotated[
    float,
    typer.Option(
        min=0, help="Seconds to wait until no partition is read any more; 0 does not wait."
    ),
]


@commands.command()
def pause(
    file: options.Config = options.DEFAULT,
    wait: Wait = 60,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Stop reading: consumers hand back their partitions and wait for `lagless resume`."""
    _ask("pause", file, overrides, wait, json)


@commands.command()
def drain(
    file: options.Config = options.DEFAULT,
    wait: Wait = 0,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Read every partition up to its current end, then stop reading until `lagless resume`."""
    _ask("drain", file, overrides, wait, json)


@commands.command()
def resume(
    file: options.Config = options.DEFAULT,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Resume reading after a pause or a drain, from the offsets in the tables."""
    _ask("resume", file, overrides, 0, json)


def _ask(
    kind: "OperationKind", file: Any, overrides: list[str] | None, wait: float, json: bool
) -> None:
    role_runner.drop_logs()
    settings = options.settings(file, overrides)
    role_runner.needs_own_members(settings)
    from lagless.operations import standstill

    mode = standstill.ask(settings, kind)
    if wait:
        mode = standstill.wait(settings, wait)
    left = sum(map(len, mode.until.values())) - len(mode.drained)
    result = {
        "group": settings.group,
        "state": mode.name,
        "who": mode.who,
        "at": mode.at,
        "to_drain": left,
    }
    more = f", {left} partitions left" if left else ""
    options.show(result, json, lambda: print(f"group {settings.group} is {mode.name}{more}"))
