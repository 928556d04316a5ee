"""The paper's claims on packing and its assumptions, beside what this project measures."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from lagless.lab.paper.experiments import EXISTING, MODIFIED, PAPER, Score, mean
from lagless.packing import scores

Verdict = Literal["holds", "in part", "does not hold", "see numbers"]
Values = dict[float, dict[str, float]]
"""δ → algorithm → value."""
PUBLISHED = {5.0: (0.55, 0.118), 25.0: (0.23, 0.088)}
"""δ → MWF's published saving in Rscore, and its CBS."""
PUBLISHED_NFD = {5.0: 20.54, 25.0: 19.73}
"""δ → the published E(Rscore) of NFD, the best existing algorithm."""
FIGURE = "lab/paper/figures.py"


@dataclass(frozen=True, slots=True)
class Claim:
    """What the paper says and where, where the code for it is, and what was measured."""

    section: str
    says: str
    code: str
    measured: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """Scores by the published settings, and with other readings of what the paper leaves open.

    A fixed order, no upper clamp, and Next Fit with the lowest number as its first consumer.
    """

    published: Sequence[Score]
    fixed: Sequence[Score]
    unclamped: Sequence[Score]
    lowest: Sequence[Score] = ()


def on_packing(evidence: Evidence) -> list[Claim]:
    """Check the claims of "Modified Any Fit Evaluation", and what they assume."""
    results = evidence.published
    cbs, rscore, consumers = (mean(results, key) for key in ("cbs", "rscore", "consumers"))
    moving = [delta for delta in cbs if delta > 0]
    if not moving:
        return []
    low, high = moving[0], moving[-1]
    return [
        *_on_cbs(cbs, moving),
        *_on_rscore(cbs, rscore, moving),
        *(_saving(results, delta) for delta in PUBLISHED if delta in cbs),
        *([_adaptation(consumers, moving)] if "ezzeddine" in consumers[low] else []),
        _starts(results, moving),
        *([_unchanged(rscore[0.0])] if 0.0 in rscore else []),
        *_choices(evidence, low, high),
        *_first_consumer(rscore, mean(evidence.lowest, "rscore")),
    ]


def verdict(held: int, of: int) -> Verdict:
    """Judge a claim that was looked at so many times and held so many."""
    return "holds" if held == of else "does not hold" if held == 0 else "in part"


def ranked(values: dict[str, float]) -> list[str]:
    """Sort the paper's algorithms by value, the lowest first."""
    return sorted((a for a in values if a in PAPER), key=lambda a: values[a])


def listed(deltas: Sequence[float]) -> str:
    """Write δs with commas between."""
    return ", ".join(f"{delta:g}" for delta in deltas) or "none"


def _by_delta(deltas: Sequence[float], shown: Callable[[float], str]) -> str:
    return "; ".join(f"δ {delta:g}: {shown(delta)}" for delta in deltas)


def _at_each(
    deltas: Sequence[float],
    section: str,
    says: str,
    code: str,
    holds: Callable[[float], bool],
    shown: Callable[[float], str],
) -> Claim:
    """Judge a claim by the δs at which it holds."""
    held = sum(map(holds, deltas))
    return Claim(section, says, code, _by_delta(deltas, shown), verdict(held, len(deltas)))


