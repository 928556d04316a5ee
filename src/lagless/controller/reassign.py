"""Reassign: from what is known to an assignment, by one packing algorithm and the limits set."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from lagless.controller import calm, decisions, management, modes, rest, sentinel, weights
from lagless.controller.events import Instruction, Turn
from lagless.controller.state import Policy, State
from lagless.model import Assignment, Cause, Consumer, TopicPartition
from lagless.packing import scores

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
    """The load up to which consumers were packed: more than C if there are too few of them."""
    rscore: float | None = 0
    """The paper's: the speeds of the partitions that move, over C; None if C is not known."""
    weight_moved: float | None = 0
    """The weights of the partitions that move, their backlogs included, over C."""
    warnings: tuple[str, ...] = ()
    needed: int = 0
    """Consumers that the algorithm asked for."""

    @property
    def migrations(self) -> dict[TopicPartition, tuple[Consumer, Consumer]]:
        """Return who moves: the consumer before and the one after."""
        moved = scores.migrations(self.previous, self.assignment)
        return {p: (self.previous[p], self.assignment[p]) for p in moved}


def turn(state: State, policy: Policy) -> Turn:
    """Make a new assignment, under a new generation unless it is the old one (rule 3).

    The old one is ordered again, too, where a consumer refused what it was given.
    """
    new = plan(state, policy)
    unchanged = (
        new.assignment == state.target
        and new.team == state.team
        and management.is_settled(state)
        and not any(sentinel.is_refused(state, p) for p in new.assignment)
    )
    out: list[Instruction] = []
    if new.warnings and new.warnings != state.warnings:
        out += [decisions.warned(state, policy, warning) for warning in new.warnings]
    state = replace(
        state,
        lost=(),
        warnings=new.warnings,
        reassigned_at=state.at,
        packed_capacity=new.capacity,
        needs=calm.needs(state, policy, new.needed),
    )
    if unchanged:
        return Turn(state, out, Cause.UNCHANGED)
    state = replace(
        state,
        generation=state.generation + 1,
        target=new.assignment,
        team=new.team,
        backlog={p: b for p, b in state.backlog.items() if p not in new.previous},
        first_order_at=None,
    )
    out.append(decisions.assigned(state, policy, new, state.spares(policy)))
    return Turn(state, out, Cause.ASSIGNED)


def plan(state: State, policy: Policy) -> Plan:
    """Pack the partitions that can be placed."""
    before = previous(state)
    weight = {
        p: w
        for p, w in weights.weights(state, policy).items()
        if (p in before and modes.may_read(state, p)) or sentinel.may_place(state, policy, p)
    }
    if rest.is_at_rest(state, policy):  # rule 18
        weight = {}
    before = {p: n for p, n in before.items() if p in weight}
    warnings = _oversize(weight, policy)
    packed = calm.packed(weight, before, state, policy) if weight else {}
    asked = len(set(packed.values()))
    limit, why = most(state, policy)
    calmed = calm.calmed(packed, weight, before, state, policy)
    if max(asked, len(set(calmed.values()))) <= limit:
        packed = calmed
    doubt = weights.doubts(state, policy)
    if doubt and len(set(packed.values())) < len(set(before.values())):  # rule 13
        packed = keep(weight, policy.capacity, before)
        warnings.append(f"not scaling down: {doubt}")
    capacity = policy.capacity
    needed = len(set(packed.values()))
    if needed > limit:
        packed = spread(weight, limit, before, frozenset(state.members))
        load = scores.loads(weight, packed)
        capacity = max(capacity, *load.values(), 0.0) if load else capacity
        warnings.append(
            f"{needed} consumers are needed and {why}: the fullest gets "
            f"{capacity / policy.capacity:.0%} of its capacity"
        )
    assignment = renumber(packed, before, state, policy)
    team = frozenset(assignment.values())
    if state.mode.operation != "resume":  # rule 16
        team |= state.team
    free = numbers(state, policy, team)
    needed = max(len(set(assignment.values())), min(policy.min_consumers, limit))
    while len(team) < needed + spares(policy, limit) and state.mode.operation != "pause":
        team |= {next(free)}
    rscore = scores.rscore(weights.speeds(state), policy.capacity, before, assignment)
    moved = scores.rscore(weight, policy.capacity, before, assignment)
    notes = tuple(warnings)
    return Plan(assignment, before, weight, team, capacity, rscore, moved, notes, asked)


