"""Have a replay say what other targets for the delay would cost, in a thread beside the page."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lagless.dashboard.observations import Sample
from lagless.dashboard.snapshot import Cost, Costs
from lagless.errors import LaglessError
from lagless.model import Speeds

Replay = Callable[[Sequence[tuple[float, Speeds]], float], Sequence[Mapping[str, Any]]]
"""Returns what each target costs on measurements, for consumers that read so many bytes/s."""
EVERY = 60.0
"""Least seconds between two replays."""
SHARE = 0.05
"""Most of its time for which a page replays."""
ENOUGH = 60.0
"""Seconds of traffic for which a replay means something."""
WATCHED = 10.0
"""Seconds for which a visitor counts after the last look."""


class Costing:
    """The newest costs; they are computed again while somebody looks."""

    def __init__(self, replay: Replay | None) -> None:
        self._replay = replay
        self._thread: threading.Thread | None = None
        self._due_at = self._seen_at = self._began_at = float("-inf")
        self.costs = Costs(trouble="" if replay is not None else "Traffic cannot be replayed here.")

    def look(self, now: float) -> None:
        """Take note that somebody looks."""
        self._seen_at = now

    def offer(self, samples: Sequence[Sample], rate: float, now: float) -> Costs:
        """Replay the measurements if it is time; return what is known, without waiting."""
        if self._thread is not None and not self._busy():
            self._thread = None
            self._due_at = now + max(EVERY, (now - self._began_at) / SHARE)
        seconds = samples[-1].at - samples[0].at if samples else 0.0
        due = now >= self._due_at and now - self._seen_at <= WATCHED
        if self._replay is None or self._thread is not None or not due:
            return self.costs
        if rate > 0 and seconds >= ENOUGH:
            measured = [(sample.at, sample.speeds) for sample in samples]
            self._began_at = now
            # A daemon: what it computes is not worth waiting for after Ctrl-C.
            self._thread = threading.Thread(
                target=self._work, args=(self._replay, measured, rate), name="targets", daemon=True
            )
            self._thread.start()
        return self.costs

    def _busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _work(self, replay: Replay, measured: Sequence[tuple[float, Speeds]], rate: float) -> None:
        try:
            rows = tuple(_cost(row) for row in replay(measured, rate))
            self.costs = Costs(rows, measured[-1][0] - measured[0][0])
        except LaglessError as error:
            self.costs = Costs(trouble=f"The traffic cannot be replayed: {error}")


def _cost(row: Mapping[str, Any]) -> Cost:
    reached, late = row["delay_p99"], row["late_share"]
    fate = (reached, late, row["consumers"], row["moves_per_hour"])
    return Cost(row["delay"], row["chosen"], *fate)
