"""Work side by side, with a deadline: what is late is left behind, and said to be late."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lagless.ports import Clock

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """How a job ended: with a value, with an error, or not in time (neither)."""

    value: T | None = None
    error: Exception | None = None

    @property
    def late(self) -> bool:
        """Say whether the job still runs."""
        return self.value is None and self.error is None


def side_by_side(
    jobs: Mapping[K, Callable[[], T]], clock: Clock, deadline: float
) -> dict[K, Done[T]]:
    """Run every job in a thread of its own until the moment `deadline`; jobs give no None."""
    done: dict[K, Done[T]] = {}

    def work(key: K, job: Callable[[], T]) -> None:
        try:
            done[key] = Done(job())
        except Exception as error:
            done[key] = Done(error=error)

    # Daemons: a call to Spark that never returns must not keep the process from ending.
    threads = [
        threading.Thread(target=work, args=(key, job), name=f"cycle-{key}", daemon=True)
        for key, job in jobs.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - clock.now()))
    ended = dict(done)
    return {key: ended.get(key, Done()) for key in jobs}
