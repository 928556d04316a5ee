"""Drafts: data files that no table lists yet, and those of the next cycle, written ahead.

docs/exactly-once.md says when the next cycle takes these files. If it does not, they are deleted,
and nobody has seen them. What was begun is known here and nowhere else: the cycle asks for it
(ports.Tables.begun), and forgetting it here forgets it everywhere.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.formats import Format
from lagless.adapters.lake.session_holder import first_line
from lagless.adapters.lake.store import Store
from lagless.model import TopicPartition
from lagless.ports import Span

log = logging.getLogger("lagless.lake")


@dataclass(frozen=True, slots=True)
class Draft:
    """Spark's result for some spans: files in a table's store, and counts."""

    store: Store
    judged: DataFrame
    files: list[File]
    counts: Mapping[str, Any]
    seconds: float

    def discard(self) -> None:
        """Delete the files of a draft that was never committed."""
        self.store.delete_all([file.name for file in self.files])


class Ahead:
    """A draft that a thread of its own makes."""

    def __init__(
        self, spans: Mapping[TopicPartition, Span], form: Format, make: Callable[[], Draft]
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

    def usable(self, form: Format | None, deadline: float) -> Mapping[TopicPartition, Span]:
        """Return the spans, if they are read in this format and began less than a deadline ago.

        Vacuum deletes old files that no log lists: those of a process that slept must not land.
        """
        young = time.monotonic() - self._began < deadline
        return self._spans if young and self._form == form else {}

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
            # The cycle tries again, and reports what is wrong if it still is.
            log.debug("the next batch was not written ahead: %s", first_line(error))
            return
        with self._lock:
            self._draft = draft
            unwanted = self._unwanted
        if unwanted:
            draft.discard()
