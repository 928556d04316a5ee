"""`docs/paper.md`: the paper's equations, figures and claims, and where each of them is here."""

from collections.abc import Sequence

from lagless.evaluation import report
from lagless.evaluation.claims import Claim
from lagless.evaluation.plans import Plan
from lagless.evaluation.waits import MODEL, PARTITIONS, SETTING

EQUATIONS = (
    ("Bin packing model", "`Packer` in packing/__init__.py; `exact` solves it, packing/exact.py"),
    ("Δ(k), a partition's column", "`moved` and `migrations` in packing/scores.py"),
    ("Rscore", "`rscore` in packing/scores.py, `score` in simulation/replay.py"),
    ("Algorithm 1 and the table of its four versions", "packing/modified.py"),
    ("f(k), g(j, k), h(j, k)", "`unused` in packing/group.py"),
    ("Stream: starts, φ(δ), clamp at 0", "`first` and `speeds` in simulation/streams.py"),
    ("P_R, P_F", "`iterate` in simulation/latency.py"),
    ("W_F, W_R, R_F, R_R", "`iterate` and `_rates` in simulation/latency.py"),
    ("m, b, T and L of both queues", "`slope` and `_end` in simulation/latency.py"),
    ("C = 5/6 · C̄", "`capacity` in model.py"),
    ("CBS", "`cbs` in packing/scores.py"),
    ("E(Rscore)", "`expected_rscore` in packing/scores.py, `score` in evaluation/tables.py"),
    ("Pareto front", "`pareto_front` in packing/scores.py"),
)
FIGURES = (
    ("CBS of all algorithms", "cbs"),
    ("CBS of the modified and BFD", "cbs-modified"),
    ("Rscore by δ", "rscore"),
    ("Pareto fronts", "pareto-5, pareto-25"),
    ("Latency histogram of MWF and kd_27", "latency-histogram"),
    ("Average operational cost", "cost"),
    ("Samples with latency above 0", "late-bytes"),
    ("Latency box plot", "latency-boxes"),
    ("not in the paper: the same over many streams", "streams-p90, streams-late"),
)


def write(plan: Plan, claims: Sequence[Claim]) -> str:
    """Write the page from what was measured."""
    equations = report.Table("", ("paper", "code"), EQUATIONS)
    figures = report.Table("", ("paper", "file in `figures/`"), FIGURES)
    checked = report.Table(
        "",
        ("where", "the paper says", "measured here", "verdict", "code"),
        [(c.place, c.says, c.measured, c.verdict, c.code) for c in claims],
    )
    deltas = ", ".join(f"{delta:g}" for delta in plan.deltas)
    rates = f"C = {SETTING.capacity:g}, C̄ = {MODEL.max_rate:g}"
    return f"""# The paper, line by line

`lagless evaluate paper --out DIR` writes this page (`DIR/paper.md`) with what it measured, so the
numbers are those of the code. Paths are under `src/lagless/`.

The grid: {plan.partitions} partitions, {plan.measurements} measurements,
δ of {deltas} %, starts {", ".join(plan.starts)}, {plan.seeds} streams
of each kind; the figures and claims take the random start, as in the paper. The latency experiment:
{PARTITIONS} partitions, {SETTING.measurements} measurements, δ = 5, {rates},
{plan.latency_streams} streams; of several streams the median is given, with the least and the most
in brackets. The paper has one stream of each kind. Its numbers for kd_n depend on which partitions
the stream happens to pair, as the brackets show.

"holds" means at every δ above 0, or in every stream; "in part" at some; "see numbers" marks what
the paper does not claim.

## Claims

{report.markdown(checked)}

Two things follow from what the paper does not state. The online algorithms get the partitions in
an order that is shuffled anew at each iteration, as in the published tables; with the list's own
order their Rscore is smaller, and the comparison with MWF is another one. And speeds stay below C,
as in the published tables; by the paper's formula they would grow past it.

The claims on the running system (the consumer's rate, Δt1 to Δt4) are measured by
`lagless evaluate live`.

## Equations and algorithms

{report.markdown(equations)}

## Figures

{report.markdown(figures)}
"""
