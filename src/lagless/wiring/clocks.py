"""Real time that can be cut short."""

import time
from dataclasses import dataclass, field
from threading import Event


@dataclass(frozen=True, slots=True)
class RealClock:
    """The machine's clock; a sleep ends early once the role is asked to end."""

    ending: Event = field(default_factory=Event)

    def now(self) -> float:
        """Give the seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let that much time go by, or until the end."""
        self.ending.wait(seconds)
