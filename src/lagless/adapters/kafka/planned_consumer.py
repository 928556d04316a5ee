"""A consumer that reads what the plan in `<group>.plan` gives to it, on brokers without plugins.

Two threads share the work. `poll` runs in the caller's: it alone starts and stops reading. The
keeper's thread does what waits for Kafka: it follows the plan, looks at the committed offsets, and
commits (leases.py has the rules). What they share is under one lock.
"""

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Place

from lagless.adapters.kafka import failures, group_offsets
from lagless.adapters.kafka.leases import Leases, Terms
from lagless.adapters.kafka.plan_following import PlanFollower
from lagless.adapters.kafka.plan_topic import PlanTopic
from lagless.errors import GiveUp, LaglessError, TryAgain, WrongInput
from lagless.model import TopicPartition

log = logging.getLogger("lagless.client")
USUAL = Terms()
TICK = 0.2
"""Seconds that the keeper waits for a plan, and `poll` at most until it looks at its leases."""
LOOK = 0.5
"""Seconds between two looks while partitions are awaited."""
STUCK = 300.0
"""Seconds without a call of `poll` after which the leases are no longer renewed, as in Kafka."""
LAST_WORDS = 5.0
"""Seconds that the last commits get when the consumer is closed."""

Told = Callable[[frozenset[TopicPartition]], None]


