"""The demo's steps as people see them: what is being done, how long it took, and what failed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from lagless.errors import GiveUp, LaglessError


class Stages:
    """Say each step when it begins and when it is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the first step."""
        return time.monotonic() - self._began

    @contextmanager
    def step(self, what: str, log: Path | None = None) -> Iterator[None]:
        """Show a step while it lasts; a failure says which step it was and where its log is."""
        began = time.monotonic()
        try:
            with self._console.status(f"{what} …"):
                if not self._console.is_terminal:
                    self._console.print(f"… {what}")
                yield
        except LaglessError as error:
            place = f"; its log is {log}" if log is not None and str(log) not in str(error) else ""
            raise GiveUp(f"{what} failed: {error}{place}") from error
        self._console.print(f"[green]✓[/] {what} [dim]({time.monotonic() - began:.1f} s)[/]")

    def say(self, text: str) -> None:
        """Print a line for people."""
        self._console.print(text)