def previous(state: State) -> dict[TopicPartition, Consumer]:
    """Return who has each partition: who holds it, else who is about to get it."""
    existing = state.partitions or {}
    return {p: n for p, n in state.readers().items() if p in existing}


def most(state: State, policy: Policy) -> tuple[int, str]:
    """Return how many consumers there can be now, and why not more."""
    hopeless = state.failures >= HOPELESS and state.at < state.no_creation_until
    if hopeless and len(state.members) < policy.max_consumers:
        return len(state.members), "no more can be started now"
    return policy.max_consumers, f"max_consumers is {policy.max_consumers}"


def keep(
    weight: Mapping[TopicPartition, float], capacity: float, before: Assignment
) -> dict[TopicPartition, Consumer]:
    """Leave everything where it is, and put the rest where there is most room."""
    load = scores.loads(weight, before)
    assignment = dict(before)
    for p in sorted((p for p in weight if p not in before), key=lambda p: -weight[p]):
        if not load or load[_least(load)] + weight[p] > capacity:
            load[max(load, default=0) + 1] = 0.0
        assignment[p] = n = _least(load)
        load[n] += weight[p]
    return assignment


def _least(load: Mapping[Consumer, float]) -> Consumer:
    return min(load, key=lambda n: (load[n], n))


def spread(
    weight: Mapping[TopicPartition, float],
    limit: int,
    before: Assignment,
    alive: frozenset[Consumer],
) -> dict[TopicPartition, Consumer]:
    """Spread partitions evenly over `limit` consumers, moving what stands out only."""
    if limit < 1:
        return {}
    load = scores.loads(weight, before)
    mean = sum(weight.values()) / limit
    complete = before.keys() >= weight.keys() and len(load) == limit and load.keys() <= alive
    if complete and max(load.values()) <= SETTLED * max(mean, *weight.values()):
        return {p: before[p] for p in weight}
    known = sorted(load.keys() | alive, key=lambda n: (n not in alive, -load.get(n, 0.0), n))
    chosen = known[:limit]
    while len(chosen) < limit:
        chosen.append(max(chosen, default=0) + 1)
    load = dict.fromkeys(chosen, 0.0)
    room = EVEN * mean
    assignment: dict[TopicPartition, Consumer] = {}
    order = sorted(weight, key=lambda p: -weight[p])
    for p in order:
        if p in before and before[p] in load and load[before[p]] + weight[p] <= room:
            assignment[p] = before[p]
            load[before[p]] += weight[p]
    for p in order:
        if p not in assignment:
            assignment[p] = n = _least(load)
            load[n] += weight[p]
    return assignment


def spares(policy: Policy, limit: int) -> int:
    """Return how many consumers without work to keep: none while no more can be started (rule 17).

    They are not within the limit: at the limit a lost consumer is still replaced at once.
    """
    return policy.spare_consumers if limit >= policy.max_consumers else 0


def renumber(
    packed: Assignment, before: Assignment, state: State, policy: Policy
) -> dict[TopicPartition, Consumer]:
    """Rename the consumers that the packing opened to numbers that are free.

    A number is used again only when what was started under it is gone.
    """
    opened = set(packed.values())
    kept = opened & set(before.values())
    free = numbers(state, policy, frozenset(kept))
    name = {n: n if n in kept else next(free) for n in sorted(opened)}
    return {p: name[n] for p, n in packed.items()}


def numbers(state: State, policy: Policy, used: frozenset[Consumer]) -> Iterator[Consumer]:
    """Yield numbers for consumers: idle ones, those about to start, then free ones (rule 17)."""
    idle = sorted(state.members)
    if policy.spare_consumers:
        idle.sort(key=lambda n: not state.members[n].ready)
    mine = [*idle, *sorted(state.team - state.members.keys())]
    yield from (n for n in mine if n not in used)
    taken = blocked(state) | used | set(mine)
    yield from (n for n in count(1) if n not in taken)


def blocked(state: State) -> frozenset[Consumer]:
    """Return the numbers under which something else still runs (rule 12)."""
    return frozenset(
        n
        for n, instance in (state.instances or {}).items()
        if n not in state.team and (n not in state.members or not state.members[n].is_of(instance))
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
