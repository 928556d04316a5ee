"""What Prometheus is told about the controller."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Histogram

from lagless.adapters import metrics
from lagless.controller import sentinel
from lagless.controller.facts import Phase, Policy, State
from lagless.messages import Decision

_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120)


class ControllerMetrics:
    """controller.service.Observer: keeps the last state for scrapes, and counts what passes."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._state: State | None = None
        self._counts = dict.fromkeys(("reassignments", "migrations", "lost", "contradictions"), 0)
        self._rscore = 0.0
        self.registry: CollectorRegistry = metrics.registry(self._families)
        self._dt2, self._dt3, self._dt4 = (
            Histogram(name, words, buckets=_BUCKETS, registry=self.registry)
            for name, words in (
                ("lagless_dt2_seconds", "From a measurement to the creations it asks for."),
                ("lagless_dt3_seconds", "From a creation to the consumer being ready."),
                ("lagless_dt4_seconds", "From the first order to the last receipt."),
            )
        )

    def saw(self, state: State, decisions: Sequence[Decision]) -> None:
        """See the state after a turn, and what was decided in it."""
        self._state = state
        for decision in decisions:
            if decision.decision == "assignment":
                self._counts["reassignments"] += 1
                self._counts["migrations"] += len(decision.details["migrations"])
                self._rscore = decision.details["rscore"]
            elif decision.decision == "lost":
                self._counts["lost"] += 1
            elif decision.phase == Phase.SYNCHRONIZE.value and decision.decision == "phase":
                self._counts["contradictions"] += 1
            if "dt3" in decision.details:
                self._dt3.observe(decision.details["dt3"])
            if "dt4" in decision.details:
                self._dt4.observe(decision.details["dt4"])

    def requested(self, seconds: float) -> None:
        """See Δt2."""
        self._dt2.observe(seconds)

    def _families(self) -> Iterator[metrics.Family]:
        state = self._state
        if state is None:
            return
        holder = sentinel.holders(state)
        load = sentinel.loads(sentinel.weights(state, self._policy), holder)
        per: dict[tuple[str, ...], float] = {
            (str(n),): load.get(n, 0.0) for n in sorted(state.members)
        }
        gauge = metrics.Family
        yield gauge("lagless_consumers", "Consumers that are heard.", {(): len(state.members)})
        yield gauge("lagless_consumers_wanted", "Consumers that should be.", {(): len(state.team)})
        yield gauge(
            "lagless_consumer_load_bytes_per_second", "Load of a consumer.", per, ("consumer",)
        )
        yield gauge(
            "lagless_consumer_capacity_bytes_per_second",
            "What a consumer may be given.",
            dict.fromkeys(per, self._policy.capacity),
            ("consumer",),
        )
        yield gauge("lagless_rscore", "Rscore of the last reassignment.", {(): self._rscore})
        yield gauge(
            "lagless_phase",
            "1 for the phase that the controller is in.",
            {(phase.value,): float(phase is state.phase) for phase in Phase},
            ("phase",),
        )
        yield gauge("lagless_generation", "The generation.", {(): state.generation})
        unread = sum(p not in holder for p in state.partitions or ())
        yield gauge("lagless_unread_partitions", "Partitions without a consumer.", {(): unread})
        age = state.at - state.measured_at
        yield gauge(
            "lagless_seconds_since_measurement",
            "Seconds since the last measurement; -1 if there was none.",
            {(): age if age != float("inf") else -1.0},
        )
        for name, count in self._counts.items():
            words = f"How many {name} there were."
            yield metrics.Family(f"lagless_{name}", words, {(): count}, kind="counter")
