"""A background compaction that runs as long as the controller does, in a process of its own."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from lagless.wiring.clock import END_WITH

AGAIN = 10.0
"""Seconds until it is started again after it ended by itself."""
GRACE = 10.0
"""Seconds for the merge that is under way."""
log = logging.getLogger(__name__)


def command(config: Path, overrides: Sequence[str]) -> list[str]:
    """Return the command that compacts with these settings."""
    words = [sys.executable, "-m", "lagless", "compact", "--watch", "--config", str(config)]
    return words + [word for override in overrides for word in ("--set", override)]


@contextmanager
def beside(words: Sequence[str], output: Path) -> Iterator[None]:
    """Keep a command running, with its output in a file; it ends with the block or the process."""
    ending = Event()
    thread = Thread(target=_keep, args=(words, output, ending), name="compact", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(2 * GRACE)


def _keep(words: Sequence[str], output: Path, ending: Event) -> None:
    environment = os.environ | {END_WITH: str(os.getpid())}
    while not ending.is_set():
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            with output.open("ab") as sink:
                child = subprocess.Popen(
                    words, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
                )
        except OSError as error:
            log.warning("background compaction cannot be started: %s", error)
        else:
            _wait(child, ending)
            if ending.is_set():
                return
            log.warning("background compaction ended with status %s", child.returncode)
            log.warning("it starts again in %g s; see %s", AGAIN, output)
        ending.wait(AGAIN)


def _wait(child: "subprocess.Popen[bytes]", ending: Event) -> None:
    """Wait for the end of a child, or end it."""
    while child.poll() is None:
        if ending.wait(0.5):
            child.terminate()
            try:
                child.wait(GRACE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
