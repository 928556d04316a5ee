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

from lagless.controller.facts import Phase, State
from lagless.messages import Decision


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


@dataclass(frozen=True, slots=True)
class Creation:
    """One consumer that was created; `together` is how many were requested at once."""

    generation: int
    consumer: int
    together: int
    dt3: float


class Witness:
    """A controller's observer; the controller's thread calls it, another one asks."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._open: Reassignment | None = None
        self._first_order_at: float | None = None
        self._ready_at = float("-inf")
        self._measured_at = float("-inf")
        self._timed_at = float("-inf")
        self._phase: Phase | None = None
        self._waiting = 0
        self._done: list[Reassignment] = []
        self._creations: list[Creation] = []
        self.lost: list[str] = []
        """Consumers that were lost, with the reason."""

    def requested(self, seconds: float) -> None:
        """Hear of requests; the end of the turn is what counts here."""

    def saw(self, state: State, decisions: Sequence[Decision]) -> None:
        """See the state after a turn, and what was decided in it."""
        now = self._now()
        with self._lock:
            for said in decisions:
                self._take(said, state, now)
            if state.first_order_at is not None:
                self._first_order_at = state.first_order_at
            self._phase = state.phase
            self._measured_at = state.measured_at
            self._waiting = len(state.requests)

    def is_done_with(self, measured_at: float) -> bool:
        """Say whether this measurement was taken in and all that followed from it is done."""
        with self._lock:
            rests = self._phase is Phase.SENTINEL and self._waiting == 0
            return rests and self._measured_at >= measured_at

    def take(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Give the reassignments and creations that ended since the last call."""
        with self._lock:
            done, made = self._done, self._creations
            self._done, self._creations = [], []
        return [asdict(one) for one in done], [asdict(one) for one in made]

    def _take(self, said: Decision, state: State, now: float) -> None:
        if said.decision == "assignment":
            moved = said.details.get("migrations", ())
            self._open = Reassignment(
                said.generation,
                int(said.details.get("consumers", 0)),
                len(moved),
                len({consumer for _, _, *pair in moved for consumer in pair}),
            )
            self._first_order_at, self._ready_at = None, float("-inf")
            if state.measured_at > self._timed_at:
                self._timed_at = state.measured_at
                self._open.dt2 = now - state.measured_at
        elif said.decision == "created" and self._open is not None:
            if self._open.created == 0 and self._open.dt2 is not None:
                self._open.dt2 = now - state.measured_at
            self._open.created += len(said.details.get("consumers", ()))
        elif said.decision == "timing" and "dt3" in said.details:
            self._ready_at = max(self._ready_at, said.at)
            together = self._open.created if self._open is not None else 1
            number = said.consumer or 0
            self._creations.append(
                Creation(said.generation, number, together, float(said.details["dt3"]))
            )
        elif said.decision == "timing" and "dt4" in said.details:
            self._settled(said)
        elif said.decision == "lost":
            self.lost.append(said.reason)

    def _settled(self, said: Decision) -> None:
        done, self._open = self._open, None
        if done is None or done.generation != said.generation:
            return
        done.whole = float(said.details["dt4"])
        first = said.at - done.whole
        done.dt4 = said.at - max(first, self._ready_at)
        self._done.append(done)
