"""From what is known of a group to a plan: packed as for lagless's own consumers.

With a scaler and a known capacity, as few members get work as can keep up. Otherwise how many run
is not for lagless to say, and all of them share the work evenly: that needs no capacity.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from lagless.controller import reassign, weights
from lagless.controller.group.group_state import GroupPolicy, GroupState
from lagless.controller.group.learning import COMMITS
from lagless.controller.state import Member, Policy, State
from lagless.group_ports import GroupMember
from lagless.model import Assignment, Consumer, TopicPartition
from lagless.packing import scores

SETTLED = 1.15
"""How uneven the work of members that share it may get before anything moves."""
FLOOR = 0.01
"""The least that a partition weighs when members share the work, as a fraction of the mean weight:
so that idle partitions are shared too."""
_ORDINAL = re.compile(r"(\d+)\D*$")


@dataclass(frozen=True, slots=True)
class Placing:
    """A plan by numbers, and how many members there should be."""

    plan: reassign.Plan
    wanted: int | None


def number(numbers: Mapping[str, Consumer], members: Mapping[str, GroupMember]) -> dict[str, int]:
    """Return the numbers with one more for each member that has none, the lowest free one."""
    numbered = dict(numbers)
    taken = set(numbered.values())
    free = (n for n in count(1) if n not in taken)
    for name in sorted(members.keys() - numbered.keys(), key=lambda name: _order(members[name])):
        numbered[name] = next(free)
    return numbered


def ordinal(member: GroupMember) -> int | None:
    """Return the number at the end of the instance id, client id or host, the first that has one.

    A host that is an address has none: only pods are named with an ordinal.
    """
    for text in (member.instance, member.client, member.host):
        found = _ORDINAL.search(text)
        if found and not re.fullmatch(r"[\d.]+|[0-9a-fA-F:]+", text):
            return int(found[1])
    return None


def capacity(state: GroupState, policy: GroupPolicy) -> float | None:
    """Return C, or None while it is not known what a member can read."""
    return None if state.rate is None else state.rate * policy.share


def view(state: GroupState, policy: GroupPolicy) -> State:
    """Return the group in the terms of lagless's own consumers, so that it is packed like them."""
    lag = state.lag()
    late = {p: max(0.0, size - COMMITS * state.speeds.get(p, 0.0)) for p, size in lag.items()}
    members = {
        n: Member(
            n,
            member.name,
            heard_at=state.looked_at,
            ready=True,
            held=dict.fromkeys(member.held, state.generation),
        )
        for n, member in state.present.items()
    }
    return State(
        phase=state.phase,
        at=state.at,
        generation=state.generation,
        fence=0,
        began_at=state.began_at,
        hearing_since=state.began_at,
        synchronizing_since=state.began_at,
        members=members,
        team=frozenset(members),
        target=state.target,
        partitions=state.partitions,
        speeds=state.speeds,
        stale=state.stale,
        measured_at=state.measured_at,
        backlog=late,
        reassigned_at=state.planned_at,
    )


def place(state: GroupState, policy: GroupPolicy) -> Placing:
    """Return a new plan for the members that are present."""
    seen, limit = view(state, policy), capacity(state, policy)
    present = len(seen.members)
    if limit is None:
        return Placing(share(seen, policy.packing, None), None)
    packing = replace(policy.packing, capacity=limit)
    packed = reassign.plan(seen, packing)
    wanted = max(len(packed.team), policy.packing.min_consumers)
    if policy.to_zero and _nothing_to_do(state):
        wanted = 0
    if not policy.scales or len(set(packed.assignment.values())) > present:
        return Placing(share(seen, packing, limit), wanted)
    if policy.ordered:
        packed = on_the_lowest(seen, packing, packed, state.present)
        if wanted:
            wanted = max(wanted, len(set(packed.assignment.values())))
    return Placing(packed, wanted)


def _nothing_to_do(state: GroupState) -> bool:
    """Return whether nothing is written, and all that was written is read."""
    partitions = state.partitions or {}
    return all(
        state.speeds.get(p) == 0
        and (it := state.progress.get(p)) is not None
        and (it.end == 0 if it.committed is None else it.committed >= it.end)
        for p in partitions
    )


