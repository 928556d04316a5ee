"""Kafka's own broker-side assignor, `uniform`, for members that all read one topic.

It levels counts: nobody has more than one partition above another, whatever the partitions bring. A
member keeps what it has as far as its count allows. Which partitions meet on a member follows from
their numbers, and from the order of the members, which is that of a hash map over their ids.
Clients draw these at random, and so does `joined`. The rule is that of
UniformHomogeneousAssignmentBuilder in Kafka 4.1, with the order in which Java's sets of numbers are
read; tests compare it with Kafka's class.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lagless.lab.model.streams import Floats

Held = dict[int, list[int]]
"""The partitions of each member."""


def assign(partitions: int, order: Sequence[int], before: Mapping[int, Sequence[int]]) -> Held:
    """Return what members have, who are taken in this order and had something before."""
    least, extra = divmod(partitions, len(order))
    assigned = {p for name in order for p in before.get(name, ())}
    free = [p for p in range(partitions) if p not in assigned]
    held: Held = {}
    room: dict[int, int] = {}
    for place, name in enumerate(order):
        had, most = list(before.get(name, ())), least + (extra > 0)
        held[name] = had[:most]
        free += had[most:]
        room[name] = most - len(held[name])
        # Who has no more than the least is not given one more while others may keep theirs.
        passes = room[name] > 0 and len(order) - place > extra
        if extra > 0:
            room[name] -= passes
            extra -= not passes
    waiting = iter(free)
    for name, missing in room.items():
        held[name] = _as_read([*held[name], *(next(waiting) for _ in range(missing))])
    return held


def _as_read(numbers: Sequence[int]) -> list[int]:
    """Return numbers in the order of a java.util.HashSet that was made for so many."""
    wanted = max(int(len(numbers) / 0.75) + 1, 16)
    buckets = 1 << (wanted - 1).bit_length()
    return sorted(numbers, key=lambda number: number % buckets)


def joined(partitions: int, members: int, rng: np.random.Generator) -> Held:
    """Return what members have who joined one after the other, with ids drawn at random."""
    ranks = rng.permutation(members)
    held: Held = {}
    for count in range(1, members + 1):
        held = assign(partitions, sorted(range(count), key=lambda name: ranks[name]), held)
    return held


def fullest(speeds: Floats, members: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return the load of the fullest member in each of so many draws, in the speeds' unit.

    A draw is of the members' ids, and of which partition has which speed.
    """
    loads = np.empty(draws)
    for draw in range(draws):
        drawn = rng.permutation(speeds)
        held = joined(len(speeds), members, rng)
        loads[draw] = max(drawn[them].sum() for them in held.values())
    return loads


def needed(
    speeds: Floats, max_rate: float, rare: float, draws: int, rng: np.random.Generator
) -> int:
    """Return how many members it takes that one is overloaded in a fraction `rare` of draws."""
    least = max(1, math.ceil(speeds.sum() / max_rate))
    for members in range(least, len(speeds)):
        if (fullest(speeds, members, draws, rng) > max_rate).mean() <= rare:
            return members
    return len(speeds)


@dataclass(frozen=True, slots=True)
class Odds:
    """What the fullest member has over many draws, as a share of what a member can read."""

    members: int
    draws: int
    overloaded: float
    """The fraction of draws in which a member has more than it can read."""
    p10: float
    p50: float
    p90: float


def odds(
    speeds: Floats, members: int, max_rate: float, draws: int, rng: np.random.Generator
) -> Odds:
    """Draw placements, and return how often a member has more than it can read."""
    shares = fullest(speeds, members, draws, rng) / max_rate
    p10, p50, p90 = (float(np.quantile(shares, q)) for q in (0.1, 0.5, 0.9))
    return Odds(members, draws, float((shares > 1).mean()), p10, p50, p90)
