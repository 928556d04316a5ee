"""The monitor's loop: measure, put into the window, publish. Speaks to ports only."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lagless import messages
from lagless.errors import TryAgain
from lagless.messages import WriteSpeeds
from lagless.model import TopicPartition
from lagless.monitor.window import Reading, Window
from lagless.ports import Clock, LogSizes, SpeedsOut

log = logging.getLogger(__name__)
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
"""Seconds between tries while Kafka does not answer: short, doubled each time, never long."""
LONGEST_SLEEP = 5.0
"""Seconds until an interval that was made shorter is in effect."""
BUSY = 20
"""Rounds that would fit between two: the broker does other things most of the time."""
RECENT = 0.2
"""Weight of the last round in the typical one."""
DIGITS = 3
"""Decimals of a published speed: more would only make the message larger."""


@dataclass(slots=True)
class Monitor:
    """One monitor."""

    group: str
    interval: float
    """Seconds between two rounds, at most."""
    window: Window
    sizes: LogSizes
    out: SpeedsOut
    clock: Clock
    shortest: float = math.inf
    """Seconds between two rounds while they are quick, if that is less."""
    rounds: int = 0
    published: int = 0
    errors: int = 0
    """Rounds that failed."""
    trouble: str = ""
    """Why the last round failed; empty if it did not."""
    round_seconds: float = 0
    typical_seconds: float = 0
    """Running mean of `round_seconds`."""
    published_at: float = 0
    readings: Mapping[TopicPartition, Reading] = field(default_factory=dict)

    def run(self, ending: Callable[[], bool]) -> None:
        """Go round after round until it is time to end, with growing pauses in times of trouble."""
        due, pause = self.clock.now(), FIRST_PAUSE
        while not ending():
            if self.round():
                # The interval may be made shorter in the meantime.
                while due + self.pace - self.clock.now() > LONGEST_SLEEP and not ending():
                    self.clock.sleep(LONGEST_SLEEP)
                due, pause = max(due + self.pace, self.clock.now()), FIRST_PAUSE
            else:
                due, pause = self.clock.now() + pause, min(2 * pause, LONGEST_PAUSE)
            self.clock.sleep(max(0.0, due - self.clock.now()))

    @property
    def pace(self) -> float:
        """Return the seconds between two rounds: short where brokers answer quickly.

        The first speed of a new partition takes two rounds, and its records wait meanwhile.
        """
        if self.window.is_incomplete:
            return min(self.interval, self.shortest)
        return min(self.interval, max(self.shortest, BUSY * self.typical_seconds))

    def round(self) -> bool:
        """Measure and publish once; say whether that worked."""
        began = self.clock.now()
        self.rounds += 1
        try:
            self._publish(self._measure())
        except TryAgain as error:
            self.errors += 1
            if not self.trouble:
                log.warning("%s; trying again", error)
            self.trouble = str(error)
            return False
        if self.trouble:
            log.warning("round failed, will retry: %s", self.trouble)
        self.trouble = ""
        self.round_seconds = self.clock.now() - began
        last = self.typical_seconds if self.rounds > 1 else self.round_seconds
        self.typical_seconds = (1 - RECENT) * last + RECENT * self.round_seconds
        return True

    def _measure(self) -> float:
        """Measure into the window; give the time of it."""
        try:
            measurement = self.sizes.measure()
            self.window.add(measurement)
        except TryAgain:
            self.window.miss()
            raise
        finally:
            self.readings = self.window.readings()
        return measurement.at

    def _publish(self, at: float) -> None:
        readings = self.readings
        densities = {
            p: round(reading.bytes_per_offset, DIGITS)
            for p, reading in readings.items()
            if reading.bytes_per_offset is not None
        }
        self.out.publish(
            WriteSpeeds(
                group=self.group,
                at=at,
                window=self.window.seconds,
                speeds=messages.nest({p: round(r.speed, DIGITS) for p, r in readings.items()}),
                stale=tuple((p.topic, p.partition) for p, r in readings.items() if r.stale),
                bytes_per_offset=messages.nest(densities),
                errors=messages.nest({p: round(r.error, DIGITS) for p, r in readings.items()}),
            )
        )
        self.published += 1
        self.published_at = self.clock.now()
