"""The metrics of a controller whose members follow plans; what is not known is left out."""

from collections.abc import Callable, Sequence
from math import isfinite

from lagless.controller import weights
from lagless.controller.group import placement
from lagless.controller.group.group_state import GroupPolicy, GroupState
from lagless.history import History
from lagless.messages import AnyDecision, Timed
from lagless.metrics import Distribution, Metric, Value
from lagless.model import Phase
from lagless.packing import scores

_BOUNDS = (0.3, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120)


class GroupRecord:
    """controller.group.service.GroupObserver: keeps the newest state and its decisions."""

    def __init__(self, policy: GroupPolicy) -> None:
        self.policy = policy
        self.state: GroupState | None = None
        self.history = History()
        self.dt4 = Distribution(_BOUNDS)

    def saw(self, state: GroupState, decisions: Sequence[AnyDecision]) -> None:
        """Keep the state after a turn, and what was decided in it."""
        self.state = state
        for decision in decisions:
            self.history.take(decision)
            if isinstance(decision, Timed) and decision.details.dt4 is not None:
                self.dt4.observe(decision.details.dt4)


def _gauge(
    name: str, help: str, value: Callable[[GroupState, GroupPolicy], Value], *labels: str
) -> Metric[GroupRecord]:
    """Return a metric of the state; there is none before the group was looked at."""

    def read(record: GroupRecord, now: float) -> Value:
        state = record.state
        return None if state is None or state.members is None else value(state, record.policy)

    return Metric(f"lagless_{name}", help, read, labels=labels)


def _count(name: str, help: str, counted: str) -> Metric[GroupRecord]:
    return Metric(
        f"lagless_{name}", help, lambda record, now: getattr(record.history, counted), "counter"
    )


def _loads(state: GroupState, policy: GroupPolicy) -> Value:
    seen = placement.view(state, policy)
    load = scores.loads(weights.weights(seen, policy.packing), seen.holders())
    return {(member.name,): load.get(n, 0.0) for n, member in state.present.items()}


def _last_rscore(record: GroupRecord, now: float) -> float | None:
    last = record.history.reassignments[-1:]
    return last[0].rscore if last else None


METRICS: tuple[Metric[GroupRecord], ...] = (
    _gauge("consumers", "Members of the group.", lambda state, _: len(state.present)),
    _gauge("consumers_wanted", "Members that there should be.", lambda state, _: state.wanted),
    _gauge(
        "consumer_load_bytes_per_second",
        "Load of a member: the speeds of what it holds, and its backlog over `catch_up`.",
        _loads,
        "consumer",
    ),
    _gauge(
        "consumer_capacity_bytes_per_second",
        "What a member may be given, set or learned.",
        placement.capacity,
    ),
    _gauge(
        "member_read_bytes_per_second",
        "What a member read lately, by the offsets that it committed.",
        lambda state, _: {
            (name,): speed
            for name, speed in sorted(state.learning.lately.items())
            if name in (state.members or {})
        },
        "consumer",
    ),
    _gauge(
        "member_lag_bytes",
        "Bytes behind the committed offsets of what a member holds.",
        lambda state, _: {
            (member.name,): sum(known)
            for member in state.present.values()
            if (known := [b for p, b in state.lag().items() if p in member.held])
        },
        "consumer",
    ),
    _gauge(
        "plan_followed",
        "1 if the members hold what was planned, 0 if not.",
        lambda state, _: None if state.follows is None else float(state.follows),
    ),
    Metric("lagless_rscore", "Rscore of the last reassignment.", _last_rscore),
    _gauge(
        "phase",
        "1 for the phase that the controller is in.",
        lambda state, _: {(p.value,): float(p is state.phase) for p in Phase},
        "phase",
    ),
    _gauge("generation", "The generation of the plan.", lambda state, _: state.generation),
    _gauge(
        "unread_partitions",
        "Partitions that no member holds.",
        lambda state, _: len((state.partitions or {}).keys() - state.holders().keys()),
    ),
    _gauge(
        "seconds_since_measurement",
        "Seconds since the last measurement; -1 if there was none.",
        lambda state, _: state.at - state.measured_at if isfinite(state.measured_at) else -1.0,
    ),
    _count("reassignments", "Plans that moved or placed partitions so far.", "reassigned"),
    _count("migrations", "Partitions moved between members so far.", "migrated"),
    Metric(
        "lagless_dt4_seconds",
        "From a plan to the members holding what it says.",
        lambda record, now: record.dt4,
        "histogram",
    ),
)
