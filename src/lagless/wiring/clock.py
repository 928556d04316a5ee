"""The time that a process has: the machine's clock, and what ends the process.

A role runs until its `ending` is set. Signals set it, and so does the end of the process that
LAGLESS_END_WITH names: consumers outlive their controller on purpose, but those of a demo end with
the demo, however it ends.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread

END_WITH = "LAGLESS_END_WITH"
GRACE = 15.0
"""Seconds for the last cycle after that process has ended."""


@dataclass(frozen=True, slots=True)
class RealClock:
    """The machine's clock; a sleep is cut short once the role is asked to end."""

    ending: Event = field(default_factory=Event)

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until the role is asked to end."""
        self.ending.wait(seconds)


def on_signals(
    call: Callable[[], object],
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT),
) -> None:
    """Call a function at SIGTERM and Ctrl-C, from the main thread."""
    for number in signals:
        signal.signal(number, lambda *_: call())


def interrupt_on_signals() -> None:
    """Raise KeyboardInterrupt at the first SIGTERM or Ctrl-C only, so that cleaning up can end."""

    def interrupt() -> None:
        on_signals(lambda: None)
        raise KeyboardInterrupt

    on_signals(interrupt)


def end_with_named_process(ending: Event) -> None:
    """Set `ending` when the process named by LAGLESS_END_WITH ends; exit GRACE seconds later."""
    named = os.environ.get(END_WITH, "")
    if named.isdigit():
        Thread(target=_watch, args=(int(named), ending), name="end-with", daemon=True).start()


def _watch(pid: int, ending: Event) -> None:
    with suppress(ProcessLookupError):
        while True:
            with suppress(PermissionError):  # it runs, as another user
                os.kill(pid, 0)
            time.sleep(0.5)
    ending.set()
    time.sleep(GRACE)
    os._exit(1)
