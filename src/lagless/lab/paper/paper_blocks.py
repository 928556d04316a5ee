"""What other pages show of the paper's experiments, as Markdown."""

from collections.abc import Sequence
from statistics import median

from lagless.lab import report
from lagless.lab.paper.claims import PUBLISHED, Values
from lagless.lab.paper.experiments import Plan, Wait

SHOWN = {
    "bfd": "bfd, the fewest consumers",
    "nfd": "nfd, which moves least of the existing ones",
    "mwf": "mwf, the paper's choice",
    "sticky": "sticky, slack 0.05",
    "ezzeddine": "ezzeddine, First Fit Decreasing that numbers consumers from 1",
}


def results(plan: Plan, cbs: Values, rscore: Values, waited: Sequence[Wait]) -> str:
    """Return the results of `evaluation.md`: a table, and what the latency experiment gives."""
    deltas = [delta for delta in PUBLISHED if delta in cbs]
    head = [f"{key} at δ = {d:g}" for d in deltas for key in ("CBS", "E(Rscore)")]
    rows = [
        (
            words,
            *(
                text
                for d in deltas
                for text in (f"{100 * cbs[d][name]:.1f} %", f"{rscore[d][name]:.1f}")
            ),
        )
        for name, words in SHOWN.items()
        if all(name in cbs[d] for d in deltas)
    ]
    table = report.markdown(report.Table("", ("", *head), rows))
    many = "One stream" if plan.seeds == 1 else f"{plan.seeds} streams"
    return (
        f"{many} of each kind, {plan.partitions} partitions, {plan.measurements} measurements,"
        " random start. CBS is how many more consumers an algorithm uses than the fewest;"
        " E(Rscore) is the speed that moves per iteration, divided by the capacity.\n\n"
        f"{table}\n\n{_latency(waited)}\n"
    )


def _latency(waited: Sequence[Wait]) -> str:
    streams: dict[int, dict[str, Wait]] = {}
    for wait in waited:
        streams.setdefault(wait.seed, {})[wait.algorithm] = wait
    same = [s[f"kd_{round(s['mwf'].consumers)}"].p90 for s in streams.values()]
    counts = [s["mwf"].consumers for s in streams.values()]
    return (
        f"In the latency experiment (32 partitions, 100 measurements, δ = 5, {len(streams)}"
        f" streams) MWF needs {median(counts):.1f} consumers in the median stream"
        f" ({min(counts):.1f} to {max(counts):.1f}); the paper's stream needed 15. Kafka's"
        f" assignment with as many consumers has a 90th percentile of {median(same):.0f} s in the"
        f" median stream. MWF's is"
        f" {median(s['mwf'].p90 for s in streams.values()):.1f} s in every stream: the model makes"
        " it 0.9 of the 5 s that a move takes, whatever the stream. What tells algorithms that"
        " only move apart is how many bytes are late. How many consumers kd_n needs to beat MWF"
        " is a matter of chance, because it combines partitions regardless of their speeds."
    )
