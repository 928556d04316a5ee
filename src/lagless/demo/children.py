"""The processes of the demo: started with a log each, watched, and ended together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lagless.embedded import lifetimes
from lagless.wiring import bonds


class Children:
    """Processes that end with the demo, however it ends."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}

    def start(self, name: str, arguments: Sequence[str], log: Path) -> None:
        """Start `python -m …` under a name; its output goes to the log."""
        # What a controller starts would outlive it, and so this process too.
        environment = os.environ | {bonds.END_WITH: str(os.getpid())}
        process = lifetimes.bear([sys.executable, "-m", *arguments], log, env=environment)
        self._running[name] = (process, log)

    def check(self) -> None:
        """Raise GiveUp with its last words if one has ended by itself."""
        for name, (process, log) in self._running.items():
            if process.poll() is not None:
                raise lifetimes.died(f"the {name}", process, log)

    def end(self, *names: str, patience: float = 10.0) -> None:
        """Ask processes to end, all at once, and kill what is still there after the patience."""
        found = [self._running.pop(name)[0] for name in names or list(self._running)]
        for process in found:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + patience
        for process in found:
            lifetimes.end(process, max(0.1, until - time.monotonic()))
