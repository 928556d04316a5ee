"""What the demo hears while it runs: speeds, heartbeats and decisions, kept for the summary."""

import statistics
import time

from lagless.adapters.kafka.watching import Watcher
from lagless.dashboard.decisions import Decisions
from lagless.demo import traffic
from lagless.messages import Decision, Heartbeat, WriteSpeeds
from lagless.settings import Settings

NEAR = 0.05
"""A published speed shows a change when it is this close to the new one, relatively."""


class Listener:
    """Follow the group's topics and keep what the summary needs."""

    def __init__(self, settings: Settings) -> None:
        self._watcher = Watcher(settings)
        self.decisions = Decisions()
        self.speeds: list[tuple[float, dict[str, float]]] = []
        """When each measurement was published, and the speed of each topic in it."""
        self.ready: dict[int, float] = {}
        """Consumers that are ready, and when each was heard last."""
        self.consumers_max = 0

    def listen(self) -> None:
        """Take in what arrived."""
        while found := self._watcher.read():
            for message in found:
                if isinstance(message, WriteSpeeds):
                    totals = {t: sum(parts.values()) for t, parts in message.speeds.items()}
                    self.speeds.append((message.at, totals))
                elif isinstance(message, Decision):
                    self.decisions.take(message)
                elif isinstance(message, Heartbeat) and message.state == "ready":
                    self.ready[message.consumer] = message.at
        now = time.time()
        alive = [n for n, at in self.ready.items() if now - at < 10]
        self.consumers_max = max(self.consumers_max, len(alive))

    def close(self) -> None:
        """Hear what is left and stop listening."""
        self.listen()
        self._watcher.close()

    def dt1(self, began: float) -> float | None:
        """Give the median time from a spike's begin or end until the monitor shows it."""
        found: list[float] = []
        for spike in traffic.spikes():
            for change, until in ((spike.begin, spike.end), (spike.end, spike.end + traffic.SPIKE)):
                seconds = self._shown_after(spike.topic, began + change, began + until)
                if seconds is not None:
                    found.append(seconds)
        return statistics.median(found) if found else None

    def _shown_after(self, topic: str, change: float, until: float) -> float | None:
        """Give the time until the speed is what it settles at before the next change."""
        after = [(at, speeds.get(topic, 0.0)) for at, speeds in self.speeds if change <= at < until]
        if len(after) < 3 or until > self.speeds[-1][0]:
            return None
        settled = after[-1][1]
        shown = next((at for at, speed in after if abs(speed - settled) <= NEAR * settled), None)
        return None if shown is None else shown - change

    def median(self, name: str) -> float | None:
        """Give the median of dt2, dt3 or dt4 over the reassignments."""
        timed = self.decisions.timed([at for at, _ in self.speeds])
        values = [getattr(one, name) for one in timed]
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None
