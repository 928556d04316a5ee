"""`lagless dashboard`: the group on a page."""

from typing import Annotated

import typer

from lagless.cli import config, output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(dashboard)


def dashboard(
    file: config.Config = config.DEFAULT,
    override: config.Set = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="Port to listen on instead of dashboard.port; 0: any."
        ),
    ] = None,
    json: output.Json = False,
) -> None:
    """Show the group on a page that only reads, until Ctrl-C."""
    settings = config.settings(file, override)
    from lagless.wiring import dashboard as wiring

    def ready(address: str) -> None:
        output.show(
            {"address": address, "group": settings.group},
            json,
            lambda: output.notes.print(f"{settings.group} is shown on {address}, until Ctrl-C"),
        )

    wiring.run(settings, port, ready)
