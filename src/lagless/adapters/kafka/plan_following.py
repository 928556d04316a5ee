"""Which partitions a plan gives to one member, from the messages of the topic `<group>.plan`.

The format is the assignor's (assignor/README.md), and so are the rules by which a message counts.
No I/O.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from lagless import messages
from lagless.errors import WrongInput
from lagless.messages import Plan
from lagless.model import TopicPartition

MAX_AGE = 900.0
"""Seconds after which a plan no longer outranks one with a lower generation, as in the assignor."""


class PlanFollower:
    """The newest plan of a group, and the partitions that it gives to one member."""

    def __init__(self, group: str, name: str) -> None:
        self._group = group
        self._name = name
        self.plan: Plan | None = None
        """The plan that counts; None before the first one, and after it was deleted."""
        self.partitions: frozenset[TopicPartition] = frozenset()
        """The partitions that this member should read; unchanged while there is no plan."""

    def take(self, key: str | None, value: bytes | None, now: float) -> str:
        """Take in a message; return a sentence if something changes or is wrong, else ""."""
        if key is not None and key != self._group:
            return ""
        if value is None:
            had, self.plan = self.plan, None
            return "" if had is None else f"the plan was deleted: {self._without()}"
        try:
            plan = read(value, self._group)
        except WrongInput as error:
            return f"a message in the plan's topic is ignored: {error}"
        if plan is None:
            return ""
        old = self.plan
        if old is not None and plan.generation < old.generation and now - old.at <= MAX_AGE:
            return (
                f"plan {plan.generation} is ignored: plan {old.generation} has been read and is "
                f"less than {MAX_AGE:g} s old"
            )
        self.plan = plan
        mine = partitions_of(plan, self._name)
        if old is not None and mine == self.partitions:
            return ""
        self.partitions = mine
        if self._name not in plan.members:
            return (
                f"plan {plan.generation} does not name {self._name!r}: it reads nothing. Planned "
                f"members are {_listed(plan.members)}"
            )
        return f"plan {plan.generation} gives {len(mine)} partitions to {self._name}"

    def lost_topic(self) -> str:
        """Take in that the plan's topic is not there; return a sentence if that is new."""
        had, self.plan = self.plan, None
        return "" if had is None else f"the plan's topic was deleted: {self._without()}"

    @property
    def status(self) -> str:
        """Return one sentence on the plan that this member follows."""
        if self.plan is not None:
            return f"plan {self.plan.generation} gives it {len(self.partitions)} partitions"
        return f"there is no plan: {self._without()}"

    def _without(self) -> str:
        if not self.partitions:
            return f"{self._name} reads nothing until there is one"
        return f"{self._name} keeps its {len(self.partitions)} partitions until there is one"


def partitions_of(plan: Plan, name: str) -> frozenset[TopicPartition]:
    """Return the partitions that a plan gives to a member."""
    topics = plan.members.get(name, {})
    return frozenset(TopicPartition(topic, number) for topic in topics for number in topics[topic])


def read(value: bytes, group: str) -> Plan | None:
    """Return the plan that a message is, None if it is another message; raise WrongInput."""
    try:
        document = json.loads(value, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise WrongInput(f"not a valid plan: {error}") from error
    # Plans written by hand may leave out the kind of message.
    tagged = {"message": "plan", **document} if isinstance(document, dict) else document
    plan = messages.read(json.dumps(tagged), Plan, group=group)
    if plan is None:
        return None
    readers = Counter(p for name in plan.members for p in partitions_of(plan, name))
    twice = sorted(partition for partition, count in readers.items() if count > 1)
    if twice:
        raise WrongInput(f"not a valid plan: {twice[0]} has two members")
    return plan


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(f"the name {twice[0]!r} occurs twice")
    return dict(pairs)


def _listed(members: Mapping[str, object]) -> str:
    names = sorted(members)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more if names else "none"
