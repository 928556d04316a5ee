"""Orders and decisions as messages."""

from typing import Any

from lagless import messages
from lagless.controller import reassign, sentinel
from lagless.controller.facts import Policy, State
from lagless.messages import Decision, Order
from lagless.model import Consumer


def order(
    state: State,
    policy: Policy,
    kind: messages.OrderKind,
    consumer: Consumer,
    incarnation: str,
) -> Order:
    return Order(
        group=policy.group,
        kind=kind,
        consumer=consumer,
        incarnation=incarnation,
        generation=state.generation,
        at=state.at,
    )


def say(
    state: State,
    policy: Policy,
    decision: str,
    reason: str,
    consumer: Consumer | None = None,
    **details: Any,
) -> Decision:
    return Decision(
        group=policy.group,
        decision=decision,
        reason=reason,
        at=state.at,
        phase=state.phase.value,
        generation=state.generation,
        consumer=consumer,
        details=details,
    )


def summary(plan: reassign.Plan, policy: Policy) -> str:
    moved = plan.migrations
    rscore = sum(plan.weights[p] for p in moved) / policy.capacity
    arrivals = len(plan.assignment) - sum(p in plan.previous for p in plan.assignment)
    return (
        f"{len(plan.assignment)} partitions on {len(set(plan.assignment.values()))} consumers, "
        f"{len(moved)} move (Rscore {rscore:.2f}), {arrivals} arrive"
    )


def details(plan: reassign.Plan, policy: Policy) -> dict[str, Any]:
    assignment: dict[str, dict[int, int]] = {}
    for p, n in plan.assignment.items():
        assignment.setdefault(p.topic, {})[p.partition] = n
    moved = plan.migrations
    return {
        "assignment": assignment,
        "migrations": [[p.topic, p.partition, *pair] for p, pair in moved.items()],
        "rscore": sum(plan.weights[p] for p in moved) / policy.capacity,
        "consumers_before": len(set(plan.previous.values())),
        "consumers": len(set(plan.assignment.values())),
        "load": {n: round(x, 1) for n, x in sentinel.loads(plan.weights, plan.assignment).items()},
    }
