"""Settings that change under way: a role reads its file again at SIGHUP, and when it changes."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lagless.errors import LaglessError
from lagless.settings import Settings, takeover
from lagless.settings.takeover import Role

EVERY = 2.0
"""Seconds between two looks at the file."""


class Reloading:
    """Watch the settings file of a role; the role says what to do with what it can take over.

    The file is compared by what its name leads to: Kubernetes changes a ConfigMap by swapping the
    symbolic link of a folder.
    """

    def __init__(
        self,
        settings: Settings,
        file: Path,
        read: Callable[[], Settings],
        role: Role,
        tell: Callable[[str], object],
    ) -> None:
        self.settings = settings
        """Those in effect."""
        self._file = file
        self._read = read
        self._role = role
        self._tell = tell
        self._asked = threading.Event()
        self._seen = _signature(file)
        self._apply: Callable[[Settings], object] = lambda settings: None

    def start(self, apply: Callable[[Settings], object]) -> None:
        """Begin to watch, from a thread; `apply` is called there with settings to take over."""
        self._apply = apply
        threading.Thread(target=self._watch, name="reloading", daemon=True).start()

    def on_signal(self) -> "Reloading":
        """Read the file again at SIGHUP; to be called from the main thread."""
        signal.signal(signal.SIGHUP, lambda *_: self._asked.set())
        return self

    def look(self, asked: bool = False) -> bool:
        """Take over what changed in the file, and return whether anything was."""
        seen = _signature(self._file)
        if seen == self._seen and not asked:
            return False
        self._seen = seen
        try:
            new = self._read()
        except LaglessError as error:
            self._tell(f"the settings changed, and those before stay in effect: {error}")
            return False
        found = takeover.reloaded(self.settings, new, self._role)
        if found.sentence:
            self._tell(found.sentence)
        elif asked:
            self._tell("the settings were read again: nothing that concerns this role has changed")
        if not found.taken:
            return False
        self.settings = found.settings
        self._apply(found.settings)
        return True

    def _watch(self) -> None:
        while True:
            asked = self._asked.wait(EVERY)
            self._asked.clear()
            self.look(asked)


def _signature(file: Path) -> tuple[int, ...] | None:
    with suppress(OSError):
        found = os.stat(file)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return None
