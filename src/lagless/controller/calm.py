"""What keeps a group calm: it grows at once, shrinks late, and moves as little as it can. Pure.

A packing algorithm answers which assignment is best for the speeds of this moment. Noise alone
changes that answer with every measurement, and each change costs the pause of a move. So what an
algorithm answers is followed only as far as there is a reason for it:

1. While no consumer is fuller than C and the dead band, and none can be spared, nothing moves.
2. If one is, what is above `room` goes where there is room, if that needs no more consumers than
   the algorithm does, and no more of the load moves than under the algorithm's answer.
3. A consumer can be spared if at no packing of the last `shrink_after` seconds the algorithm asked
   for as many. Then the emptiest are emptied, until `max_move` of the whole load has moved: at
   least one consumer, and no more than fit into the others. These are filled up to C only, so that
   noise does not overload them at once.

The dead band is for speeds that come back. Where they wander, and a consumer above C would soon
have more than it can read, the band is narrower: it leaves room below C̄ for two standard deviations
of what a full consumer's load changes by until the next decision.

What has no consumer yet is placed in any case. docs/calm.md says what each number buys.
"""

import math
from collections import Counter
from collections.abc import Mapping

from lagless.controller.state import Policy, State
from lagless.model import Assignment, Consumer, Speeds, TopicPartition
from lagless.packing import scores

Weights = Mapping[TopicPartition, float]
Needs = tuple[tuple[float, int], ...]
"""When the group was packed, and how many consumers the algorithm asked for."""
FILL = 0.25
"""Share of the dead band up to which consumers are filled. With 0 the group is larger by a few
percent, with 0.5 the next change overloads more consumers."""

DEVIATIONS = 2
"""Standard deviations of change that have to fit between a consumer's limit and C̄."""
KEPT = 0.9
"""The weight of the earlier unrest after each measurement."""
MOST = 4
"""How many times the usual a measurement counts at most: a step says little about what follows."""


def unrest(state: State, speeds: Speeds, at: float, policy: Policy) -> float:
    """Return the variance of a load until the next decision, per byte/s of it, in bytes/s.

    The changes of partitions count as independent, and as growing with the square root of time.
    """
    if policy.max_rate <= 0 or policy.dead_band <= 0:
        return 0.0
    both = state.speeds.keys() & speeds.keys()
    total = sum(speeds[p] for p in both)
    passed = at - state.measured_at
    if total <= 0 or not 0 < passed < float("inf"):
        return state.unrest
    seen = sum((speeds[p] - state.speeds[p]) ** 2 for p in both) / total
    seen *= max(1.0, policy.pause / passed)
    if state.unrest <= 0:
        return seen
    return KEPT * state.unrest + (1 - KEPT) * min(seen, MOST * state.unrest)


def is_on(policy: Policy) -> bool:
    """Return whether anything holds an algorithm back."""
    return policy.dead_band > 0 or policy.shrink_after > 0 or policy.max_move < 1


def needs(state: State, policy: Policy, needed: int) -> Needs:
    """Return what was asked for within the time in which the group does not shrink, and now."""
    if policy.shrink_after <= 0:
        return ()
    since = state.at - policy.shrink_after
    return (*((at, n) for at, n in state.needs if at > since), (state.at, needed))


def band(policy: Policy, unrest: float) -> float:
    """Return the dead band that leaves room for change; some of it always stays."""
    if policy.max_rate <= 0:
        return policy.dead_band
    change = DEVIATIONS * math.sqrt(unrest * policy.capacity)
    wide = (policy.max_rate - change) / policy.capacity - 1
    return min(policy.dead_band, max(FILL * policy.dead_band, wide))


def limit(policy: Policy, unrest: float = 0.0) -> float:
    """Return the load above which a consumer is relieved."""
    return policy.capacity * (1 + band(policy, unrest))


def room(policy: Policy, unrest: float = 0.0) -> float:
    """Return the load to which consumers are filled, so that there is room for noise above it."""
    return policy.capacity * (1 + FILL * band(policy, unrest))


