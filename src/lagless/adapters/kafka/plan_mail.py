"""The mail of a controller whose members follow plans: its lead, its plans, its event log."""

import time
from collections.abc import Collection, Sequence

from lagless.adapters.kafka import mail, topic_records, topics
from lagless.adapters.kafka.mail import CONTROLLER, ControllerMailbox, Produced
from lagless.messages import ControllerState, Message, Plan, SeenGroup
from lagless.ports import Post

GONE = 4.0
"""Seconds for which the plan's topic must be missing before it is created again."""


class PlanMailbox(ControllerMailbox):
    """group_ports.PlanMailbox on Kafka; it leads and is fenced as every controller."""

    _missing_since: float | None = None
    _plan_lost = False

    def lead(self) -> ControllerState | None:
        """Wait for the lead, fence the earlier leader, and return what it persisted.

        A state that was lost, or is older than the plan, is made up for by the plan: the assignor
        ignores generations below that of the plan it has.
        """
        state = super().lead()
        reader = topic_records.Reader(
            self._settings.kafka, self._settings.plan_topic, 0, "beginning"
        )
        try:
            plan = reader.newest(
                Plan, reader.drain_to_end(30), self._settings.group, {self._settings.group}
            )
        finally:
            reader.close()
        if plan is None or (state is not None and state.generation >= plan.generation):
            return state
        return _recovered(plan, state)

    def receive(self, timeout: float) -> Post:
        """Return what arrived, waiting at most `timeout` seconds for the first."""
        post = super().receive(timeout)
        lost, self._plan_lost = self._plan_lost, False
        return Post(speeds=post.speeds, deaf=post.deaf, plan_lost=lost)

    def publish(
        self,
        plan: Plan | None,
        state: ControllerState | None,
        seen: SeenGroup | None = None,
        log: Sequence[Message] = (),
    ) -> None:
        """Send the plan, the state to persist and the event log in one transaction, or nothing."""
        self._check()
        settings = self._settings
        records: list[Produced] = []
        if plan is not None:
            records.append((settings.plan_topic, plan.encode(), settings.group, 0))
        records += self._memory(state, log)
        if records:
            self._transact(records)
        if seen is not None:
            self._tell(seen)

    def _tell(self, seen: SeenGroup) -> None:
        """Say how the group is seen, without a transaction and without waiting."""
        assert self._echo is not None
        topic = self._settings.controller.metadata_topic
        try:
            self._echo.produce(topic, seen.encode(), self._settings.group, CONTROLLER)
        except BufferError:
            mail.log.warning(
                "the view of the group was not published: the producer's queue is full"
            )
        self._echo.poll(0)

    def _saw(self, names: Collection[str]) -> None:
        """Create those of the plans' topics that were deleted."""
        settings = self._settings
        needed = (settings.plan_topic, *settings.nudge_topics)
        if all(name in names for name in needed):
            self._missing_since = None
            return
        now = time.monotonic()
        self._missing_since = since = now if self._missing_since is None else self._missing_since
        if now - since >= GONE:
            self._plan_lost = settings.plan_topic in topics.ensure(settings, only=needed)
            self._missing_since = None


def _recovered(plan: Plan, state: ControllerState | None) -> ControllerState:
    """Return a state that continues from a plan."""
    numbers = {name: n for n, name in enumerate(sorted(plan.members), 1)}
    target: dict[str, dict[int, int]] = {}
    for name, read in plan.members.items():
        for topic, partitions in read.items():
            target.setdefault(topic, {}).update(dict.fromkeys(partitions, numbers[name]))
    return ControllerState(
        group=plan.group,
        generation=plan.generation,
        members={n: name for name, n in numbers.items()},
        team=tuple(sorted(numbers.values())),
        target=target,
        rate=state.rate if state is not None else None,
        at=plan.at,
    )
