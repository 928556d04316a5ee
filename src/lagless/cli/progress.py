"""Progress bars with the time left, on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lagless.cli import output

if TYPE_CHECKING:
    from lagless.evaluation.grid import Progress


@contextmanager
def bars() -> "Iterator[Callable[[str, Progress], None]]":
    """Give a function that moves the bar of a name on; silent where stderr is no terminal."""
    from rich import progress

    shown = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(elapsed_when_finished=True),
        console=output.notes,
        disable=not output.notes.is_terminal,
    )
    tasks: dict[str, progress.TaskID] = {}

    def told(name: str, now: "Progress") -> None:
        if name not in tasks:
            tasks[name] = shown.add_task(name, total=now.total, completed=now.done)
        shown.update(tasks[name], completed=now.done)

    with shown:
        yield told
