"""The consumer: cycles and orders in turn, until it is told to end.

Orders are taken between cycles only, so that a stop never comes into the middle of one. By hand,
without a controller, there is no mailbox, and the assignment is fixed.
"""

import logging
from collections.abc import Callable, Collection

from lagless.consumer import ledger, machine, workers
from lagless.consumer.claims import Claims
from lagless.consumer.cycle import Cycle, Gathered, Report
from lagless.consumer.orders import Orders
from lagless.consumer.pulse import Pulse, Vitals
from lagless.errors import Away, ClaimLost, GiveUp, LaglessError, NotYet, TryAgain
from lagless.messages import Heartbeat, WriteSpeeds, flatten, nest
from lagless.model import LONG_CYCLE, Consumer, TopicPartition
from lagless.ports import Clock, ConsumerMailbox, Offsets, Tables
from lagless.settings import ConsumerSettings

log = logging.getLogger("lagless.consumer")
POLL = 0.1
"""Seconds between two looks at Kafka while a batch is gathered."""
PAUSE = 0.2
LONGEST_PAUSE = 5.0
"""Seconds to wait after a trouble, doubled each time."""


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
    ) -> None:
        self._settings = settings
        self._offsets = offsets
        self._tables = tables
        self._clock = clock
        self._mailbox = mailbox
        self._speeds = speeds
        self._claims = Claims(offsets, tables, settings.start)
        batch = ledger.Batch(settings.batch_bytes, settings.max_batch_bytes)
        self._cycle = Cycle(
            offsets,
            tables,
            clock,
            self._claims,
            batch,
            settings.on_data_loss,
            settings.cycle_deadline,
            # Who is held to a rate must not read what the rate does not allow yet.
            ahead=settings.max_rate is None,
        )
        self._delays = ledger.Delays()
        state = machine.begin(group, consumer, incarnation)
        self.orders = Orders(state, self._claims, clock, mailbox, self._note)
        self.vitals = Vitals()
        self._rested = clock.now()
        # A cycle's wait and a long cycle, with as much to spare.
        savings = 2 * (settings.wait_seconds + LONG_CYCLE)
        self._quota = ledger.Quota(settings.max_rate, savings, clock.now())
        self._last = float("inf")
        self._cold = True
        self._pause = PAUSE
        self._pulse: Pulse | None = None
        if mailbox is not None:
            self._pulse = Pulse(mailbox, clock, settings.heartbeat, self.heartbeat)

    @property
    def state(self) -> machine.State:
        """What it knows of its orders."""
        return self.orders.state

    # ------------------------------------------------------------------ life

    def run(self, ending: Callable[[], bool]) -> None:
        """Serve the controller until `ending` or retired; end the running cycle, then hand back."""
        assert self._pulse is not None
        self.orders.begin()
        self._pulse.start()
        try:
            self._get_ready(ending)
            while not ending() and not self.state.ending:
                self._guarded(self._turn)
            self.orders.hand_back()
        finally:
            self._pulse.stop()

    def run_by_hand(
        self, partitions: Collection[TopicPartition], ending: Callable[[], bool]
    ) -> None:
        """Read a fixed assignment until `ending`; give up where a setting or a claim says so."""
        self._get_ready(ending)
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
            self._guarded(self._turn)

    def _get_ready(self, ending: Callable[[], bool]) -> None:
        while not ending():
            try:
                self._warm_up()
                break
            except TryAgain as error:
                self._rest(error)
        self._recover()
        self.vitals.ready = True
        self._nudge()

    def _warm_up(self) -> None:
        """Let Spark do once what a cycle does, outside a cycle: a cold one is slow."""
        until = self._clock.now() + self._settings.start_deadline
        done = workers.side_by_side({"spark": self._ready}, self._clock, until)["spark"]
        if done.error is not None:
            raise done.error
        if done.late:
            self._tables.interrupt()
            raise Away("Spark does not get ready", "spark")
        self._cold = False

    def _ready(self) -> bool:
        self._tables.ready()
        return True

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except TryAgain as error:
            self._rest(error)

    def _rest(self, error: Exception) -> None:
        """Wait after a trouble, longer each time, and say what it is."""
        self.vitals.cycle_began = None
        if str(error) != self.vitals.trouble:
            log.warning("%s", error)
        self.vitals.trouble = str(error)
        self.vitals.waiting_for = error.part if isinstance(error, Away) else ""
        self._cold = self._cold or self.vitals.waiting_for == "spark"
        self._nudge()
        self._clock.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _recover(self) -> None:
        self.vitals.trouble = ""
        self.vitals.waiting_for = ""
        self._pause = PAUSE

    def _nudge(self) -> None:
        if self._pulse is not None:
            self._pulse.nudge()

    def heartbeat(self, at: float) -> Heartbeat:
        """Give a heartbeat; called from the heartbeat's thread."""
        return machine.heartbeat(
            self.state, at, ready=self.vitals.ready, **self.vitals.measured(at)
        )

    # ------------------------------------------------------------------ a turn

    def _turn(self) -> None:
        """Take orders, and run a cycle if there is enough to read or the wait is over."""
        now = self._clock.now()
        self._take_orders(0.0)
        held = self.state.held
        if not held or self.state.ending:
            self._wait(POLL)
            return
        gathered = self._cycle.gather(held)
        self._delays.see(now, gathered.bounds)
        self._tell_lag(gathered)
        waited = now - self._rested >= self._settings.wait_seconds
        allowed = self._quota.left(now)
        most = min(gathered.total, allowed)
        enough = gathered.strange or most >= self._settings.batch_bytes
        if allowed <= 0 or not gathered.spans or not (waited or enough):
            if not gathered.spans and waited:
                self._rested = now
                self._recover()
            self._wait(POLL)
            return
        if self._cold:
            self._warm_up()
        self._run_cycle(gathered)

    def _wait(self, seconds: float) -> None:
        """Let time go by, and let an order cut it short."""
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
        self.vitals.cycles += 1
        self._rested = now
        read = self._account(report, now)
        self._last = max(read, 1.0)
        self._quota.spend(began, read)
        self._react(report)

    def _account(self, report: Report, now: float) -> float:
        """Count what was read, and tell Kafka's group how far it is; give the bytes."""
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
            self._offsets.commit(offsets)
        except TryAgain as error:
            # The table is the truth; the next cycle commits again.
            log.info("the group's offsets are late: %s", error)
        return read

    def _react(self, report: Report) -> None:
        """Drop what is lost, and let the worst trouble be waited for."""
        worst: Exception | None = None
        for topic, error in report.troubles.items():
            if isinstance(error, ClaimLost):
                self.orders.lose(topic, error)
                self._forget()
            elif self._is_fatal(error):
                raise error
            elif worst is None or not isinstance(worst, Away):
                worst = error
        if worst is not None:
            self._rest(worst)
        else:
            self._recover()

    def _is_fatal(self, error: Exception) -> bool:
        """By hand, what no repetition helps ends the process; else the controller is told."""
        return not isinstance(error, LaglessError) or (
            isinstance(error, GiveUp) and self._mailbox is None
        )

    def _tell_lag(self, gathered: Gathered) -> None:
        vitals = self.vitals
        vitals.lag_bytes = gathered.total
        vitals.lag_records = sum(map(len, gathered.spans.values()))
        vitals.lag_seconds = self._delays.seconds(self._clock.now(), self._cycle.positions)
        # The controller scales on this: only what was looked at, and of which the size is known.
        known = self._cycle.weights.of(gathered.spans).keys() & self._cycle.positions.keys()
        vitals.backlog = nest({p: size for p, size in gathered.bytes.items() if p in known})

    # ------------------------------------------------------------------ orders

    def _take_orders(self, timeout: float) -> None:
        if self.orders.take(timeout):
            self._nudge()
        if self.orders.trouble and self.orders.trouble != self.vitals.trouble:
            log.warning("%s", self.orders.trouble)
            self.vitals.trouble = self.orders.trouble
        self._forget()

    def _note(self, granted: Collection[TopicPartition]) -> None:
        """Remember where the partitions stand, and let Kafka's group know."""
        for topic in {p.topic for p in granted}:
            mine = [p.partition for p in granted if p.topic == topic]
            looked = self._tables.look(self._claims.topics[topic], mine)
            found = {TopicPartition(topic, p): at.offset for p, at in looked.items()}
            self._cycle.positions |= found
            self._offsets.commit(found)

    def _forget(self) -> None:
        positions = self._cycle.positions
        for p in [p for p in positions if p not in self.state.held]:
            del positions[p]
