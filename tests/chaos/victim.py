"""A command that kills itself at a named point: `python -m tests.chaos.victim POINT TIMES …`.

The production code knows nothing of this: functions are wrapped here, before the command runs.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from lagless.adapters.kafka.mail import ConsumerMailbox
from lagless.adapters.lake import data_files, delta, retries, retry_plans, side_tables
from lagless.cli.app import main

POINTS = ("reading", "written", "between-tables", "committed", "receipt", "claimed", "none")
"""Where a consumer dies: before the append, after it, after the rejects, after the commit, and so
on. A retry of rejects dies at retry-planned, retry-landed or retry-deleted."""


class _Fuse:
    """Die at the given arrival at the point."""

    def __init__(self, times: int) -> None:
        self._left = times

    def burn(self) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: Any, name: str, fuse: _Fuse, when: Callable[..., bool]) -> None:
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if when(*arguments):
            fuse.burn()
        return original(*arguments, **named)

    setattr(owner, name, wrapped)


def _after(owner: Any, name: str, fuse: _Fuse, when: Callable[..., bool]) -> None:
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        if when(*arguments):
            fuse.burn()
        return result

    setattr(owner, name, wrapped)


def arm(point: str, times: int) -> None:
    """Wrap the function at whose call the consumer is to die."""
    fuse = _Fuse(times)
    if point == "reading":
        _before(data_files, "write", fuse, lambda *_: True)
    elif point == "written":
        _before(delta.Handle, "write", fuse, lambda _, files, *__: bool(files))
    elif point == "between-tables":
        _after(side_tables.Rejected, "add", fuse, lambda *arguments: arguments[3] > 0)
    elif point == "committed":
        _after(delta.Handle, "write", fuse, lambda _, files, *__: bool(files))
    elif point == "claimed":
        _after(delta.Handle, "write", fuse, lambda _, files, *__: not files)
    elif point == "receipt":
        _after(ConsumerMailbox, "persist", fuse, lambda *_: True)
    elif point == "retry-planned":
        _after(retry_plans, "write", fuse, lambda *_: True)
    elif point == "retry-landed":
        _after(retries, "_commit", fuse, lambda *_: True)
    elif point == "retry-deleted":
        _after(delta.Handle, "write_without", fuse, lambda *_: True)
    elif point != "none":
        raise SystemExit(f"no such point: {point}")


if __name__ == "__main__":
    arm(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["lagless", *sys.argv[3:]]
    main()
