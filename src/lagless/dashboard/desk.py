"""Where the source, the story and the view meet: one for all who look at the page."""

from lagless.dashboard import view
from lagless.dashboard.snapshot import Link, Snapshot
from lagless.dashboard.sources import Source
from lagless.dashboard.story import Story
from lagless.ports import Clock
from lagless.settings import Settings


class Desk:
    """Keep the newest snapshot."""

    def __init__(self, source: Source, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self._source = source
        self._clock = clock
        self._story = Story(settings.group, settings.capacity)
        self.messages = 0
        """Messages that were taken in."""
        self.snapshot = self.look()

    def look(self) -> Snapshot:
        """Take in what arrived and look at all of it anew."""
        for message in self._source.read():
            self._story.tell(message)
            self.messages += 1
        link = Link(self._source.heard, self._source.trouble)
        self.snapshot = view.look(self._story, self.settings, self._clock.now(), link)
        return self.snapshot
