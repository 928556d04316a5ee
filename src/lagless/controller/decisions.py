"""Orders and decisions as messages."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lagless import messages
from lagless.controller.state import Policy, State
from lagless.messages import AnyDecision, Decision, Order
from lagless.model import Cause, Consumer, Phase, TopicPartition
from lagless.packing import scores

if TYPE_CHECKING:
    from lagless.controller.reassign import Plan

D = TypeVar("D", bound=Decision)


class Moment(Protocol):
    """The fields of every decision: the state in which it was made."""

    @property
    def at(self) -> float:
        """Return when."""

    @property
    def phase(self) -> Phase:
        """Return in which phase."""

    @property
    def generation(self) -> int:
        """Return under which generation."""


def order(
    state: State,
    policy: Policy,
    kind: messages.OrderKind,
    consumer: Consumer,
    incarnation: str,
    partitions: Iterable[TopicPartition] = (),
) -> Order:
    """Return an order under the state's generation."""
    return Order(
        group=policy.group,
        kind=kind,
        consumer=consumer,
        incarnation=incarnation,
        generation=state.generation,
        partitions=tuple((p.topic, p.partition) for p in partitions),
        at=state.at,
    )


def changed(state: Moment, policy: Policy, cause: Cause, reason: str) -> AnyDecision:
    """Say that the controller is in another phase now."""
    reason = reason or cause.value
    return say(messages.PhaseChanged, state, policy, reason, details={"cause": cause})


def assigned(
    state: Moment, policy: Policy, plan: "Plan", spares: Iterable[Consumer] = ()
) -> AnyDecision:
    """Say who reads what from now on, and what the change costs."""
    moved, before, after = plan.migrations, plan.previous, plan.assignment
    arrivals = len(after) - sum(p in before for p in after)
    details = messages.AssignmentDetails(
        assignment=messages.nest(after),
        migrations=tuple((p.topic, p.partition, *pair) for p, pair in moved.items()),
        rscore=plan.rscore,
        weight_moved=plan.weight_moved,
        consumers_before=len(set(before.values())),
        consumers=len(set(after.values())),
        load={n: round(x, 1) for n, x in scores.loads(plan.weights, after).items()},
        spares=tuple(sorted(spares)),
    )
    cost = "" if plan.rscore is None else f" (Rscore {plan.rscore:.2f})"
    reason = (
        f"{len(after)} partitions on {details.consumers} consumers, "
        f"{len(moved)} move{cost}, {arrivals} arrive"
    )
    if details.spares:
        reason += f", {len(details.spares)} spare"
    return say(messages.Assigned, state, policy, reason, details=details)


def lost(state: State, policy: Policy, reason: str) -> AnyDecision:
    """Say that a consumer is lost or did not start."""
    return say(messages.Lost, state, policy, reason)


def created(state: State, policy: Policy, consumers: Sequence[Consumer]) -> AnyDecision:
    """Say which consumers are asked for."""
    names = ", ".join(str(n) for n in consumers)
    what = f"consumer {names} is" if len(consumers) == 1 else f"consumers {names} are"
    details = {"consumers": tuple(consumers)}
    return say(messages.Created, state, policy, f"{what} missing", details=details)


def deleted(state: State, policy: Policy, consumer: Consumer) -> AnyDecision:
    """Say that a consumer is ended."""
    reason = f"consumer {consumer} has no work"
    return say(messages.Deleted, state, policy, reason, consumer=consumer)


def warned(
    state: Moment, policy: Policy, reason: str, consumer: Consumer | None = None
) -> AnyDecision:
    """Report what a person should look at."""
    return say(messages.Warned, state, policy, reason, consumer=consumer)


def operated(state: State, policy: Policy) -> AnyDecision:
    """Say what operators asked for, or that a drain is done."""
    mode = state.mode
    details = {
        "operation": mode.operation,
        "state": mode.name,
        "who": mode.who,
        "asked_at": mode.at,
    }
    reason = f"{mode.name}: {mode.operation} asked for by {mode.who}"
    return say(messages.Operated, state, policy, reason, details=details)


def timed(
    state: Moment, policy: Policy, reason: str, consumer: Consumer | None = None, **took: float
) -> AnyDecision:
    """Say how long a consumer took until it was ready (`dt3`), or all orders together (`dt4`)."""
    return say(messages.Timed, state, policy, reason, details=took, consumer=consumer)


def say(kind: type[D], state: Moment, policy: Policy, reason: str, **more: Any) -> D:
    """Return a decision of this kind."""
    return kind(
        group=policy.group,
        reason=reason,
        at=state.at,
        phase=state.phase,
        generation=state.generation,
        **more,
    )