def share(seen: State, policy: Policy, limit: float | None) -> reassign.Plan:
    """Return a plan that spreads the partitions evenly over all members, by weight."""
    before = reassign.previous(seen)
    weight = weights.weights(seen, policy)
    warnings = []
    alive = frozenset(seen.members)
    mean = sum(weight.values()) / len(weight) if weight else 0.0
    counted = {p: max(w, FLOOR * mean) if mean > 0 else 1.0 for p, w in weight.items()}
    doubt = weights.doubts(seen, policy)
    if not alive:
        assignment: dict[TopicPartition, Consumer] = {}
    elif doubt and before.keys() >= counted.keys() and set(before.values()) <= alive:
        assignment = dict(before)  # rule 13
        warnings.append(f"leaving every partition where it is: {doubt}")
    else:
        assignment = evenly(counted, alive, before, limit)
    load = scores.loads(weight, assignment)
    fullest = max(load.values(), default=0.0)
    if limit is not None and fullest > limit and not doubt:
        warnings.append(
            f"the fullest member gets {fullest / limit:.0%} of what it can keep up with"
        )
    rates = weights.speeds(seen)
    return reassign.Plan(
        assignment,
        before,
        weight,
        frozenset(assignment.values()),
        max(fullest, limit or 0.0),
        None if limit is None else scores.rscore(rates, limit, before, assignment),
        None if limit is None else scores.rscore(weight, limit, before, assignment),
        tuple(warnings),
    )


def evenly(
    weight: Mapping[TopicPartition, float],
    alive: frozenset[Consumer],
    before: Assignment,
    limit: float | None = None,
) -> dict[TopicPartition, Consumer]:
    """Spread partitions over all members, moving only what stands out.

    Nothing moves while all have work and nobody has much more than its share, or than `limit`: a
    partition above the share should be alone. Every member keeps the heaviest of what it has.
    """
    level = _level(sorted(weight.values(), reverse=True), len(alive))
    load = scores.loads(weight, before)
    busy = min(len(alive), len(weight))
    placed = before.keys() >= weight.keys() and load.keys() <= alive and len(load) == busy
    if placed:
        heaviest: dict[Consumer, float] = {}
        for p, w in weight.items():
            heaviest[before[p]] = max(w, heaviest.get(before[p], 0.0))
        if all(load[n] <= _most(level, w, limit) for n, w in heaviest.items()):
            return {p: before[p] for p in weight}
    load = dict.fromkeys(sorted(alive), 0.0)
    order = sorted(weight, key=lambda p: (-weight[p], p))
    assignment: dict[TopicPartition, Consumer] = {}
    for p in order:
        n = before.get(p)
        if n in load and (load[n] == 0 or load[n] + weight[p] <= reassign.EVEN * level):
            assignment[p] = n
            load[n] += weight[p]
    for p in order:
        if p not in assignment:
            assignment[p] = n = min(load, key=lambda n: (load[n], n))
            load[n] += weight[p]
    return assignment


def _level(heaviest_first: Sequence[float], size: int) -> float:
    """Return the fair share of the members that do not have a partition above it alone."""
    left = sum(heaviest_first)
    for weight in heaviest_first:
        if size <= 1 or weight * size <= left:
            break
        left, size = left - weight, size - 1
    return max(0.0, left / size)


def _most(level: float, heaviest: float, limit: float | None) -> float:
    """Return what a member may have before anything moves; one above its capacity has less."""
    most = max(SETTLED * level, heaviest + (SETTLED - 1) * level)
    return most if limit is None else min(most, max(limit, heaviest, reassign.EVEN * level))


def on_the_lowest(
    seen: State, policy: Policy, packed: reassign.Plan, present: Mapping[Consumer, GroupMember]
) -> reassign.Plan:
    """Return a plan that leaves the highest ordinals without work: those are taken away first."""
    ranked = sorted(present, key=lambda n: (_order(present[n]), n))
    needed = len(set(packed.assignment.values()))
    for size in range(needed, len(ranked) + 1):
        kept = ranked[:size]
        before = {p: n for p, n in packed.previous.items() if n in kept}
        found = policy.pack(packed.weights, policy.capacity, before)
        opened = sorted(set(found.values()) - set(kept))
        spare = [n for n in kept if n not in set(found.values())]
        if len(opened) <= len(spare):
            name = dict(zip(opened, spare, strict=False))
            return _with(seen, policy, packed, {p: name.get(n, n) for p, n in found.items()})
    return packed


def _with(
    seen: State, policy: Policy, packed: reassign.Plan, assignment: Assignment
) -> reassign.Plan:
    limit, before = policy.capacity, packed.previous
    return replace(
        packed,
        assignment=assignment,
        team=frozenset(assignment.values()),
        rscore=scores.rscore(weights.speeds(seen), limit, before, assignment),
        weight_moved=scores.rscore(packed.weights, limit, before, assignment),
    )


def _order(member: GroupMember) -> tuple[int, str]:
    found = ordinal(member)
    return (10**9 if found is None else found, member.name)