def steady() -> float:
    """Return seconds that go by while the machine sleeps too, where it has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class PlannedConsumer:
    """Read what a plan gives to one member; at least once, and one member per partition.

    `config` is confluent-kafka's, with `group.id`; `name` is the member's name in the plan, by
    default its `group.instance.id`. All members of a group must have the same `lease` and `settle`.

    A record counts as processed when `poll` is called again, or, with
    `"enable.auto.offset.store": False`, when it is given to `store`. `on_given_up` is called within
    `poll` and `close` before partitions are given up, so that buffered records can be written and
    stored; `on_lost` when they were lost without that; `on_taken` before their first record. None
    of the methods may be called by two threads at once.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        name: str | None = None,
        *,
        topic: str | None = None,
        lease: float = USUAL.lease,
        settle: float = USUAL.settle,
        on_taken: Told | None = None,
        on_given_up: Told | None = None,
        on_lost: Told | None = None,
    ) -> None:
        group, name, connection = _checked(config, name, lease, settle)
        self.name = name
        self._stores = str(connection.pop("enable.auto.offset.store", True)).lower() != "false"
        self._told = {"taken": on_taken, "given up": on_given_up, "lost": on_lost}
        self._lock = threading.Lock()
        self._leases = Leases(name, uuid.uuid4().hex[:12], Terms(lease, settle))
        self._follower = PlanFollower(group, name)
        self._next: dict[TopicPartition, int] = {}
        """The offset to commit for each partition that is read."""
        self._due: dict[TopicPartition, tuple[int, float]] = {}
        """Partitions that were given up: the offset to commit, and until when it may be sent."""
        self._started: dict[TopicPartition, int] = {}
        """Partitions that are held and not read yet, and where to begin."""
        self._last: Message | None = None
        self._trouble: LaglessError | None = None
        self._failure: Exception | None = None
        self._polled_at = steady()
        self._closing = threading.Event()
        self._closed = False
        self._offsets = group_offsets.GroupOffsets(connection, group)
        self._plans = PlanTopic(connection, topic or f"{group}.plan")
        self._data = Consumer(
            connection | {"enable.auto.commit": False, "enable.auto.offset.store": False}
        )
        self._keeper = threading.Thread(target=self._keep, name="lagless-keeper", daemon=True)
        self._keeper.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def held(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        with self._lock:
            return frozenset(self._next)

    @property
    def status(self) -> str:
        """Which plan is followed, in one sentence."""
        with self._lock:
            awaited = len(self._leases.awaited)
            waits = f"; waiting for {awaited} of them" if awaited else ""
            return f"{self._follower.status}{waits}"

    def poll(self, timeout: float = 1.0) -> Message | None:
        """Return the next record, or None after `timeout` seconds.

        As in confluent-kafka, a message with an `error()` does not hold a record. Raise GiveUp
        where trying again does not help: a missing right, or members that subscribe in the group.
        """
        end = steady() + timeout
        self._last_is_processed()
        while True:
            self._polled_at = steady()
            self._settle()
            left = end - steady()
            message = self._data.poll(max(0.0, min(left, TICK)))
            if message is not None and (message.error() or self._may_return(message)):
                return message
            if message is None and left <= TICK:
                return None

    def store(self, message: Message) -> None:
        """Count a record, and all before it in its partition, as processed."""
        partition, offset = _of(message)
        with self._lock:
            if partition in self._next:
                self._next[partition] = max(self._next[partition], offset + 1)

    def close(self) -> None:
        """Give everything up, commit, and end."""
        if self._closed:
            return
        self._closed = True
        try:
            self._last_is_processed()
            with self._lock:
                self._leases.want(())
            if self._keeper.is_alive():
                self._settle_held()
        finally:
            self._closing.set()
            self._keeper.join(LAST_WORDS + 2 * group_offsets.ANSWER)
            self._data.close()

    def _last_is_processed(self) -> None:
        self._polled_at = steady()
        if self._stores and self._last is not None:
            self.store(self._last)
        self._last = None

    def _may_return(self, message: Message) -> bool:
        """Return whether the record's partition is still held: others may read it otherwise."""
        partition, _ = _of(message)
        with self._lock:
            holds = partition in self._next and self._leases.holds(partition, steady())
        if holds:
            self._last = message
        return holds

    def _settle(self) -> None:
        """Start and stop reading, as the leases say."""
        if self._failure is not None:
            raise GiveUp(f"{self.name} cannot continue: {self._failure}") from self._failure
        with self._lock:
            trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble
        self._settle_held()
        with self._lock:
            started = {p: o for p, o in self._started.items() if p in self._leases.held}
            self._started = {}
            self._next |= started
        if started:
            places = [Place(p.topic, p.partition, offset) for p, offset in started.items()]
            with failures.translated(f"reading {_listed(started)}"):
                self._data.incremental_assign(places)
            self._tell("taken", started)

    def _settle_held(self) -> None:
        with self._lock:
            self._leases.expire(steady())
            held, reading = self._leases.held, frozenset(self._next)
            # What is to be started although it is read was lost and taken again in between.
            lost = (reading - held) | (reading & self._started.keys())
            unwanted = reading - lost - self._leases.wanted
            # What was taken and is not wanted any more goes on as it came.
            unread = {p: self._started.pop(p) for p in held - reading - self._leases.wanted}
            ends = self._leases.give_up(unread, steady())
            self._due |= {p: (unread[p], end) for p, end in ends.items()}
        if unwanted:
            # Their leases are renewed meanwhile: the caller may take its time.
            self._tell("given up", unwanted)
        if stopped := unwanted | lost:
            places = [Place(p.topic, p.partition) for p in stopped]
            with failures.translated(f"giving up {_listed(stopped)}"):
                self._data.incremental_unassign(places)
        with self._lock:
            # A lease may have been lost while the caller was told.
            kept = unwanted & self._leases.held
            ends = self._leases.give_up(kept, steady())
            self._due |= {p: (self._next[p], end) for p, end in ends.items()}
            for partition in stopped:
                del self._next[partition]
        if lost := lost | (unwanted - kept):
            log.warning("%s: lost the lease of %s", self.name, _listed(lost))
            self._tell("lost", lost)

    def _tell(self, what: str, partitions: Collection[TopicPartition]) -> None:
        log.info("%s: %s %s", self.name, what, _listed(partitions))
        told = self._told[what]
        if told is not None:
            told(frozenset(partitions))

    # The keeper's thread.

    def _keep(self) -> None:
        looked_at = renewed_at = -float("inf")
        troubled = ""
        try:
            while not self._closing.is_set():
                try:
                    self._follow()
                    self._free()
                    now = steady()
                    renew = now - renewed_at >= self._leases.terms.renewal
                    if renew or (self._leases.awaited and now - looked_at >= LOOK):
                        looked_at = now
                        self._look()
                        if renew:
                            renewed_at = now
                            self._renew()
                    troubled = ""
                except TryAgain as error:
                    if str(error) != troubled:
                        troubled = str(error)
                        log.warning("%s: %s", self.name, troubled)
                    self._closing.wait(TICK)
                except GiveUp as error:
                    with self._lock:
                        self._trouble = error
                    self._closing.wait(LOOK)
            self._last_words()
        except Exception as error:
            # Nobody renews the leases from now on: the caller has to hear of it.
            self._failure = error
            raise
        finally:
            self._plans.close()

    def _follow(self) -> None:
        for key, value in self._plans.receive(TICK):
            with self._lock:
                said = self._follower.take(key, value, time.time())
            self._say(said)
        if not self._plans.exists:
            with self._lock:
                said = self._follower.lost_topic()
            self._say(said)
        with self._lock:
            # On the way to the newest plan, older ones are passed.
            if self._plans.caught_up and not self._closed:
                self._leases.want(self._follower.partitions)

    def _say(self, said: str) -> None:
        if said:
            log.info("%s: %s", self.name, said)

    def _look(self) -> None:
        with self._lock:
            partitions = self._leases.wanted | self._leases.held
        if not partitions:
            return
        asked = steady()
        marks = self._offsets.marks(partitions)
        with self._lock:
            looked = self._leases.look(asked, steady(), marks)
            self._started |= looked.taken
            note = self._leases.note()
        if not looked.claim:
            return
        new = [p for p, mark in looked.claim.items() if mark is None]
        claims = self._offsets.starts(new) | {
            p: mark.offset for p, mark in looked.claim.items() if mark is not None
        }
        sent = steady()
        done = self._offsets.commit(claims, note, self._leases.terms.settle)
        with self._lock:
            self._leases.claimed(done, note, asked, sent, steady())

    def _renew(self) -> None:
        if steady() - self._polled_at > STUCK:
            raise TryAgain(f"poll was not called for {STUCK:g} s: its leases are not renewed")
        with self._lock:
            held = self._leases.held
            offsets = {p: o for p, o in (self._next | self._started).items() if p in held}
            note = self._leases.note()
        sent = steady()
        done = self._offsets.commit(offsets, note, self._leases.terms.renewal)
        with self._lock:
            self._leases.renewed(done, sent, steady())

    def _free(self) -> None:
        with self._lock:
            due, self._due = self._due, {}
        now = steady()
        due = {p: (offset, end) for p, (offset, end) in due.items() if now < end}
        if not due:
            return
        try:
            offsets = {p: offset for p, (offset, _) in due.items()}
            self._offsets.commit(offsets, self._leases.free_note, self._leases.terms.settle)
        except TryAgain:
            with self._lock:
                self._due = due | self._due
            raise

    def _last_words(self) -> None:
        """Commit partitions that were given up; those that fail wait for their lease to end."""
        end = steady() + LAST_WORDS
        while True:
            try:
                return self._free()
            except LaglessError as error:
                if isinstance(error, GiveUp) or steady() > end:
                    log.warning("%s: %s", self.name, error)
                    return None
                time.sleep(TICK)


def _checked(
    config: Mapping[str, Any], name: str | None, lease: float, settle: float
) -> tuple[str, str, dict[str, Any]]:
    """Return the group, the member's name, and the configuration of the clients."""
    connection = dict(config)
    instance = connection.pop("group.instance.id", None)
    for key in ("group.protocol", "group.remote.assignor", "partition.assignment.strategy"):
        connection.pop(key, None)  # for members that subscribe
    group = connection.get("group.id")
    if not group:
        raise WrongInput("group.id is missing: name the group whose plan should be followed")
    name = instance if name is None else name
    if name is None:
        raise WrongInput(
            "name is missing: give this member's name in the plan, or group.instance.id"
        )
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name):
        raise WrongInput(f'name is {name!r} and should be letters, digits, ".", "_" and "-"')
    if "enable.auto.commit" in connection:
        raise WrongInput(
            "enable.auto.commit should be left out: a planned consumer commits what was processed; "
            "with enable.auto.offset.store = False that is what was given to store()"
        )
    if not 0 < 5 * settle <= lease:
        raise WrongInput(
            f"lease is {lease:g} s and should be at least five times settle, {settle:g} s"
        )
    return str(group), name, connection


def _of(message: Message) -> tuple[TopicPartition, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return TopicPartition(topic, partition), offset


def _listed(partitions: Iterable[TopicPartition]) -> str:
    names = [str(partition) for partition in sorted(partitions)]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more
