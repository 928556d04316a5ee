"""The paper's result panels: what to see in each, and how it compares with the published one.

The sentences are made from what was measured. What is published is quoted from the paper's text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lagless.lab.model.latency import Latency
from lagless.lab.paper.claims import PUBLISHED, PUBLISHED_NFD, Values, ranked
from lagless.lab.paper.experiments import EXISTING, MODIFIED, PAPER, Wait
from lagless.packing import scores

PUBLISHED_MWF = 15.0
"""MWF's consumers in the published latency experiment, on average."""
PUBLISHED_P90 = {"mwf": 4.52, "kd_15": 217.0, "kd_24": 2.70, "kd_30": 1.11}


@dataclass(frozen=True, slots=True)
class Panel:
    """A figure: the paper's name for it, its file, what to see, and the comparison."""

    paper: str
    name: str
    see: str
    beside: str


def on_packing(cbs: Values, rscore: Values) -> list[Panel]:
    """Say what the five panels on packing show; empty without the δ of the Pareto fronts."""
    if not {5.0, 25.0} <= cbs.keys():
        return []
    return [
        _cbs(cbs),
        _modified(cbs),
        _rscore(rscore),
        *(_front(cbs, rscore, d) for d in PUBLISHED),
    ]


def _cbs(cbs: Values) -> Panel:
    low, high = cbs[5.0], cbs[25.0]
    return Panel(
        "Cardinal Bin Score (CBS) for all implemented algorithms",
        "cbs",
        f"Next Fit lies far above the rest ({low['nf']:.1%} at δ = 5, {high['nf']:.1%} at 25), its"
        f" decreasing version below it ({low['nfd']:.1%}, {high['nfd']:.1%}), and the other"
        " decreasing ones at the bottom, with bfd at"
        f" {max(values['bfd'] for values in cbs.values()):.2%} everywhere.",
        "The paper's text has the same order: next fit the worst, then its decreasing version, and"
        " bfd consistently the best.",
    )


def _modified(cbs: Values) -> Panel:
    shown = "; ".join(
        f"δ = {d:g}: mwf {cbs[d]['mwf']:.1%} (published {more:.1%})"
        for d, (_, more) in PUBLISHED.items()
    )
    order = ", ".join(a for a in ranked(cbs[25.0]) if a in MODIFIED)
    return Panel(
        "CBS filtered to the modified and BFD",
        "cbs-modified",
        f"From the fewest consumers to the most at δ = 25: {order}. The higher δ, the closer mwf,"
        " mbf and mwfp come to bfd.",
        f"As published, mbfp is the best of the four. At {shown}.",
    )


def _rscore(rscore: Values) -> Panel:
    shown = "; ".join(
        f"δ = {d:g}: mwf {rscore[d]['mwf']:.1f}, nfd {rscore[d]['nfd']:.1f}"
        f" (published {PUBLISHED_NFD[d]:.1f})"
        for d in PUBLISHED
    )
    beside = _ezzeddine(rscore)
    return Panel(
        "Impact on Rscore for different deltas",
        "rscore",
        "The four modified algorithms and nfd lie below the other existing ones, and mwf lowest of"
        f" the twelve at every δ above 0.{beside}",
        f"At {shown}. The difference in nfd is Next Fit's first consumer (see"
        " the claims), and it is the whole difference between this page's saving and the"
        " published one.",
    )


def _ezzeddine(rscore: Values) -> str:
    if "ezzeddine" not in rscore[5.0]:
        return ""
    return (
        " Ezzeddine's First Fit Decreasing, which numbers consumers from 1 at each iteration, moves"
        f" {rscore[5.0]['ezzeddine']:.1f} at δ = 5 and {rscore[25.0]['ezzeddine']:.1f} at 25,"
        f" {rscore[5.0]['ezzeddine'] / rscore[5.0]['mwf']:.1f} and"
        f" {rscore[25.0]['ezzeddine'] / rscore[25.0]['mwf']:.1f} times what mwf moves."
    )


def _front(cbs: Values, rscore: Values, delta: float) -> Panel:
    front = scores.pareto_front({a: (cbs[delta][a], rscore[delta][a]) for a in PAPER})
    left = sorted((a for a in front if a in MODIFIED), key=lambda a: cbs[delta][a])
    other = sorted((a for a in front if a not in MODIFIED), key=lambda a: cbs[delta][a])
    saving, more = PUBLISHED[delta]
    rival = min(EXISTING, key=lambda a: rscore[delta][a])
    saved = 1 - rscore[delta]["mwf"] / rscore[delta][rival]
    return Panel(
        f"Pareto front for δ = {delta:g}",
        f"pareto-{delta:g}",
        f"No algorithm has both fewer consumers and less to move than one on the grey line:"
        f" {', '.join([*other, *left])}.",
        "Published are mwf, mbf and mbfp on the front and mwfp beside it"
        + (", as here" if "mwfp" not in front else "; here mwfp is on it too")
        + f". mwf moves {saved:.0%} less than {rival} for {cbs[delta]['mwf']:.1%} more consumers"
        f" than the fewest (published: {saving:.0%} for {more:.1%}).",
    )


def on_latency(shown: Mapping[str, Latency], waited: Sequence[Wait]) -> list[Panel]:
    """Say what the four panels on latency show, of one stream, and those over many streams."""
    if not {"mwf", "kd_15", "kd_24", "kd_27", "kd_30"} <= shown.keys():
        return []
    return [
        _histogram(shown),
        _cost(shown, waited),
        _samples(shown),
        _boxes(shown),
        *_streams(waited),
    ]


