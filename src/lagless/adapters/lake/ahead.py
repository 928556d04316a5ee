"""The files of the next cycle, written while this one ends.

To plan a small batch takes Spark two thirds as long as to read and write it. A consumer that is
behind knows what its next cycle will read, and lets Spark begin with it. This is a guess and
nothing else: the next cycle looks at the table first, as always, and takes these files only if it
is to read these very spans. If not, they are deleted, and nobody has seen them.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from lagless.adapters.lake.formats import Format
from lagless.adapters.lake.ingestion import Draft
from lagless.adapters.lake.sessions import first_line
from lagless.ports import Span

log = logging.getLogger("lagless.lake")


class Ahead:
    """A draft that a thread of its own makes."""

    def __init__(
        self,
        spans: Mapping[int, Span],
        form: Format,
        make: Callable[[], Draft],
    ) -> None:
        self._spans = dict(spans)
        self._form = form
        self._make = make
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._draft: Draft | None = None
        self._unwanted = False
        # A daemon: a call to Spark that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="ahead", daemon=True)
        self._thread.start()

    def is_for(self, spans: Mapping[int, Span], form: Format, deadline: float) -> bool:
        """Say whether this is what a cycle needs, and was begun less than a deadline ago.

        Vacuum deletes old files that no log lists: those of a process that slept must not land.
        """
        young = time.monotonic() - self._began < deadline
        return young and self._spans == spans and self._form == form

    def take(self) -> Draft | None:
        """Wait for the draft, which is the caller's from here on; None where it failed."""
        self._thread.join()
        return self._draft

    def drop(self) -> None:
        """Delete the files, now or as soon as they are written."""
        with self._lock:
            self._unwanted = True
            draft = self._draft
        if draft is not None:
            draft.discard()

    def join(self, seconds: float) -> None:
        """Wait a while for the thread to end."""
        self._thread.join(seconds)

    def _work(self) -> None:
        try:
            draft = self._make()
        except Exception as error:
            # The cycle makes it anew, and says what is wrong if it still is.
            log.debug("nothing was written ahead: %s", first_line(error))
            return
        with self._lock:
            self._draft = draft
            unwanted = self._unwanted
        if unwanted:
            draft.discard()
