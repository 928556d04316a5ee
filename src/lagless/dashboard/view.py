"""From the story to a snapshot: who is there, who holds what, and what is wrong. Pure."""

from collections.abc import Iterable, Mapping

from lagless.dashboard import decisions, notices, series
from lagless.dashboard.snapshot import (
    Bin,
    Block,
    Condition,
    Link,
    Snapshot,
)
from lagless.dashboard.story import Member, Sample, Story
from lagless.model import Consumer, TopicPartition
from lagless.settings import Settings

BEATS = 3
"""Missed heartbeats after which a consumer shows as silent."""


def look(story: Story, settings: Settings, now: float, link: Link) -> Snapshot:
    """Say what is so at a moment."""
    sample = story.samples[-1] if story.samples else None
    speeds = sample.speeds if sample else {}
    age = now - sample.at if sample else None
    present = {
        consumer: member
        for consumer, member in sorted(story.newest().items())
        if not gone(member, story.decisions, settings, now)
    }
    owners = _owners(present.values())
    bins = tuple(
        _bin(member, owners, sample, story.decisions.target, settings, now)
        for member in present.values()
    )
    unassigned = tuple(
        Block(partition, speed, target=story.decisions.target.get(partition))
        for partition, speed in speeds.items()
        if partition not in owners
    )
    heard = story.decisions.heard_at
    reassignments = tuple(story.decisions.timed([sample.at for sample in story.samples]))
    snapshot = Snapshot(
        now=now,
        group=story.group,
        capacity=settings.capacity,
        max_rate=settings.max_rate,
        algorithm=settings.controller.algorithm,
        slack=settings.controller.slack,
        link=link,
        speeds=speeds,
        speeds_age=age,
        speeds_stale=age is not None and age > settings.controller.stale_after / 2,
        phase=story.decisions.phase,
        phase_age=now - story.decisions.phase_at if story.decisions.phase else None,
        controller_age=None if heard is None else max(0.0, now - heard),
        controller_stale=heard is not None and now - heard > quiet(settings),
        bins=bins,
        unassigned=unassigned,
        plain_kafka=sample.plain_kafka if sample else 0,
        reassignments=reassignments,
        lines=tuple(story.decisions.lines),
        timings=series.timings(story.samples, reassignments),
        notices=(),
        moments=series.moments(story, silent_after(settings)),
        lags={consumer: series.thinned(lags) for consumer, lags in sorted(story.lags.items())},
    )
    return snapshot.noticing(tuple(notices.find(snapshot)))


def quiet(settings: Settings) -> float:
    """Give the seconds after which a controller that says nothing is worth a word."""
    return max(60.0, 3 * settings.controller.iteration)


def silent_after(settings: Settings) -> float:
    """Give the seconds of silence after which a consumer shows as silent."""
    return min(BEATS * settings.consumer.heartbeat, settings.consumer.lost_after)


def condition(member: Member, settings: Settings, now: float) -> Condition:
    """Say how a consumer does."""
    silence = now - member.last
    if silence > settings.consumer.lost_after:
        return "lost"
    if silence > silent_after(settings):
        return "silent"
    beat = member.heartbeat
    if beat is None:
        return "starting"
    if beat.state == "ready" and beat.waiting_for:
        return "waiting"
    return beat.state


def gone(member: Member, decided: decisions.Decisions, settings: Settings, now: float) -> bool:
    """Say whether a consumer has ended: it said so, the controller did, or it is long silent."""
    silence = now - member.last
    ending = member.heartbeat is not None and member.heartbeat.state == "ending"
    ended = decided.ended.get(member.consumer, 0.0) >= member.last - settings.consumer.heartbeat
    return (
        (ending and silence > silent_after(settings))
        or (ended and silence > settings.consumer.heartbeat)
        or silence > 3 * settings.consumer.lost_after
    )


def _owners(members: Iterable[Member]) -> dict[TopicPartition, Consumer]:
    """Say who reads what: of two that say they do, the one with the newer order is right."""
    best: dict[TopicPartition, tuple[int, float, Consumer]] = {}
    for member in members:
        for partition, generation in member.held.items():
            claim = (generation, member.held_at, member.consumer)
            best[partition] = max(best.get(partition, claim), claim)
    return {partition: consumer for partition, (_, _, consumer) in best.items()}


def _bin(
    member: Member,
    owners: Mapping[TopicPartition, Consumer],
    sample: Sample | None,
    target: Mapping[TopicPartition, Consumer],
    settings: Settings,
    now: float,
) -> Bin:
    speeds = sample.speeds if sample else {}
    stale = sample.stale if sample else frozenset()
    beat = member.heartbeat
    backlog = beat.backlog if beat else {}
    blocks = tuple(
        Block(
            partition,
            speeds.get(partition, 0.0),
            measured=partition in speeds,
            stale=partition in stale,
            backlog=backlog.get(partition.topic, {}).get(partition.partition),
            target=aim if (aim := target.get(partition)) != member.consumer else None,
        )
        for partition in sorted(member.held)
        if owners[partition] == member.consumer
    )
    return Bin(
        consumer=member.consumer,
        condition=condition(member, settings, now),
        blocks=blocks,
        load=sum(block.speed for block in blocks),
        silence=max(0.0, now - member.last),
        lag_seconds=beat.lag_seconds if beat else 0,
        lag_bytes=beat.lag_bytes if beat else 0,
        lag_records=beat.lag_records if beat else 0,
        bytes_per_second=beat.bytes_per_second if beat else 0,
        cycle_seconds=beat.cycle_seconds if beat else 0,
        waiting_for=beat.waiting_for if beat else "",
        trouble=beat.trouble if beat else "",
    )
