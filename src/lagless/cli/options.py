"""Options that several commands share, and how they print results, errors and progress."""

import json as encoder
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lagless.errors import LaglessError, WrongInput
from lagless.settings import Settings, load

if TYPE_CHECKING:
    from lagless.lab.paper.grid import Progress


Config = Annotated[Path, typer.Option("--config", "-c", help="Settings file (TOML).")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one setting; may be repeated."),
]
DEFAULT = Path("lagless.toml")


def settings(config: Path, overrides: Sequence[str] | None) -> Settings:
    """Read the settings from the file, the environment and `--set`."""
    return load(config, overrides=overrides or ())


Json = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object on stdout.")
]

notes = Console(stderr=True, highlight=False)
"""Progress and remarks go to stderr, so that stdout holds the result alone."""


def show(result: Mapping[str, Any], as_json: bool, text: Callable[[], object]) -> None:
    """Print the result: as one JSON object, or through `text`, which prints it for people."""
    if as_json:
        print(encoder.dumps(result, allow_nan=False), flush=True)
    else:
        text()


def complain(sentence: str) -> None:
    """Print an error as one sentence on stderr."""
    print(f"lagless: {' '.join(sentence.split())}", file=sys.stderr, flush=True)


def fail(error: LaglessError) -> int:
    """Print an error and return the exit status: 2 if the input is to blame, otherwise 1."""
    complain(str(error))
    return 2 if isinstance(error, WrongInput) else 1


def ago(text: str, option: str) -> timedelta:
    """Return the time that 90m, 24h or 3d means."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([mhd])", text.strip())
    if match is None or float(match[1]) == 0:
        raise WrongInput(f"{option} {text}: expected a time such as 90m, 24h or 3d")
    unit = {"m": "minutes", "h": "hours", "d": "days"}[match[2]]
    return timedelta(**{unit: float(match[1])})


@contextmanager
def advancing(doing: str) -> "Iterator[Callable[[str, int, int], None]]":
    """Yield a function that shows on stderr how far each of several things is."""
    with notes.status(doing) as line:

        def told(what: str, done: int, total: int) -> None:
            line.update(f"{doing}: {what}, {done} of {total}")

        yield told


@contextmanager
def bars() -> "Iterator[Callable[[str, Progress], None]]":
    """Yield a function that advances the bar of a name; silent if stderr is not a terminal."""
    from rich import progress

    shown = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(elapsed_when_finished=True),
        console=notes,
        disable=not notes.is_terminal,
    )
    tasks: dict[str, progress.TaskID] = {}

    def told(name: str, now: "Progress") -> None:
        if name not in tasks:
            tasks[name] = shown.add_task(name, total=now.total, completed=now.done)
        shown.update(tasks[name], completed=now.done)

    with shown:
        yield told