def _on_cbs(cbs: Values, moving: Sequence[float]) -> list[Claim]:
    each = partial(_at_each, moving)
    best = [d for d in moving if cbs[d]["bfd"] <= min(cbs[d][a] for a in PAPER) + 1e-12]

    def shown(d: float, algorithms: Sequence[str], form: str = ".1%") -> str:
        return ", ".join(f"{a} {cbs[d][a]:{form}}" for a in algorithms)

    return [
        each(
            "Fig. CBS",
            "next fit is the worst in CBS, then its decreasing version",
            f"`cbs` in packing/scores.py, `cbs` in {FIGURE}",
            lambda d: ranked(cbs[d])[-2:] == ["nfd", "nf"],
            lambda d: shown(d, ("nf", "nfd")),
        ),
        Claim(
            "Fig. CBS",
            "the decreasing algorithms but NFD are the best in CBS, BFD consistently so",
            f"packing/anyfit.py, `cbs` in {FIGURE}",
            f"BFD is the best at δ = {listed(best)}; "
            + _by_delta(moving, lambda d: shown(d, ranked(cbs[d])[:3], ".3%")),
            verdict(len(best), len(moving)),
        ),
        each(
            "Fig. CBS of the modified",
            "MBFP is the best of the modified in CBS",
            f"packing/modified.py, `cbs` in {FIGURE}",
            lambda d: min(MODIFIED, key=lambda a: cbs[d][a]) == "mbfp",
            lambda d: shown(d, [a for a in ranked(cbs[d]) if a in MODIFIED]),
        ),
        _alike(cbs, "at small", "online", moving[0]),
        _alike(cbs, "at large", "decreasing", moving[-1]),
    ]


def _alike(cbs: Values, text: str, kind: str, delta: float) -> Claim:
    shown, held = [], 0
    for a in MODIFIED:
        rules = ("wf", "wfd") if a.startswith("mwf") else ("bf", "bfd")
        online, sorted_ = (abs(cbs[delta][a] - cbs[delta][rule]) for rule in rules)
        held += ("online" if online < sorted_ else "decreasing") == kind
        beside = ", ".join(f"{rule} {cbs[delta][rule]:.1%}" for rule in rules)
        shown.append(f"{a} {cbs[delta][a]:.1%} ({beside})")
    return Claim(
        "Fig. CBS of the modified",
        f"{text} δ the modified behave in CBS like the {kind} versions",
        "packing/modified.py, tables/scores.csv",
        f"δ {delta:g}: " + ", ".join(shown),
        verdict(held, len(MODIFIED)),
    )


def _on_rscore(cbs: Values, rscore: Values, moving: Sequence[float]) -> list[Claim]:
    each = partial(_at_each, moving)
    section = "Modified Any Fit Evaluation"
    best = {d: ranked(rscore[d])[:5] for d in moving}
    fronts = {d: scores.pareto_front({a: (cbs[d][a], rscore[d][a]) for a in PAPER}) for d in moving}
    by_rscore = {d: sorted(MODIFIED, key=lambda a: rscore[d][a]) for d in moving}
    by_cbs = {d: sorted(MODIFIED, key=lambda a: -cbs[d][a]) for d in moving}
    form = "best Rscore first {}, worst CBS first {}"
    grows = [
        a for a in PAPER if all(rscore[x][a] < rscore[y][a] for x, y in itertools.pairwise(moving))
    ]
    others = "; ".join(
        f"{a} " + " ".join(f"{rscore[d][a]:.1f}" for d in moving) for a in PAPER if a not in grows
    )
    return [
        Claim(
            "Fig. Rscore",
            "every algorithm's average Rscore grows with δ",
            f"`moved_rate` in packing/scores.py, `rscore` in {FIGURE}",
            f"it grows at every step for {', '.join(grows) or 'none'}"
            + (f"; not for {others} (δ = {listed(moving)})" if others else ""),
            verdict(len(grows), len(PAPER)),
        ),
        each(
            "Fig. Rscore",
            "the five best in Rscore are the modified and NFD",
            "packing/anyfit.py, packing/modified.py",
            lambda d: set(best[d]) == {*MODIFIED, "nfd"},
            lambda d: ", ".join(best[d]),
        ),
        Claim(
            section,
            "of the modified, those that are best in Rscore are worst in CBS",
            "tables/scores.csv",
            _by_delta(moving, lambda d: form.format(" ".join(by_rscore[d]), " ".join(by_cbs[d]))),
            "holds" if by_rscore == by_cbs else "in part",
        ),
        each(
            section,
            "MWF is the best of the modified in Rscore for δ from 5 to 25",
            "`mwf` in packing/modified.py",
            lambda d: by_rscore[d][0] == "mwf",
            lambda d: f"mwf {rscore[d]['mwf']:.2f}",
        ),
        each(
            "Fig. Pareto front",
            "MWF, MBF and MBFP are on the Pareto front, MWFP is not",
            f"`pareto_front` in packing/scores.py, `pareto` in {FIGURE}",
            lambda d: {"mwf", "mbf", "mbfp"} <= set(fronts[d]) and "mwfp" not in fronts[d],
            lambda d: ", ".join(fronts[d]),
        ),
    ]


