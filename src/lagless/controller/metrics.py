"""The controller's metrics."""

from collections.abc import Callable, Sequence
from math import isfinite

from lagless.controller import weights
from lagless.controller.state import Policy, State
from lagless.history import History
from lagless.messages import AnyDecision, Timed
from lagless.metrics import Distribution, Metric, Value
from lagless.model import Phase
from lagless.packing import scores

MODES = ("running", "paused", "draining", "drained")
_BOUNDS = (0.01, 0.03, 0.1, 0.3, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120)


class Record:
    """controller.service.Observer: keeps the newest state and the history of its decisions."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.state: State | None = None
        self.history = History()
        self.dt2 = Distribution(_BOUNDS)
        self.dt3 = Distribution(_BOUNDS)
        self.dt4 = Distribution(_BOUNDS)

    def saw(self, state: State, decisions: Sequence[AnyDecision]) -> None:
        """Keep the state after a turn, and what was decided in it."""
        self.state = state
        for decision in decisions:
            self.history.take(decision)
            if isinstance(decision, Timed):
                for name, seconds in decision.details.model_dump().items():  # dt3, dt4
                    getattr(self, name).observe(seconds)

    def requested(self, seconds: float) -> None:
        """Count Δt2."""
        self.dt2.observe(seconds)


def _gauge(
    name: str, help: str, value: Callable[[State, Policy], Value], *labels: str
) -> Metric[Record]:
    """Return a metric of the state; there is none before the first turn."""

    def read(record: Record, now: float) -> Value:
        return None if record.state is None else value(record.state, record.policy)

    return Metric(f"lagless_{name}", help, read, labels=labels)


def _last(name: str, help: str) -> Metric[Record]:
    """Return a metric of the last reassignment; 0 if there was none, None before the first turn."""

    def read(record: Record, now: float) -> float | None:
        reassignments = record.history.reassignments
        value: float | None = getattr(reassignments[-1], name) if reassignments else 0.0
        return None if record.state is None else value or 0.0

    return Metric(f"lagless_{name}", help, read)


def _count(name: str, help: str, counted: str) -> Metric[Record]:
    """Return a counter of the history."""
    return Metric(
        f"lagless_{name}", help, lambda record, now: getattr(record.history, counted), "counter"
    )


def _time(name: str, help: str) -> Metric[Record]:
    """Return the distribution of a part of the response time."""
    return Metric(
        f"lagless_{name}_seconds", help, lambda record, now: getattr(record, name), "histogram"
    )


def _loads(state: State, policy: Policy) -> dict[tuple[str, ...], float]:
    load = scores.loads(weights.weights(state, policy), state.holders())
    return {(str(n),): load.get(n, 0.0) for n in sorted(state.members)}


def _spares(state: State, policy: Policy) -> int:
    members = (state.members[n] for n in state.spares(policy) if n in state.members)
    return sum(member.ready and not member.held for member in members)


METRICS: tuple[Metric[Record], ...] = (
    _gauge(
        "consumers",
        "Consumers that the controller hears from, without spares.",
        lambda state, policy: len(state.members.keys() - state.spares(policy)),
    ),
    _gauge(
        "consumers_wanted",
        "Consumers that should be running, without spares.",
        lambda state, policy: len(state.team - state.spares(policy)),
    ),
    _gauge("spares", "Spares that are ready and hold nothing.", _spares),
    _gauge(
        "spares_wanted", "Spares that should be kept.", lambda _, policy: policy.spare_consumers
    ),
    _gauge("consumer_load_bytes_per_second", "Load of a consumer.", _loads, "consumer"),
    _gauge(
        "consumer_capacity_bytes_per_second",
        "Capacity C of a consumer: the load that it may be assigned.",
        lambda state, policy: {(str(n),): policy.capacity for n in sorted(state.members)},
        "consumer",
    ),
    _last("rscore", "Rscore of the last reassignment."),
    _last(
        "weight_moved", "Weight that the last reassignment moved, backlogs included, divided by C."
    ),
    _gauge(
        "phase",
        "1 for the phase that the controller is in.",
        lambda state, _: {(p.value,): float(p is state.phase) for p in Phase},
        "phase",
    ),
    _gauge(
        "mode",
        "1 for the mode that operators asked for last: running, paused, draining or drained.",
        lambda state, _: {(m,): float(m == state.mode.name) for m in MODES},
        "mode",
    ),
    _gauge(
        "generation", "Generation of the current assignment.", lambda state, _: state.generation
    ),
    _gauge(
        "unread_partitions",
        "Partitions without a consumer.",
        lambda state, _: len((state.partitions or {}).keys() - state.holders().keys()),
    ),
    _gauge(
        "seconds_since_measurement",
        "Seconds since the last measurement; -1 if there was none.",
        lambda state, _: state.at - state.measured_at if isfinite(state.measured_at) else -1.0,
    ),
    _count("reassignments", "Reassignments so far.", "reassigned"),
    _count("migrations", "Partitions moved between consumers so far.", "migrated"),
    _count("lost", "Consumers lost so far.", "lost"),
    _count(
        "contradictions",
        "Returns to Synchronize because a consumer contradicted the controller.",
        "contradicted",
    ),
    _time("dt2", "Seconds from a measurement to the request for the consumers that it calls for."),
    _time("dt3", "Seconds from the request for a consumer until it is ready."),
    _time("dt4", "Seconds from the first order to the last receipt."),
)
