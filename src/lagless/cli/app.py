"""The command `lagless`: collects the commands and turns errors into messages and exit statuses."""

import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from lagless import __version__
from lagless.cli import options
from lagless.errors import LaglessError

TRACEBACK = "LAGLESS_TRACEBACK"

THEMES = (
    "demo_commands",
    "role_commands",
    "operations_commands",
    "compact_command",
    "rejects_command",
    "standstill_commands",
    "reset_command",
    "pack_command",
    "adopt_command",
    "replay_command",
    "scaler_command",
    "evaluate_commands",
    "evaluate_all_command",
)
"""The files that hold commands, in the order of `lagless --help`."""

app = typer.Typer(
    name="lagless",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"lagless {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Keep a Kafka consumer group as small as it can be without falling behind."""


def gather() -> typer.Typer:
    """Return the app with all commands."""
    for theme in THEMES:
        app.add_typer(import_module(f"lagless.cli.{theme}").commands)
    return app


def main() -> None:
    """Run the command line: exit 0 on success, 1 on failure, 2 on wrong usage."""
    # The user's transforms and algorithms are imported from the working directory.
    sys.path.append(os.getcwd())
    try:
        gather()()
    except LaglessError as error:
        sys.exit(options.fail(error))
    except KeyboardInterrupt:
        options.complain("interrupted")
        sys.exit(1)
    except OSError as error:
        options.complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        sys.exit(1)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        options.complain(
            f"internal error: {type(error).__name__}: {error} (set {TRACEBACK}=1 for the traceback)"
        )
        sys.exit(1)