def _saving(results: Sequence[Score], delta: float) -> Claim:
    saving, more = PUBLISHED[delta]
    cbs, rscore, consumers = (mean(results, key)[delta] for key in ("cbs", "rscore", "consumers"))
    rival = min(EXISTING, key=lambda a: rscore[a])
    saved = 1 - rscore["mwf"] / rscore[rival]
    by_seed: dict[int, dict[str, float]] = {}
    for score in results:
        if score.delta == delta and score.start == "random":
            by_seed.setdefault(score.seed, {})[score.algorithm] = score.rscore
    per_seed = [
        1 - rscores["mwf"] / min(rscores[a] for a in EXISTING) for rscores in by_seed.values()
    ]
    beside = consumers["mwf"] / consumers[rival] - 1
    return Claim(
        "Modified Any Fit Evaluation",
        f"MWF reduces the rebalance cost by {saving:.0%} at δ = {delta:g} for {more:.1%} more"
        " consumers",
        "`mwf` in packing/modified.py, tables/scores.csv",
        f"Rscore {rscore['mwf']:.2f} against {rscore[rival]:.2f} of {rival}, the best existing one:"
        f" −{saved:.0%} ({min(per_seed):.0%} to {max(per_seed):.0%} by stream), for"
        f" {cbs['mwf']:.1%} more consumers than the fewest ({beside:+.1%} beside {rival})",
        "holds" if saved > saving - 0.05 else "in part" if saved > 0 else "does not hold",
    )


def _adaptation(consumers: Values, moving: Sequence[float]) -> Claim:
    same = [d for d in moving if consumers[d]["ffd"] == consumers[d]["ezzeddine"]]
    form = "{ffd:.3f} with, {ezzeddine:.3f} without"
    shown = _by_delta(moving, lambda d: form.format(**consumers[d]))
    return Claim(
        "Approximation Algorithms Adaptation",
        "reopening a partition's previous consumer does not change the number of consumers",
        "`Group` in packing/plain.py, `ezzeddine` in packing/anyfit.py",
        f"FFD's consumers with the adaptation and without it (ezzeddine): {shown}. First Fit"
        " takes the lowest number, so which numbers are open changes what goes where",
        verdict(len(same), len(moving)),
    )


def _starts(results: Sequence[Score], moving: Sequence[float]) -> Claim:
    starts = sorted({score.start for score in results})
    rscores = [mean(results, "rscore", [start]) for start in starts]

    def spread(delta: float, algorithm: str) -> float:
        values = [rscore[delta][algorithm] for rscore in rscores]
        return (max(values) - min(values)) / max(float(np.mean(values)), 1e-300)

    spreads = {d: float(np.mean([spread(d, a) for a in PAPER])) for d in moving}
    same = [d for d in moving if len({ranked(rscore[d])[0] for rscore in rscores}) == 1]
    return Claim(
        "Test Data Generation",
        "the four starts make no significant difference",
        "`first` in lab/model/streams.py",
        "largest difference of E(Rscore) between starts, mean over algorithms: "
        + _by_delta(moving, lambda d: f"{spreads[d]:.0%}")
        + f"; the best algorithm in Rscore is the same for all starts at δ = {listed(same)}",
        verdict(sum(value < 0.1 for value in spreads.values()), len(moving)),
    )


