"""KEDA's external scaler for one group, until it is asked to end."""

import logging
import time
from collections.abc import Callable
from contextlib import closing
from threading import Event, Lock, Thread

from lagless import extras
from lagless.errors import TryAgain
from lagless.operations.member_count import MemberCount
from lagless.settings import Settings
from lagless.wiring import controller
from lagless.wiring.compiling import ready_at_once

with extras.needed("keda"):
    from lagless.adapters.keda.hpa import Demand
    from lagless.adapters.keda.scaler_server import ScalerServer

log = logging.getLogger("lagless.keda")


class Latest:
    """The newest demand, counted in a thread: KEDA's calls must not wait for Kafka."""

    def __init__(self, count: Callable[[], Demand], every: float, stale_after: float) -> None:
        self._count = count
        self._every = every
        self._stale_after = stale_after
        self._lock = Lock()
        self._demand: Demand | None = None
        self._counted_at = 0.0
        self._trouble = "the members have not been counted yet"

    def demand(self) -> Demand:
        """Return the newest demand; raise TryAgain if there is none, or it is too old."""
        with self._lock:
            late = time.monotonic() - self._counted_at > self._stale_after
            if self._demand is None or late:
                raise TryAgain(self._trouble)
            return self._demand

    def run(self, ending: Event) -> None:
        """Count until `ending` is set."""
        while not ending.is_set():
            try:
                counted = self._count()
            except TryAgain as error:
                self._note(str(error))
            else:
                self._take(counted)
            ending.wait(self._every)

    def _take(self, counted: Demand) -> None:
        with self._lock:
            before, self._demand = self._demand, counted
            self._counted_at = time.monotonic()
        if before != counted:
            log.info("%s members wanted, %s present", counted.wanted, counted.present)

    def _note(self, trouble: str) -> None:
        with self._lock:
            new = trouble != self._trouble
            self._trouble = trouble
        if new:
            log.warning("%s", trouble)


def run(
    settings: Settings, host: str, port: int, ending: Event, ready: Callable[[int], None]
) -> None:
    """Answer KEDA until `ending` is set; `ready` is called with the port."""
    with (
        ready_at_once(controller.algorithm(settings)) as pack,
        closing(MemberCount(settings, pack)) as members,
    ):
        latest = Latest(members.read, settings.monitor.interval, settings.controller.stale_after)
        server = ScalerServer(host, port, settings.group, latest.demand)
        failures: list[BaseException] = []

        def count() -> None:
            try:
                latest.run(ending)
            except BaseException as error:
                failures.append(error)
                ending.set()

        counting = Thread(target=count, name="count", daemon=True)
        with closing(server):
            server.start()
            counting.start()
            ready(server.port)
            ending.wait()
        counting.join(5)
        if failures:
            raise failures[0]
