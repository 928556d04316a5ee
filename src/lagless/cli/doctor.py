"""The command that says what is wrong with a set-up."""

from pathlib import Path

import typer

from lagless.cli import config as options
from lagless.cli import output


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command()(doctor)


def doctor(
    config: options.Config = options.DEFAULT,
    overrides: options.Set = None,
    json: output.Json = False,
) -> None:
    """Check Java, jars, Spark, lake, broker and rights, and say how to mend what is wrong."""
    from lagless.wiring import doctor as checks

    findings = list(checks.examine(options.settings(Path(config), overrides)))
    fine = all(finding.fine for finding in findings)

    def text() -> None:
        for finding in findings:
            mark = "[green]✓[/]" if finding.fine else "[red]✗[/]"
            output.notes.print(f"{mark} {finding.check}: ", finding.says, sep="", markup=True)

    result = {
        "fine": fine,
        "findings": [
            {"check": found.check, "fine": found.fine, "says": found.says} for found in findings
        ],
    }
    output.show(result, json, text)
    if not fine:
        raise typer.Exit(1)