def _unchanged(rscore: dict[str, float]) -> Claim:
    still = [a for a in PAPER if rscore[a] == 0]
    moving = ", ".join(f"{a} {rscore[a]:.4f}" for a in PAPER if a not in still)
    return Claim(
        "not stated",
        "what an algorithm does where no speed changes (δ = 0)",
        "packing/modified.py, tables/scores.csv",
        f"E(Rscore) is 0 for {', '.join(still) or 'none'}, and not for {moving or 'none'}: MWF"
        " packs its own assignment again and finds another one, since it first tries to empty each"
        " consumer into those before it; only after some iterations does it find the same again",
        "see numbers",
    )


def _choices(evidence: Evidence, low: float, high: float) -> list[Claim]:
    runs = (evidence.published, evidence.fixed, evidence.unclamped)
    published, fixed, unclamped = (mean(run, "rscore") for run in runs)
    cbs, fixed_cbs, unclamped_cbs = (mean(run, "cbs") for run in runs)
    claims = []
    if low in fixed:
        changes = ", ".join(
            f"{a} {published[low][a]:.1f} → {fixed[low][a]:.1f}" for a in ("nf", "ff", "bf", "wf")
        )
        rival = min(EXISTING, key=lambda a: fixed[low][a])
        claims.append(
            Claim(
                "not stated",
                "the order in which the online algorithms get the partitions",
                "lab/model/replay.py, `--order`",
                f"E(Rscore) at δ {low:g}, shuffled at each iteration → the list's order: {changes};"
                f" nf's CBS {cbs[low]['nf']:.1%} → {fixed_cbs[low]['nf']:.1%}. With a fixed order"
                f" {rival} is the best existing algorithm in Rscore, and MWF's is"
                f" {fixed[low]['mwf'] / fixed[low][rival] - 1:+.0%} beside it",
                "see numbers",
            )
        )
    if unclamped:
        claims.append(
            Claim(
                "Eq. of the stream",
                "the formula bounds speeds at 0 alone; the published tables have them below C too",
                "`speeds` in lab/model/streams.py, `--clamp`",
                "; ".join(
                    f"without the upper clamp at δ {d:g}: mwf {published[d]['mwf']:.1f} → "
                    f"{unclamped[d]['mwf']:.1f}, nfd {published[d]['nfd']:.1f} → "
                    f"{unclamped[d]['nfd']:.1f} in E(Rscore), mwf {cbs[d]['mwf']:.1%} → "
                    f"{unclamped_cbs[d]['mwf']:.1%} in CBS"
                    for d in (low, high)
                    if d in unclamped
                ),
                "see numbers",
            )
        )
    return claims


def _first_consumer(published: Values, lowest: Values) -> list[Claim]:
    """Show where the published savings come from: the consumer that Next Fit opens first."""
    shown, held = [], []
    for delta in (delta for delta in PUBLISHED if delta in lowest):
        rscores = published[delta]
        nfd = lowest[delta]["nfd:first=lowest"]
        others = [rscores[a] for a in EXISTING if not a.startswith("nf")]
        best = min(*others, *lowest[delta].values())
        saving, saved = PUBLISHED[delta][0], 1 - rscores["mwf"] / best
        held.append(abs(saved - saving) < 0.05)
        shown.append(
            f"δ {delta:g}: nfd {rscores['nfd']:.2f} → {nfd:.2f} (published"
            f" {PUBLISHED_NFD[delta]:.2f}), so that MWF at {rscores['mwf']:.2f} saves {saved:.0%}"
            f" (published {saving:.0%})"
        )
    if not shown:
        return []
    return [
        Claim(
            "not stated",
            "Next Fit's first consumer is the lowest number and not h(j, k), which the text says"
            " for every consumer: this is where 55 % and 23 % come from",
            "`nfd:first=lowest`, `pack` in packing/plain.py",
            "E(Rscore) with h(j, k) → with the lowest number: " + "; ".join(shown),
            verdict(sum(held), len(held)),
        )
    ]
