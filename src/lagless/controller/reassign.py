"""Reassign: from what is known to an assignment, by one packing algorithm and the limits set."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lagless.controller import facts, sentinel
from lagless.controller.facts import Policy, State
from lagless.model import Assignment, Consumer, TopicPartition

EVEN = 1.05
"""How much more than the mean a consumer may keep where there are too few consumers."""

SETTLED = 1.3
"""How uneven such an assignment may get before anyone has to move again."""
HOPELESS = 2
"""Consumers in a row that did not start, after which those that are there take over their work."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An assignment, who it needs, and what has to be said about it."""

    assignment: Assignment
    previous: Assignment
    weights: Mapping[TopicPartition, float]
    team: frozenset[Consumer]
    capacity: float
    """What consumers were packed to: more than C where there are too few of them."""
    warnings: tuple[str, ...] = ()

    @property
    def migrations(self) -> dict[TopicPartition, tuple[Consumer, Consumer]]:
        """Give who moves: the consumer before and the one after."""
        return {
            p: (self.previous[p], n)
            for p, n in self.assignment.items()
            if p in self.previous and self.previous[p] != n
        }


@dataclass(slots=True)
class _Loads:
    """Loads while partitions are placed by hand."""

    load: dict[Consumer, float] = field(default_factory=dict)

    def least(self) -> Consumer:
        return min(self.load, key=lambda n: (self.load[n], n))

    def put(self, consumer: Consumer, weight: float) -> Consumer:
        self.load[consumer] = self.load.get(consumer, 0.0) + weight
        return consumer


def plan(state: State, policy: Policy) -> Plan:
    """Pack the partitions that can be placed."""
    before = previous(state)
    weight = {
        p: w
        for p, w in sentinel.weights(state, policy).items()
        if p in before or sentinel.may_place(state, policy, p)
    }
    before = {p: n for p, n in before.items() if p in weight}
    warnings = _oversize(weight, policy)
    packed = policy.pack(weight, policy.capacity, before)
    doubt = sentinel.doubts(state, policy)
    if must_keep(state, policy, packed, before):
        packed = keep(weight, policy.capacity, before)
        warnings.append(f"no consumer is taken away: {doubt}")
    limit, why = most(state, policy)
    capacity = policy.capacity
    if len(set(packed.values())) > limit:
        needed = len(set(packed.values()))
        packed = spread(weight, limit, before, frozenset(state.members))
        load = sentinel.loads(weight, packed)
        capacity = max(capacity, *load.values(), 0.0) if load else capacity
        warnings.append(
            f"{needed} consumers are needed and {why}: the fullest gets "
            f"{capacity / policy.capacity:.0%} of its capacity"
        )
    assignment = renumber(packed, before, state)
    team = frozenset(assignment.values())
    spare = spares(state, team)
    while len(team) < min(policy.min_consumers, limit):
        team |= {next(spare)}
    return Plan(assignment, before, weight, team, capacity, tuple(warnings))


def previous(state: State) -> dict[TopicPartition, Consumer]:
    """Give who has each partition: who holds it, else who is about to get it."""
    existing = state.partitions or {}
    holder = sentinel.holders(state)
    coming = {p: n for p, n in state.target.items() if n in state.team}
    return {p: n for p, n in {**coming, **holder}.items() if p in existing}


def must_keep(state: State, policy: Policy, packed: Assignment, before: Assignment) -> bool:
    """Say whether a packing scales down on measurements that are stale or missing (rule 13)."""
    fewer = len(set(packed.values())) < len(set(before.values()))
    return fewer and sentinel.doubts(state, policy) != ""


def most(state: State, policy: Policy) -> tuple[int, str]:
    """Give how many consumers there can be now, and why not more."""
    hopeless = state.failures >= HOPELESS and state.at < state.no_creation_until
    if hopeless and len(state.members) < policy.max_consumers:
        return len(state.members), "no more can be started now"
    return policy.max_consumers, f"max_consumers is {policy.max_consumers}"


def keep(
    weight: Mapping[TopicPartition, float], capacity: float, before: Assignment
) -> dict[TopicPartition, Consumer]:
    """Leave everything where it is, and put the rest where there is most room."""
    loads = _Loads(sentinel.loads(weight, before))
    assignment = dict(before)
    for p in sorted((p for p in weight if p not in before), key=lambda p: -weight[p]):
        if not loads.load or loads.load[loads.least()] + weight[p] > capacity:
            loads.load[max(loads.load, default=0) + 1] = 0.0
        assignment[p] = loads.put(loads.least(), weight[p])
    return assignment


def spread(
    weight: Mapping[TopicPartition, float],
    limit: int,
    before: Assignment,
    alive: frozenset[Consumer],
) -> dict[TopicPartition, Consumer]:
    """Spread partitions evenly over `limit` consumers, moving what stands out only."""
    if limit < 1:
        return {}
    load = sentinel.loads(weight, before)
    mean = sum(weight.values()) / limit
    complete = before.keys() >= weight.keys() and len(load) == limit and load.keys() <= alive
    if complete and max(load.values()) <= SETTLED * max(mean, *weight.values()):
        return {p: before[p] for p in weight}
    chosen = sorted(load.keys() | alive, key=lambda n: (n not in alive, -load.get(n, 0.0), n))
    chosen = chosen[:limit]
    while len(chosen) < limit:
        chosen.append(max(chosen, default=0) + 1)
    loads = _Loads(dict.fromkeys(chosen, 0.0))
    room = EVEN * mean
    assignment: dict[TopicPartition, Consumer] = {}
    order = sorted(weight, key=lambda p: -weight[p])
    for p in order:
        n = before.get(p)
        if n in loads.load and n is not None and loads.load[n] + weight[p] <= room:
            assignment[p] = loads.put(n, weight[p])
    for p in order:
        if p not in assignment:
            assignment[p] = loads.put(loads.least(), weight[p])
    return assignment


def renumber(
    packed: Assignment, before: Assignment, state: State
) -> dict[TopicPartition, Consumer]:
    """Give consumers that the packing opened anew numbers that can be used.

    A number is used again only when what was started under it is gone.
    """
    known = set(before.values())
    kept = {n for n in packed.values() if n in known}
    spare = spares(state, frozenset(kept))
    name = {n: n for n in kept}
    for n in sorted(set(packed.values()) - kept):
        name[n] = next(spare)
    return {p: name[n] for p, n in packed.items()}


def spares(state: State, used: frozenset[Consumer]) -> Iterator[Consumer]:
    """Give numbers for consumers: who is there and idle, who is about to be, who can be started."""
    mine = [*sorted(state.members), *sorted(state.team - state.members.keys())]
    yield from (n for n in mine if n not in used)
    taken = blocked(state) | used | set(mine)
    n = 0
    while True:
        n += 1
        if n not in taken:
            yield n


def blocked(state: State) -> frozenset[Consumer]:
    """Give the numbers under which something else still runs (rule 12)."""
    return frozenset(
        n
        for n, instance in (state.instances or {}).items()
        if n not in state.team
        and (n not in state.members or not facts.is_of(state.members[n], instance))
    )


def _oversize(weight: Mapping[TopicPartition, float], policy: Policy) -> list[str]:
    over = [p for p, w in weight.items() if w > policy.capacity]
    if not over:
        return []
    worst = max(over, key=lambda p: weight[p])
    return [
        f"{len(over)} partitions are faster than a consumer can be given, {worst} with "
        f"{weight[worst]:.0f} B/s of {policy.capacity:.0f}"
    ]
