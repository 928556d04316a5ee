"""The consumer: orders and cycles in turn, until it is told to end.

A turn is two steps. `listen` takes orders, claims what they name and answers; `read` runs a cycle
if there is enough to read. Orders are taken between cycles only, so that a stop never comes into
the middle of one. The steps use no thread and no clock of their own: `run` drives them in a
process, `lagless.lab.world` in virtual time. By hand, without a controller, there is no mailbox,
and the assignment is fixed.
"""

import logging
from collections.abc import Callable, Collection, Mapping

from lagless.consumer import batches, cycle, order_machine
from lagless.consumer.cycle import Cycle, Gathered, Report
from lagless.consumer.heartbeat import HeartbeatThread, Vitals
from lagless.consumer.orders import Claims, Orders
from lagless.errors import Away, ClaimLost, GiveUp, LaglessError, NotYet, TryAgain
from lagless.messages import Heartbeat, WriteSpeeds, flatten, nest
from lagless.model import LONG_CYCLE, Consumer, TopicPartition
from lagless.ports import Clock, ConsumerMailbox, Offsets, Tables
from lagless.settings import ConsumerSettings

log = logging.getLogger("lagless.consumer")
POLL = 0.1
"""Seconds between two looks at Kafka while a batch is gathered."""
SHORTEST_POLL = 0.01
NEWS = 0.5
"""Seconds between two heartbeats of a consumer that cannot read all that is there."""
IDLE = 2.0
"""Seconds without work until a consumer that got ready takes itself for a spare."""
PAUSE = 0.2
LONGEST_PAUSE = 5.0
"""Seconds to wait after a failure, doubled each time."""


