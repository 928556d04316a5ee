"""The command `lagless scaler`: how many members should run, for KEDA to ask."""

from typing import Annotated

import typer

from lagless.cli import options, role_runner

commands = typer.Typer()


@commands.command()
def scaler(
    file: options.Config = options.DEFAULT,
    overrides: options.Set = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",  # nosec B104  # pods
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 6000,
    json: options.Json = False,
) -> None:
    """Tell KEDA how many members a group needs, as its external scaler, until SIGTERM or Ctrl-C."""
    settings = options.settings(file, overrides)
    ending = role_runner.ending()
    role_runner.log_to_stderr()
    role_runner.greet(settings)
    from lagless.operations import external_scaler

    def ready(taken: int) -> None:
        address = f"{host}:{taken}"
        options.show(
            {"address": address, "group": settings.group},
            json,
            lambda: options.notes.print(f"external scaler of {settings.group}: {address}"),
        )

    external_scaler.run(settings, host, port, ending, ready)
