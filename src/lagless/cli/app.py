"""The command `lagless`: gathers the commands and turns errors into sentences and exit statuses."""

import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from lagless import __version__
from lagless.cli import output
from lagless.errors import LaglessError, WrongInput

TRACEBACK = "LAGLESS_TRACEBACK"

THEMES = (
    "demo",
    "parts",
    "monitor",
    "controller",
    "consumer",
    "dashboard",
    "doctor",
    "packing",
    "evaluation",
)
"""The files of this room that hold commands, in the order of `lagless --help`."""

app = typer.Typer(
    name="lagless",
    help="Keep a Kafka consumer group as small as it can be without falling behind.",
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
    """Return the app with the commands of every theme on it."""
    for theme in THEMES:
        import_module(f"lagless.cli.{theme}").register(app)
    return app


def main() -> None:
    """Run the command line: exit 0 done, 1 failed, 2 wrong use."""
    # Modules of the user's, transforms and algorithms, are looked for where the command is run.
    sys.path.append(os.getcwd())
    try:
        gather()()
    except WrongInput as error:
        output.complain(str(error))
        sys.exit(2)
    except LaglessError as error:
        output.complain(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        output.complain("interrupted")
        sys.exit(1)
    except OSError as error:
        output.complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        sys.exit(1)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        output.complain(
            f"this should not happen, {type(error).__name__}: {error} "
            f"(set {TRACEBACK}=1 to see where)"
        )
        sys.exit(1)
