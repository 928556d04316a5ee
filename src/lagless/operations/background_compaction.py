"""Compaction in the background: `lagless compact --watch`.

It looks at every table each few seconds, and merges files of one size once there are many
(adapters.lake.tiers says when). It stays within a budget of bytes per second, and each merge is
as safe as `lagless compact`: beside consumers, beside a second watcher, and when it is killed.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from threading import Event

from lagless import extras
from lagless.errors import TryAgain
from lagless.settings import Settings
from lagless.wiring.clock import RealClock

with extras.needed("spark"):
    from lagless.adapters.lake import compaction, store, tiers
    from lagless.adapters.lake.store import Store

CLEAN_EVERY = 3600.0
"""Seconds between two searches for files of a table that nobody needs any more."""
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Done:
    """What a watcher did."""

    merges: int = 0
    files: int = 0
    """Files that were replaced by larger ones."""
    bytes: int = 0
    """Bytes of these files."""
    contested: int = 0
    """Merges that were given up because another compaction had been there."""
    vacuumed: int = 0
    troubles: int = 0
    """Times that a table could not be compacted, and was left for the next look."""


class Watcher:
    """Keeps the tables of a lake, or the named ones, at few files."""

    def __init__(self, settings: Settings, names: Collection[str], target: int, ending: Event):
        self._settings = settings
        self._names = names
        self._target = target
        self._clock = RealClock(ending)
        self._ending = ending
        self._pace = tiers.Pace(settings.compaction.budget)
        self._cleaned: dict[str, float] = {}
        self.done = Done()

    def run(self) -> None:
        """Watch until `ending` is set."""
        while not self._ending.is_set():
            self.round()
            self._clock.sleep(self._settings.compaction.interval)

    def round(self) -> None:
        """Look at each table once, and merge what is due."""
        try:
            tables = store.chosen(store.of(self._settings.lake), self._names)
        except OSError as error:
            self._note(f"{self._settings.lake.path}: {error}")
            return
        for table in tables:
            try:
                self._tend(table)
            except TryAgain as error:
                self._note(str(error))

    def _tend(self, table: Store) -> None:
        for group in compaction.due(table, self._target):
            self._clock.sleep(self._pace.wait(self._clock.now()))
            if self._ending.is_set():
                return
            self._merge(table, group)
        now = self._clock.now()
        if now - self._cleaned.get(table.name, 0.0) >= CLEAN_EVERY:
            self._cleaned[table.name] = now
            outcome = compaction.clean(table, self._settings.lake.log_entries)
            self.done.vacuumed += outcome.vacuumed
            for trouble in outcome.troubles:
                self._note(f"{table.name}: {trouble}")

    def _merge(self, table: Store, group: list[tiers.Listed]) -> None:
        size = tiers.size(group)
        self._pace.spend(size, self._clock.now())
        if not compaction.merge(table, group):
            self.done.contested += 1
            return
        self.done.merges += 1
        self.done.files += len(group)
        self.done.bytes += size
        log.info("%s: %s files merged, %s bytes", table.name, len(group), size)

    def _note(self, words: str) -> None:
        self.done.troubles += 1
        log.warning("%s; the next check is in %g s", words, self._settings.compaction.interval)
