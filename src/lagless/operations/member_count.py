"""How many members a group needs now: its speeds and backlogs, packed as the controller packs."""

import time
from collections.abc import Mapping

from lagless import extras, messages
from lagless.controller.group.learning import COMMITS
from lagless.controller.state import Pack
from lagless.errors import TryAgain, WrongSettings
from lagless.group_ports import GroupMember
from lagless.model import Assignment, Speeds, TopicPartition, capacity
from lagless.settings import Settings

with extras.needed("kafka"):
    from lagless.adapters.kafka import mail
    from lagless.adapters.kafka.group_members import GroupWatch
    from lagless.adapters.kafka.offsets import Offsets
    from lagless.adapters.kafka.speeds import LatestSpeeds

with extras.needed("keda"):
    from lagless.adapters.keda.hpa import Demand

LEARNED = 60.0
"""Seconds between two looks at what the controller has learned of the members."""


class MemberCount:
    """Count again and again; the last packing is kept, so that noise does not change the count."""

    def __init__(self, settings: Settings, pack: Pack) -> None:
        if not settings.of_others:
            raise WrongSettings(
                'members.kind is "lagless", and the controller starts and stops those consumers '
                'itself; it should be "group"'
            )
        self._settings = settings
        self._pack = pack
        self._speeds = LatestSpeeds(settings)
        self._offsets = Offsets(settings)
        self._watch = GroupWatch(settings.kafka, settings.group)
        self._previous: Assignment = {}
        self._rate = settings.members.rate
        self._learned_at = -float("inf")

    def read(self) -> Demand:
        """Return how many members should run; raise TryAgain while that cannot be said."""
        limit = self._capacity()
        speeds, densities = self._measured()
        committed = self._watch.committed()
        bounds = self._offsets.bounds(speeds.keys())
        unread = {
            p: max(0, found.end - committed.get(p, found.earliest)) for p, found in bounds.items()
        }
        weights = weigh(speeds, unread, densities, self._settings.controller.catch_up)
        self._previous = self._pack(weights, limit, self._previous)
        knobs = self._settings.controller
        count = len(set(self._previous.values()))
        idle = not any(speeds.values()) and not any(unread.values())
        return Demand(
            wanted=min(max(count, knobs.min_consumers), knobs.max_consumers),
            present=sum(not self._nudges(member) for member in self._watch.describe().members),
            active=not (idle and self._settings.provisioner.scale_to_zero),
        )

    def close(self) -> None:
        """End the connections."""
        self._speeds.close()
        self._offsets.close()

    def _nudges(self, member: GroupMember) -> bool:
        """Return whether a member is lagless's own, which only makes Kafka assign again."""
        return bool(member.held) and {p.topic for p in member.held} <= {
            *self._settings.nudge_topics
        }

    def _capacity(self) -> float:
        now = time.monotonic()
        if self._settings.members.rate is None and now - self._learned_at > LEARNED:
            learned = mail.persisted(self._settings)
            self._rate = learned.rate if learned is not None else None
            self._learned_at = now
        if self._rate is None:
            raise TryAgain(
                "it is not known yet what a member can read: set members.rate, for example "
                f'"2 MB/s"; `lagless adopt {self._settings.group}` measures it'
            )
        knobs = self._settings.controller
        return capacity(self._rate, knobs.iteration, knobs.rebalance)

    def _measured(self) -> tuple[Speeds, Speeds]:
        """Return the newest speeds, and the bytes per offset."""
        newest = self._speeds.latest()
        topic, most = self._settings.monitor.topic, self._settings.controller.stale_after
        if newest is None:
            raise TryAgain(f"no speeds in {topic} yet: is `lagless monitor` running?")
        age = time.time() - newest.at
        if age > most:
            raise TryAgain(
                f"the newest speeds in {topic} are {age:.0f} s old, more than {most:g} s: is "
                "`lagless monitor` running?"
            )
        return messages.flatten(newest.speeds), messages.flatten(newest.bytes_per_offset)


def weigh(
    speeds: Speeds,
    unread: Mapping[TopicPartition, int],
    densities: Mapping[TopicPartition, float],
    catch_up: float,
) -> dict[TopicPartition, float]:
    """Return speeds with backlogs, which should be read within `catch_up` seconds; 0 ignores them.

    What was written within `COMMITS` seconds is not a backlog.
    """
    weights = dict(speeds)
    if catch_up > 0:
        for p, records in unread.items():
            late = records * densities.get(p, 0.0) - COMMITS * speeds[p]
            weights[p] += max(0.0, late) / catch_up
    return weights