def overfull(weight: Weights, before: Assignment, state: State, policy: Policy) -> list[Consumer]:
    """Return who has to be relieved: a consumer with one partition cannot be."""
    load, count = scores.loads(weight, before), Counter(before.values())
    most = limit(policy, state.unrest)
    return [n for n, x in load.items() if x > most and count[n] > 1]


def packed(weight: Weights, before: Assignment, state: State, policy: Policy) -> Assignment:
    """Return the algorithm's answer: to fill consumers, or to see whether one can be spared."""
    full = not before or overfull(weight, before, state, policy)
    most = room(policy, state.unrest) if full else policy.capacity
    return policy.pack(weight, most, before)


def calmed(
    answer: Assignment, weight: Weights, before: Assignment, state: State, policy: Policy
) -> Assignment:
    """Return the assignment to make, given what the algorithm answered."""
    if not before or not is_on(policy):
        return answer
    needed, now = len(set(answer.values())), len(set(before.values()))
    if before.keys() >= weight.keys() and not overfull(weight, before, state, policy):
        floor = max((n for _, n in needs(state, policy, needed)), default=needed)
        if now <= floor:
            return before
        share = _moved(weight, before, answer) / (sum(weight.values()) or 1.0)
        if needed >= floor and share <= policy.max_move:
            return answer
        return emptied(weight, before, policy, now - floor)
    relieved = relieve(weight, room(policy, state.unrest), before)
    enough = len(set(relieved.values())) <= max(needed, now)
    less = _moved(weight, before, relieved) <= _moved(weight, before, answer)
    return relieved if enough and (less or needed < now) else answer


def _moved(weight: Weights, before: Assignment, after: Assignment) -> float:
    return sum(weight[p] for p in scores.migrations(before, after))


def relieve(weight: Weights, capacity: float, before: Assignment) -> dict[TopicPartition, Consumer]:
    """Move from each consumer what is above the capacity to where there is most room.

    The smallest partition that is enough goes, else the largest. What has no consumer is placed
    first, the largest first. Consumers are opened where nobody has room.
    """
    load, assignment = scores.loads(weight, before), dict(before)
    free = sorted((p for p in weight if p not in before), key=lambda p: (-weight[p], p))
    held: dict[Consumer, list[TopicPartition]] = {}
    for p, n in before.items():
        held.setdefault(n, []).append(p)
    for n in sorted(load):
        mine = sorted(held[n], key=lambda p: (weight[p], p))
        while load[n] > capacity and len(mine) > 1:
            least = load[n] - capacity
            chosen = next((p for p in mine if weight[p] >= least), mine[-1])
            mine.remove(chosen)
            load[n] -= weight[chosen]
            free.append(chosen)
    for p in free:
        n = min(load, key=lambda n: (load[n], n), default=0)
        if not load or load[n] + weight[p] > capacity:
            n = max(load, default=0) + 1
        assignment[p] = n
        load[n] = load.get(n, 0.0) + weight[p]
    return assignment


def emptied(
    weight: Weights, before: Assignment, policy: Policy, most: int
) -> dict[TopicPartition, Consumer]:
    """Empty up to so many consumers into the others, the emptiest first.

    A consumer is emptied whole or not at all, so that a step that is cut short still saves one.
    """
    load, assignment = scores.loads(weight, before), dict(before)
    allowed, moved = policy.max_move * sum(weight.values()), 0.0
    for doomed in sorted(load, key=lambda n: (load[n], n))[:most]:
        if moved > 0 and moved + load[doomed] > allowed:
            break
        rest = {n: x for n, x in load.items() if n != doomed}
        homes: dict[TopicPartition, Consumer] = {}
        mine = [p for p, n in assignment.items() if n == doomed]
        for p in sorted(mine, key=lambda p: (-weight[p], p)):
            fits = [n for n, x in rest.items() if x + weight[p] <= policy.capacity]
            if not fits:
                return assignment
            homes[p] = n = max(fits, key=lambda n: (rest[n], -n))
            rest[n] += weight[p]
        moved += load[doomed]
        assignment.update(homes)
        load = rest
    return assignment
