"""The page on the paper, line by line, as Markdown."""

from collections.abc import Sequence

from lagless.lab import report
from lagless.lab.paper.claims import Claim
from lagless.lab.paper.experiments import MODEL, PARTITIONS, SETTING, Plan
from lagless.lab.paper.paper_panels import Panel

EQUATIONS = (
    ("Bin packing model", "`Packer` in packing/registry.py; `solve` in packing/exact.py"),
    ("Δ(k), a partition's column", "`moved` and `migrations` in packing/scores.py"),
    ("Rscore", "`rscore` and `tally` in packing/scores.py"),
    ("Any fit", "`any_fit` in packing/plain.py; its fast twin, packing/anyfit.py"),
    (
        "Algorithm 1 and the table of its four versions",
        "`modified` in packing/plain.py; its fast twin, packing/modified.py",
    ),
    ("f(k), g(j, k), h(j, k)", "`Group` in packing/plain.py"),
    ("Stream: starts, φ(δ), clamp at 0", "`first` and `speeds` in lab/model/streams.py"),
    ("P_R, P_F", "`iterate` in lab/model/latency.py"),
    ("W_F, W_R, R_F, R_R", "`iterate` and `rates` in lab/model/latency.py"),
    ("m, b, T and L of both queues", "`slope` and `end` in lab/model/latency.py"),
    ("C = 5/6 · C̄", "`capacity` in model.py"),
    ("CBS", "`cbs` in packing/scores.py"),
    ("E(Rscore)", "`expected_rscore` in packing/scores.py, `score` in lab/paper/experiments.py"),
    ("Pareto front", "`pareto_front` in packing/scores.py"),
)
TABLES = (
    ("Data required to compute the Rscore", "the arguments of `rscore` in packing/scores.py"),
    ("Modified implementations of the any fit algorithms", "`modified` in packing/plain.py"),
    ("Data to generate a stream", "the arguments of `speeds` in lab/model/streams.py"),
    (
        "Data to compute CBS and the expected Rscore",
        "the arguments of `cbs` and `expected_rscore` in packing/scores.py",
    ),
    (
        "Infrastructure used for experimentation: Kafka on AWS, the rest on GKE autopilot",
        "not repeated: one machine runs everything, see [Results](results.md#machine-and-versions)",
    ),
    (
        "Testing conditions to obtain consumer maximum throughput measure",
        "`CONDITIONS` in lab/live/capacity.py, with the paper's bytes, partitions and tables",
    ),
)
SYSTEM = (
    (
        "Monitor: sizes of all partitions from describeLogDirs, speed from the oldest and the"
        " newest size of the last 30 s",
        "`LogSizes` in adapters/kafka/log_sizes.py asks the leaders; `Window` in monitor/window.py"
        " also uses offsets, so that log retention does not look like a pause",
    ),
    (
        "The monitor writes to monitor.writeSpeed, the controller reads it",
        "`SpeedsOut` and `LatestSpeeds` in adapters/kafka/speeds.py",
    ),
    (
        "consumer.metadata: partition 0 towards the controller, partition N towards consumer N",
        "`ControllerMailbox` and `ConsumerMailbox` in adapters/kafka/mail.py",
    ),
    (
        "Consumer: gather BATCH_SIZE bytes or for WAIT_TIME_SECS, batch by topic, send each topic"
        " into its table, read the metadata queue, acknowledge",
        "`Cycle` in consumer/cycle.py, `batch_bytes` = 5 MB and `wait_seconds` = 1 s; beyond the"
        " paper the offsets are in the same commit as the records, and the next batch is written"
        " while the last one is committed",
    ),
    (
        "Controller: Sentinel, Reassign Algorithm, Group Management, Synchronize",
        "`step` in controller/machine.py, one file for each state beside it",
    ),
    (
        "Group Management creates missing consumers, orders stop before start, and deletes"
        " consumers without work",
        "`turn` in controller/management.py; partitions move side by side, so one slow consumer"
        " delays only its own",
    ),
    (
        "A Kubernetes deployment for each consumer, its number in the name",
        "`KubernetesProvisioner` in adapters/kubernetes/provisioner.py",
    ),
)
PICTURES = (
    (
        "Representation of data production and consumption domains",
        "domains",
        "Partitions differ in speed, and each has one reader. The paper's figure shows the same.",
    ),
    (
        "System's architecture",
        "architecture",
        "Three roles and the topics between them, as in the paper; new are the topics for the"
        " group's state and events, which a restarted controller reads.",
    ),
    (
        "Consumer insert cycle",
        "consumer-cycle",
        "The paper's four phases. Records and offsets go into one commit, so that a killed"
        " consumer loses and repeats nothing.",
    ),
    (
        "Controller state machine",
        "phases",
        "The paper's four states, drawn from the code's table of transitions.",
    ),
    (
        "System sequence of response events",
        "response",
        "Δt1 to Δt4, between the same events as in the paper.",
    ),
)
"""The paper's drawings: its title, the file that the docs draw, and what to see."""
LIVE = (
    (
        "Density of a consumer's throughput in the three testing conditions",
        "live-capacity",
        "Published is one mode for all three, around 2.3 MB/s; here each condition has its own.",
    ),
    ("Distribution of Δt2", "live-dt2", "Published are 1345 observations, consistently below 1 s."),
    (
        "Histogram of Δt3",
        "live-dt3",
        "Published are 273 observations: 88 % between 10 and 50 s, and the rest up to 500 s, where"
        " the cluster had to add a node. Here no image is pulled and no node is added.",
    ),
    (
        "Distribution of Δt4",
        "live-dt4",
        "Published are 1331 observations around 5 s, two cycles of 2.5 s. Cycles are shorter here.",
    ),
)
"""The panels of the running system."""
RATIOS = (
    ("FFD, BFD", "11/9", "≤ 11/9 · OPT + 6/9, and 11/9 is reached"),
    ("FF, BF", "between 17/10 and 2", "≤ 17/10 · OPT"),
    ("WF", "between 17/10 and 2", "≤ 2 · OPT"),
    ("NF", "2, by the class's bound", "≤ 2 · OPT, and 2 is approached"),
    ("NFD", "1.691", "≤ 2 · OPT"),
    ("WFD", "1.691", "≤ 2 · OPT"),
)
"""Algorithms, the paper's asymptotic ratio, and what tests/packing/test_exact.py holds."""
RATES = f"C = {SETTING.capacity:g}, C̄ = {MODEL.max_rate:g}"


