"""What people ask about members that lagless did not write. Looks, and changes nothing."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from lagless import extras
from lagless.controller.events import Listed, Measured
from lagless.controller.group import plan_machine, seeing
from lagless.controller.group.group_events import Looked
from lagless.controller.group.group_state import GroupPolicy, GroupState
from lagless.errors import TryAgain
from lagless.history import History
from lagless.messages import AnyDecision, Assigned, Learned, Regrouped, SeenGroup, Warned
from lagless.settings import Settings
from lagless.wiring import controller, group_controller

with extras.needed("kafka"):
    from lagless.adapters.kafka import contact, mail, topic_records
    from lagless.adapters.kafka.planned_group import PlannedGroup
    from lagless.adapters.kafka.speeds import LatestSpeeds

LOOK_BACK = 5000
"""Messages in which the controller's last view of the group is looked for."""
PATIENCE = 15.0
"""Seconds for a coordinator that is being elected."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known:
    """A group as it is now."""

    state: GroupState
    policy: GroupPolicy
    seen: SeenGroup | None
    """How its controller saw it last; None if none has led it lately."""
    last: AnyDecision | None


def known(settings: Settings) -> Known:
    """Return what a controller would know now."""
    contact.reach(settings.kafka)
    policy = group_controller.policy(settings)
    now = time.time()
    try:
        persisted = mail.persisted(settings)
    except TryAgain:
        persisted = None  # no controller has led this group yet
    state = plan_machine.begin(persisted, now, policy)
    with closing(LatestSpeeds(settings)) as reader:
        speeds = reader.latest()
    if speeds is not None:
        state, _ = seeing.take(state, Measured(now, speeds), policy)
    with closing(PlannedGroup(settings)) as members:
        group = _patiently(members.describe)
        held = {p for member in group.members for p in member.held}
        partitions = sorted(state.speeds.keys() | held)
        progress = dict(_patiently(lambda: members.progress(partitions)))
    listed = tuple((p.topic, p.partition) for p in partitions if p in progress)
    for event in (Listed(now, listed), Looked(now, group, progress)):
        state, _ = seeing.take(state, event, policy)
    return Known(state, policy, _seen(settings), _last(settings))


def _seen(settings: Settings) -> SeenGroup | None:
    try:
        reader = topic_records.Reader(
            settings.kafka, settings.controller.metadata_topic, 0, -LOOK_BACK
        )
    except TryAgain:
        return None
    return max(reader.rest(SeenGroup, settings.group, 30), key=lambda seen: seen.at, default=None)


def _last(settings: Settings) -> AnyDecision | None:
    try:
        log = History(controller.events(settings, start=-LOOK_BACK))
    except TryAgain:
        return None
    return log.latest(Assigned, Warned, Regrouped, Learned)


def _patiently(ask: Callable[[], T]) -> T:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except TryAgain:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
