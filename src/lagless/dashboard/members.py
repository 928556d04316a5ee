"""Members that lagless did not write, as bins: what their controller sees of them. Pure.

What is not known of them, such as the seconds that their cycles take, is left out.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from lagless.dashboard.observations import Sample
from lagless.dashboard.snapshot import Bin, Block
from lagless.messages import SeenGroup, SeenMember
from lagless.model import Consumer, TopicPartition

SILENT = 30.0
"""Seconds after which what the controller saw last counts as old."""


def owners(seen: SeenGroup) -> dict[TopicPartition, Consumer]:
    """Return the number of the member that holds each partition."""
    return {p: member.consumer for member in seen.members for p in _held(member)}


def bins(
    seen: SeenGroup, sample: Sample, target: Mapping[TopicPartition, Consumer], now: float
) -> tuple[Bin, ...]:
    """Return the members in the order of their numbers."""
    age = max(0.0, now - seen.at)
    members = sorted(seen.members, key=lambda member: member.consumer)
    return tuple(_bin(member, sample, target, age) for member in members)


def count(counts: Sequence[tuple[float, int]], at: float) -> int:
    """Return how many members there were at a time; 0 before the first look."""
    index = bisect_right(counts, (at, 10**9))
    return counts[index - 1][1] if index else 0


def _bin(
    member: SeenMember, sample: Sample, target: Mapping[TopicPartition, Consumer], age: float
) -> Bin:
    blocks = tuple(
        Block(
            p,
            sample.speeds.get(p, 0.0),
            measured=p in sample.speeds,
            stale=p in sample.stale,
            backlog=member.backlog.get(p.topic, {}).get(p.partition),
            target=aim if (aim := target.get(p)) != member.consumer else None,
        )
        for p in _held(member)
    )
    return Bin(
        consumer=member.consumer,
        condition="ready" if age <= SILENT else "silent",
        blocks=blocks,
        load=sum(block.speed for block in blocks),
        silence=age,
        lag_seconds=None,
        lag_bytes=member.lag_bytes,
        lag_records=member.lag_records,
        bytes_per_second=member.bytes_per_second,
        name=member.name,
    )


def _held(member: SeenMember) -> list[TopicPartition]:
    return [TopicPartition(t, k) for t, ks in sorted(member.held.items()) for k in sorted(ks)]