def document(
    plan: Plan,
    claims: Sequence[Claim],
    shown: Sequence[Panel] = (),
    stamp: str = "",
    pictures: str = "figures",
) -> str:
    """Write the page from what was measured, with its figures from the folder `pictures`."""
    deltas = ", ".join(f"{delta:g}" for delta in plan.deltas)
    return f"""# The paper, line by line

{stamp or "`lagless evaluate paper --out DIR` writes this page with what it measured."}

The numbers are those of the code. Paths are under `src/lagless/`.

The grid: {plan.partitions} partitions, {plan.measurements} measurements,
δ of {deltas} %, starts {", ".join(plan.starts)}, {plan.seeds} streams
of each kind; the figures and claims take the random start, as in the paper. The latency experiment:
{PARTITIONS} partitions, {SETTING.measurements} measurements, δ = 5, {RATES},
{plan.latency_streams} streams; of several streams the median is given, with the least and the most
in brackets. The paper has one stream of each kind. Its numbers for kd_n depend on which partitions
the stream happens to pair, as the brackets show.

## Results

{_panels(shown, pictures)}

## Claims

"holds" means at every δ above 0, or in every stream; "in part" at some; "see numbers" marks what
the paper does not claim.

{_claims(claims)}

Three things follow from what the paper does not state. The online algorithms get the partitions in
a new random order at each iteration, as in the published tables; with the list's own
order their Rscore is smaller, and the comparison with MWF is another one. Speeds stay below C,
as in the published tables; by the paper's formula they would grow past it.

And the published numbers of Next Fit follow where its first consumer is the lowest number. By the
paper's text a consumer that is opened is h(j, k), the one that read the partition before, and the
text makes no exception for the first. That reading is the default here (`nf`, `nfd`), and with it
NFD moves less than published, so MWF saves less beside it. `nf:first=lowest` and
`nfd:first=lowest` open the lowest number first, before they look at any partition. With them both
headlines are those of the paper. Nothing else differs: MWF's own Rscore is the published one in
either reading.

## The running system

`lagless evaluate live` measures the paper's other four panels and its claims on the running system
(the consumer's rate, Δt1 to Δt4). [Results](results.md) has the numbers, their conditions and the
comparison.

{_live(pictures)}

## Section V: the autoscaler

{report.markdown(report.Table("", ("the paper", "here"), SYSTEM))}

{_drawings(pictures)}

## Tables

{report.markdown(report.Table("", ("the paper", "here"), TABLES))}

## Equations and algorithms

{report.markdown(report.Table("", ("the paper", "here"), EQUATIONS))}

## Ratios of the theory

The paper quotes how many more consumers than the optimum (OPT) an algorithm may need as OPT grows.
`tests/packing/test_exact.py` compares the algorithms with the exact solver, on random lists and on
the known worst ones.

{report.markdown(report.Table("", ("algorithm", "the paper", "the tests hold"), RATIOS))}
"""


def _claims(found: Sequence[Claim]) -> str:
    """List the claims: a table would be too narrow for what was measured."""
    return "\n\n".join(
        f"**{claim.section}: {claim.says}**\n— *{claim.verdict}*\n\n"
        f":   {claim.measured}. Code: {claim.code}"
        for claim in found
    )


def _panels(shown: Sequence[Panel], pictures: str) -> str:
    return "\n\n".join(
        f"### {panel.paper[0].upper()}{panel.paper[1:]}\n\n"
        f"![{panel.paper}]({pictures}/{panel.name}.svg)\n\n{panel.see} {panel.beside}"
        for panel in shown
    )


def _live(pictures: str) -> str:
    return _listed(LIVE, pictures)


def _drawings(pictures: str) -> str:
    return _listed(PICTURES, pictures)


def _listed(shown: Sequence[tuple[str, str, str]], pictures: str) -> str:
    """Show figures that the docs have; elsewhere list what they show."""
    if pictures != "img":
        return "\n".join(f"- {title}: {see}" for title, _, see in shown)
    return "\n\n".join(
        f"![{title}](img/{name}.svg)\n\n*{title}.* {see}" for title, name, see in shown
    )
