"""What is seen of a controller at work: Δt2, Δt3 and Δt4 of each reassignment.

Where the machine's own words leave room:
1. Δt2 ends when the turn that decided is carried out: orders sent and creations requested. A
   reassignment that needs no new consumer has one too, as in the paper, whose Δt2 were five times
   as many as its Δt3.
2. Δt4 here begins when the last new consumer is ready, if there is one, since the paper's
   controller sends nothing before. `whole` is the machine's own: from the first order, which goes
   out while new consumers still start.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lagless.controller.state import State
from lagless.messages import AnyDecision, Assigned, Created, Lost, Timed
from lagless.model import Phase


@dataclass(slots=True)
class Reassignment:
    """One pass from Reassign to the last receipt."""

    generation: int
    consumers: int
    migrations: int
    involved: int
    """Consumers that give or get a partition."""
    created: int = 0
    dt2: float | None = None
    dt4: float | None = None
    whole: float | None = None


class Observer:
    """A controller's observer; the controller's thread calls it, another one asks."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._state: State | None = None
        self._open: Reassignment | None = None
        self._ready_at = self._timed_at = float("-inf")
        self._done: list[dict[str, Any]] = []
        self._creations: list[dict[str, Any]] = []
        self.lost: list[str] = []
        """Consumers that were lost, with the reason."""

    def requested(self, seconds: float) -> None:
        """Ignore requests; the end of the turn is what counts here."""

    def saw(self, state: State, decisions: Sequence[AnyDecision]) -> None:
        """See the state after a turn, and what was decided in it."""
        now = self._now()
        with self._lock:
            for decision in decisions:
                self._take(decision, state, now)
            self._state = state

    def is_done_with(self, measured_at: float) -> bool:
        """Return whether this measurement was taken in and all that followed from it is done."""
        with self._lock:
            if self._state is None or self._state.phase is not Phase.SENTINEL:
                return False
            return not self._state.requests and self._state.measured_at >= measured_at

    def take(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the reassignments and creations that ended since the last call."""
        with self._lock:
            done, created = self._done, self._creations
            self._done, self._creations = [], []
        return done, created

    def _take(self, decision: AnyDecision, state: State, now: float) -> None:
        match decision:
            case Assigned(details=details):
                moved = details.migrations
                self._open = Reassignment(
                    decision.generation,
                    details.consumers,
                    len(moved),
                    len({consumer for _, _, *pair in moved for consumer in pair}),
                )
                self._ready_at = float("-inf")
                if state.measured_at > self._timed_at:
                    self._timed_at = state.measured_at
                    self._open.dt2 = now - state.measured_at
            case Created(details=details) if self._open is not None:
                if self._open.created == 0 and self._open.dt2 is not None:
                    self._open.dt2 = now - state.measured_at
                self._open.created += len(details.consumers)
            case Timed(details=details):
                if details.dt3 is not None:
                    self._ready_at = max(self._ready_at, decision.at)
                    created = {
                        "generation": decision.generation,
                        "consumer": decision.consumer or 0,
                        # How many were requested at once.
                        "together": self._open.created if self._open is not None else 1,
                        "dt3": details.dt3,
                    }
                    self._creations.append(created)
                elif details.dt4 is not None:
                    done, self._open = self._open, None
                    if done is not None and done.generation == decision.generation:
                        done.whole = details.dt4
                        done.dt4 = min(details.dt4, decision.at - self._ready_at)
                        self._done.append(asdict(done))
            case Lost():
                self.lost.append(decision.reason)