class Service:
    """One consumer."""

    def __init__(
        self,
        group: str,
        consumer: Consumer,
        incarnation: str,
        settings: ConsumerSettings,
        offsets: Offsets,
        tables: Tables,
        clock: Clock,
        mailbox: ConsumerMailbox | None = None,
        speeds: Callable[[], WriteSpeeds | None] = lambda: None,
        side_by_side: cycle.SideBySide = cycle.side_by_side,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._mailbox = mailbox
        self._speeds = speeds
        claims = Claims(offsets, tables, settings.start)
        batch = batches.Batch(settings.batch_bytes, settings.max_batch_bytes)
        self._cycle = Cycle(
            offsets,
            tables,
            clock,
            claims,
            batch,
            settings.on_data_loss,
            settings.cycle_deadline,
            # With a quota, do not read ahead: those bytes are not granted yet.
            ahead=settings.max_rate is None,
            side_by_side=side_by_side,
        )
        self._delays = batches.Delays()
        state = order_machine.begin(group, consumer, incarnation)
        self.orders = Orders(state, claims, clock, mailbox, self._note)
        self.vitals = Vitals()
        self._rested = float("-inf")
        # A cycle's wait and a long cycle, with as much to spare.
        savings = 2 * (settings.wait_seconds + LONG_CYCLE)
        self._gathering = batches.Wait(settings.shortest_wait, settings.wait_seconds)
        self._quota = batches.Quota(settings.max_rate, savings, clock.now())
        self._last = float("inf")
        self._told_late = float("-inf")
        self._cold = True
        self._is_rehearsing = mailbox is not None
        self._ready_at = float("inf")
        self._pause = PAUSE
        self.nudge: Callable[[], None] = lambda: None
        """Called when others should hear from this consumer before the next heartbeat is due."""

    def adopt(self, settings: ConsumerSettings) -> None:
        """Take over settings that may change under way; any thread may call."""
        self._settings = settings
        self._cycle.batch = batches.Batch(settings.batch_bytes, settings.max_batch_bytes)
        self._cycle.ahead = settings.max_rate is None
        self._gathering.shortest, self._gathering.longest = (
            settings.shortest_wait,
            settings.wait_seconds,
        )
        self._quota.rate = settings.max_rate

    @property
    def state(self) -> order_machine.State:
        """Return what it knows of its orders."""
        return self.orders.state

    def run(self, ending: Callable[[], bool]) -> None:
        """Serve the controller until `ending` or retired; end the running cycle, then hand back."""
        assert self._mailbox is not None
        self.begin()
        heartbeats = HeartbeatThread(
            self._mailbox, self._clock, self._settings.heartbeat, self.heartbeat
        )
        self.nudge = heartbeats.nudge
        heartbeats.start()
        try:
            while not ending() and not self.state.ending:
                self.turn()
            self.orders.hand_back()
        finally:
            heartbeats.stop()

    def run_by_hand(
        self, partitions: Collection[TopicPartition], ending: Callable[[], bool]
    ) -> None:
        """Read a fixed assignment until `ending`; give up where a setting or a claim says so."""
        while not ending() and not self.vitals.ready:
            self._guarded(self._get_ready)
        while not ending():
            try:
                self.orders.take_by_hand(partitions)
                break
            except NotYet as error:
                raise GiveUp(str(error)) from error
            except TryAgain as error:
                self._rest(error)
        while not ending():
            if not self.state.held:
                raise ClaimLost("other consumers have claimed every partition of this one")
            self.turn()

    def begin(self) -> None:
        """Recall what this consumer's number has known, before the first turn."""
        self.orders.begin()

    def turn(self) -> None:
        """Listen, then read; where listening failed, listen again first."""
        if self.listen():
            self.read()

    def listen(self) -> bool:
        """Get ready, then take orders; return whether reading may follow."""
        if not self.vitals.ready and not self._guarded(self._get_ready):
            return False
        return self._guarded(self._take_orders)

    def read(self) -> bool:
        """Run a cycle if there is enough to read, else wait a little; return whether it went well.

        What went wrong inside a cycle is in the vitals.
        """
        return self._guarded(self._read)

    def _get_ready(self) -> None:
        self._warm_up()
        self._recover()
        self.vitals.ready = True
        self._ready_at = self._clock.now()
        self.nudge()

    def _warm_up(self) -> None:
        """Let Spark do once what a cycle does: its first run is slow."""
        until = self._clock.now() + self._settings.start_deadline
        done = self._cycle.side_by_side({"spark": self._ready}, self._clock, until)["spark"]
        if done.error is not None:
            raise done.error
        if done.late:
            self._cycle.tables.interrupt()
            raise Away("Spark did not become ready", "spark")
        self._cold = False

    def _ready(self) -> bool:
        self._cycle.tables.ready()
        return True

    def _guarded(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except TryAgain as error:
            self._rest(error)
            return False
        return True

    def _rest(self, error: Exception) -> None:
        """Wait after a failure, longer each time, and report it."""
        self.vitals.cycle_began = None
        self._tell_trouble(error)
        self._cold = self._cold or self.vitals.waiting_for == "spark"
        self.nudge()
        self._clock.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _tell_trouble(self, error: Exception) -> None:
        if str(error) != self.vitals.trouble:
            log.warning("%s", error)
        self.vitals.trouble = str(error)
        self.vitals.waiting_for = error.part if isinstance(error, Away) else ""

    def _recover(self) -> None:
        self.vitals.trouble = ""
        self.vitals.waiting_for = ""
        self._pause = PAUSE

    def heartbeat(self, at: float) -> Heartbeat:
        """Return a heartbeat; in a process, the heartbeat thread calls this."""
        positions = nest(dict(self._cycle.positions))
        return order_machine.heartbeat(
            self.state, at, ready=self.vitals.ready, positions=positions, **self.vitals.measured(at)
        )

    def _read(self) -> None:
        now = self._clock.now()
        held = self.state.held
        if not held or self.state.ending:
            self._idle()
            return
        gathered = self._cycle.gather(held)
        self._delays.see(now, gathered.bounds)
        self._tell_lag(gathered)
        allowed = self._quota.left(now)
        left = self._rested + self._gathering.seconds(gathered.total, allowed) - now
        most = min(gathered.total, allowed)
        if gathered.total > min(allowed, self._settings.max_batch_bytes):
            self._tell_late(now)
        enough = gathered.strange or most >= self._settings.batch_bytes
        if allowed <= 0 or not gathered.spans or not (left <= 0 or enough):
            if not gathered.spans and left <= 0:
                self._recover()
            self._wait(min(POLL, max(left, SHORTEST_POLL)) if left > 0 else POLL)
            return
        if self._cold:
            self._warm_up()
        self._run_cycle(gathered)

    def _idle(self) -> None:
        """Wait for an order; meanwhile let Spark get faster, a round at a time."""
        now = self._clock.now()
        if self._is_rehearsing and not self.state.ending and now - self._ready_at >= IDLE:
            until = now + self._settings.start_deadline
            tables = self._cycle.tables
            done = self._cycle.side_by_side({"spark": tables.rehearse}, self._clock, until)["spark"]
            self._is_rehearsing = done.value is True
            if done.error is not None or done.late:
                log.info("the warm-up ends early: %s", done.error or "it takes too long")
                tables.interrupt()
        self._wait(POLL)

    def _tell_late(self, now: float) -> None:
        """Let the controller hear of a backlog at once: its next measurement may be far off."""
        if now - self._told_late >= NEWS:
            self._told_late = now
            self.nudge()

    def _wait(self, seconds: float) -> None:
        """Wait, unless an order arrives first."""
        if self._mailbox is None:
            self._clock.sleep(seconds)
        else:
            self._take_orders(seconds)

    def _run_cycle(self, gathered: Gathered) -> None:
        speeds = self._speeds()
        if speeds is not None:
            self._cycle.weights.monitored = flatten(speeds.bytes_per_offset)
        began = self._clock.now()
        self.vitals.cycle_began = began
        budget = self._cycle.batch.budget(gathered.total, self.vitals.cycle_seconds, self._last)
        budget = min(budget, self._quota.left(began))
        try:
            report = self._cycle.run(self.state.held, gathered, budget)
        finally:
            self.vitals.cycle_began = None
        now = self._clock.now()
        self.vitals.cycle_seconds = now - began
        self._gathering.learn(now - began)
        self.vitals.cycles += 1
        self._rested = now
        read = self._account(report, now)
        self._last = max(read, 1.0)
        self._quota.spend(began, read)
        self._react(report)

    def _account(self, report: Report, now: float) -> float:
        """Count what was read, commit Kafka's group offsets, and return the bytes."""
        read = 0.0
        offsets: dict[TopicPartition, int] = {}
        for name, taken in report.taken.items():
            self.vitals.gone += taken.gone
            if not taken.intake.landed:
                continue
            read += taken.bytes
            self.vitals.records += taken.intake.records
            self.vitals.rejected += taken.intake.rejected
            self.vitals.unknown_fields += taken.intake.unknown_fields
            offsets |= {p: span.until for p, span in taken.spans.items()}
            log.debug("%s: %s", name, taken.intake)
        self.vitals.read(now, read)
        try:
            self._cycle.offsets.commit(offsets)
        except TryAgain as error:
            # The table is the truth; the next cycle commits again.
            log.info("the group's offsets were not committed: %s", error)
        return read

    def _react(self, report: Report) -> None:
        """Drop the partitions that were lost, and wait after the worst failure."""
        worst: Exception | None = None
        for error in report.troubles.values():
            if isinstance(error, ClaimLost):
                self.orders.lose(error)
                self._forget()
            elif not isinstance(error, LaglessError):
                raise error
            elif isinstance(error, GiveUp) and self._mailbox is None:
                raise error  # with a controller, heartbeats report it
            elif worst is None or not isinstance(worst, Away):
                worst = error
        if worst is not None:
            self._rest(worst)
        else:
            self._recover()

    def _tell_lag(self, gathered: Gathered) -> None:
        vitals = self.vitals
        vitals.lag_bytes = gathered.total
        vitals.lag_records = sum(map(len, gathered.spans.values()))
        vitals.lag_seconds = self._delays.seconds(self._clock.now(), self._cycle.positions)
        # The controller scales on this: leave out positions and sizes that are only estimates.
        known = self._cycle.weights.of(gathered.spans).keys() & self._cycle.positions.keys()
        vitals.backlog = nest({p: size for p, size in gathered.bytes.items() if p in known})

    def _take_orders(self, timeout: float = 0.0) -> None:
        before = self.orders.trouble
        if self.orders.take(timeout):
            self.nudge()
        if self.orders.trouble is not None:
            self._tell_trouble(self.orders.trouble)
        elif before is not None:
            self._recover()
        self._forget()

    def _note(self, granted: Mapping[TopicPartition, int]) -> None:
        """Remember the positions of claimed partitions, and commit them to Kafka's group.

        They have paused while they moved, so the next cycle gathers for them no longer.
        """
        self._rested = float("-inf")
        for topic in {p.topic for p in granted}:
            mine = {p: generation for p, generation in granted.items() if p.topic == topic}
            try:
                positions = self._cycle.tables.look(self._cycle.claims.topics[topic], mine)
            except ClaimLost:
                continue  # claimed by another since: the next cycle's look finds it and drops it
            offsets = {p: position.offset for p, position in positions.items()}
            self._cycle.positions |= offsets
            self._cycle.offsets.commit(offsets)

    def _forget(self) -> None:
        for p in self._cycle.positions.keys() - self.state.held.keys():
            del self._cycle.positions[p]