def _histogram(shown: Mapping[str, Latency]) -> Panel:
    mwf, kafka = shown["mwf"].late, shown["kd_27"].late
    return Panel(
        "Latency histogram for MWF and kd_27",
        "latency-histogram",
        f"mwf's late bytes spread evenly from 0 to {mwf.max:.0f} s, the time of a move, and none"
        f" waits longer; those of kd_27 wait up to {kafka.max:.0f} s.",
        "In the paper kd_27's go up to 40 s and MWF's to 5 s. How far kd_27's go depends on which"
        " five pairs of partitions share a consumer.",
    )


def _cost(shown: Mapping[str, Latency], waited: Sequence[Wait]) -> Panel:
    over = [wait.consumers for wait in waited if wait.algorithm == "mwf"]
    return Panel(
        "Average operational cost for all evaluated algorithms",
        "cost",
        f"kd_n has n consumers; mwf needs {shown['mwf'].consumers:.1f} on this stream, and"
        f" {median(over):.1f} in the median of {len(over)}, from {min(over):.1f} to"
        f" {max(over):.1f}.",
        f"The paper's stream needed {PUBLISHED_MWF:g}: it brought less than most of its kind."
        f" Its kd_n of the same size is kd_15; here it is kd_{round(shown['mwf'].consumers)}.",
    )


def _samples(shown: Mapping[str, Latency]) -> Panel:
    share = {name: one.late.total / one.bytes for name, one in shown.items()}
    better = [n for n in shown if n.startswith("kd_") and share[n] < share["mwf"]]
    return Panel(
        "Total samples with latency greater than 0 s",
        "late-bytes",
        f"{share['mwf']:.2%} of mwf's bytes are late, against {share['kd_15']:.0%} under kd_15 and"
        f" {share['kd_27']:.1%} under kd_27; fewer than mwf's are late under"
        f" {', '.join(better) or 'none of kd_n'}.",
        "In the paper only kd_24, kd_30, kd_31 and kd_32 have fewer than MWF.",
    )


def _boxes(shown: Mapping[str, Latency]) -> Panel:
    here = ", ".join(
        f"{name} {shown[name].late.quantile(0.9):.2f} s (published {value:.2f} s)"
        for name, value in PUBLISHED_P90.items()
    )
    return Panel(
        "Latency samples greater than 0 s, box plot per algorithm",
        "latency-boxes",
        f"90th percentiles: {here}. The boxes of kd_n do not shrink steadily with n.",
        "MWF's value agrees to 0.02 s, the sampling of the paper. Those of kd_n belong to one"
        " stream and one pairing, and another stream gives others, as the next figures show.",
    )


def _streams(waited: Sequence[Wait]) -> list[Panel]:
    by_name: dict[str, list[Wait]] = {}
    for wait in waited:
        by_name.setdefault(wait.algorithm, []).append(wait)
    p90 = {name: [wait.p90 for wait in waits] for name, waits in by_name.items()}
    late = {name: [wait.late_bytes / wait.bytes for wait in w] for name, w in by_name.items()}
    count = len(p90["mwf"])
    return [
        Panel(
            "not in the paper: p90 over many streams",
            "streams-p90",
            f"mwf's p90 is {min(p90['mwf']):.2f} to {max(p90['mwf']):.2f} s in all {count} streams,"
            f" while kd_15's is {min(p90['kd_15']):.0f} to {max(p90['kd_15']):.0f} s.",
            "That mwf's p90 is the same everywhere follows from the model and says nothing about"
            " the stream: only moved partitions are late, their latency falls in a straight line"
            " from the 5 s of a move to 0, and 90 % of such a line's bytes lie below 4.5 s.",
        ),
        Panel(
            "not in the paper: late bytes over many streams",
            "streams-late",
            f"mwf has {min(late['mwf']):.2%} to {max(late['mwf']):.2%} late bytes, kd_27"
            f" {min(late['kd_27']):.1%} to {max(late['kd_27']):.1%}.",
            "So the late bytes, and not the p90, are what distinguishes algorithms that only move.",
        ),
    ]


def summary(cbs: Values, rscore: Values, waited: Sequence[Wait]) -> list[str]:
    """Return what was found, in a few sentences."""
    found = []
    for delta in (d for d in PUBLISHED if d in rscore):
        rival = min(EXISTING, key=lambda a: rscore[delta][a])
        saved, more = 1 - rscore[delta]["mwf"] / rscore[delta][rival], cbs[delta]["mwf"]
        found.append(
            f"At δ = {delta:g} MWF, the paper's choice, moves {saved:.0%} less than {rival}, the"
            f" best existing algorithm, with {more:.1%} more consumers than the fewest"
            f" (published: {PUBLISHED[delta][0]:.0%}, {PUBLISHED[delta][1]:.1%})."
        )
        if "sticky" in rscore[delta]:
            less = 1 - rscore[delta]["sticky"] / rscore[delta]["mwf"]
            found.append(
                f"sticky, lagless' own, moves {less:.0%} less than MWF with"
                f" {cbs[delta]['sticky']:.1%} more consumers than the fewest."
            )
    mwf = {wait.seed: wait for wait in waited if wait.algorithm == "mwf"}
    same = {
        wait.seed: wait
        for wait in waited
        if wait.seed in mwf and wait.algorithm == f"kd_{round(mwf[wait.seed].consumers)}"
    }
    if same:
        p90 = median(wait.p90 for wait in same.values())
        worse = sum(mwf[seed].late_bytes < wait.late_bytes for seed, wait in same.items())
        found.append(
            f"With as many consumers, Kafka's assignment by count has a 90th percentile latency of"
            f" {p90:.0f} s in the median stream, MWF of"
            f" {median(wait.p90 for wait in mwf.values()):.1f} s, and more late bytes than MWF in"
            f" {worse} of {len(same)} streams."
        )
    return found
