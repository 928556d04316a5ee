"""What every command that runs until it is asked to end has in common."""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, NoReturn

from lagless.cli import options
from lagless.errors import LaglessError, WrongSettings
from lagless.settings import Settings

if TYPE_CHECKING:
    from lagless.settings.takeover import Role
    from lagless.wiring.reloading import Reloading


def ending() -> Event:
    """Return an event that SIGTERM and Ctrl-C set."""
    from lagless.wiring import clock

    event = Event()
    clock.on_signals(event.set)
    return event


def reloading(
    settings: Settings, file: Path, overrides: Sequence[str] | None, role: "Role"
) -> "Reloading":
    """Return what reads the settings again at SIGHUP, and when their file changes."""
    from lagless.wiring.reloading import Reloading

    def read() -> Settings:
        return options.settings(file, overrides)

    return Reloading(settings, file, read, role, note).on_signal()


def log_to_stderr() -> None:
    """Write log messages to stderr with time and level; LAGLESS_LOG sets the least level."""
    logging.basicConfig(
        level=os.environ.get("LAGLESS_LOG", "INFO"),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for library in ("py4j", "pyspark", "SQLQueryContextLogger"):
        logging.getLogger(library).setLevel(logging.ERROR)


def drop_logs() -> None:
    """Write no log messages: the command's result or its one error sentence says it all."""
    logging.getLogger("lagless").addHandler(logging.NullHandler())


def needs_own_members(settings: Settings) -> None:
    """Refuse what works on lagless's own consumers only."""
    if settings.of_others:
        raise WrongSettings(
            'members.kind is "group": the members of such a group are not lagless\'s own; '
            "lagless only plans what they read (`lagless controller`)"
        )


def note(words: str) -> None:
    """Tell people, on stderr, how far a role is."""
    options.notes.print(words, markup=False)


def greet(settings: Settings) -> None:
    """Say at once what is wrong with Kafka; wrong credentials raise GiveUp."""
    from lagless.wiring import greeting

    greeting.greet(settings, note)


def greet_beside(settings: Settings) -> None:
    """Do the same in a thread, for a role whose start must not wait; GiveUp ends the process."""

    def go() -> None:
        try:
            greet(settings)
        except LaglessError as error:
            leave(options.fail(error))

    Thread(target=go, name="greet", daemon=True).start()


def leave(status: int = 0) -> NoReturn:
    """End the process at once, without waiting for calls to Kafka or Spark that never return."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
