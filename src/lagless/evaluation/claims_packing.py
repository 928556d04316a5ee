"""The paper's claims on packing, each beside what this project measures for it."""

import itertools
from collections.abc import Sequence

from lagless.evaluation import claims_assumptions
from lagless.evaluation.claims import Claim
from lagless.evaluation.claims_assumptions import Evidence, listed, ranked, verdict
from lagless.evaluation.experiments import EXISTING, MODIFIED, PAPER
from lagless.evaluation.tables import Score, mean
from lagless.packing import scores


def on_packing(evidence: Evidence) -> list[Claim]:
    """Check the claims of "Modified Any Fit Evaluation"."""
    found = evidence.published
    cbs, rscore = mean(found, "cbs"), mean(found, "rscore")
    moving = [delta for delta in cbs if delta > 0]
    if not moving:
        return []
    low, high = moving[0], moving[-1]
    return [
        _worst(cbs, moving),
        _best(cbs, moving),
        _best_modified(cbs, moving),
        *_alike(cbs, low, high),
        _growing(rscore),
        _five(rscore, moving),
        _opposed(cbs, rscore, moving),
        _least(rscore, moving),
        _front(cbs, rscore, moving),
        *(_saving(found, delta) for delta in PUBLISHED if delta in cbs),
        *claims_assumptions.on_assumptions(evidence, moving),
    ]


PUBLISHED = {5.0: (0.55, 0.118), 25.0: (0.23, 0.088)}
"""δ → MWF's published saving in Rscore, and its CBS."""

Values = dict[float, dict[str, float]]
FIGURE = "evaluation/figures.py"


def _worst(cbs: Values, moving: Sequence[float]) -> Claim:
    held = [delta for delta in moving if ranked(cbs[delta])[-2:] == ["nfd", "nf"]]
    shown = "; ".join(f"δ {d:g}: nf {cbs[d]['nf']:.1%}, nfd {cbs[d]['nfd']:.1%}" for d in moving)
    return Claim(
        "Fig. CBS",
        "next fit is the worst in CBS, then its decreasing version",
        f"`cbs` in packing/scores.py, `cbs` in {FIGURE}",
        shown,
        verdict(len(held), len(moving)),
    )


def _best(cbs: Values, moving: Sequence[float]) -> Claim:
    held = [d for d in moving if cbs[d]["bfd"] <= min(cbs[d][a] for a in PAPER) + 1e-12]
    shown = "; ".join(
        f"δ {d:g}: " + ", ".join(f"{a} {cbs[d][a]:.3%}" for a in ranked(cbs[d])[:3]) for d in moving
    )
    return Claim(
        "Fig. CBS",
        "the decreasing algorithms but NFD are the best in CBS, BFD consistently so",
        f"packing/anyfit.py, `cbs` in {FIGURE}",
        f"BFD is the best at δ = {listed(held)}; {shown}",
        verdict(len(held), len(moving)),
    )


def _best_modified(cbs: Values, moving: Sequence[float]) -> Claim:
    held = [d for d in moving if min(MODIFIED, key=lambda a: cbs[d][a]) == "mbfp"]
    shown = "; ".join(
        f"δ {d:g}: " + ", ".join(f"{a} {cbs[d][a]:.1%}" for a in ranked(cbs[d]) if a in MODIFIED)
        for d in moving
    )
    return Claim(
        "Fig. CBS of the modified",
        "MBFP is the best of the modified in CBS",
        f"packing/modified.py, `cbs` in {FIGURE}",
        shown,
        verdict(len(held), len(moving)),
    )


def _alike(cbs: Values, low: float, high: float) -> list[Claim]:
    def nearer(a: str, delta: float) -> tuple[str, str]:
        rule = "wf" if a.startswith("mwf") else "bf"
        online, sorted_ = (abs(cbs[delta][a] - cbs[delta][b]) for b in (rule, rule + "d"))
        beside = ", ".join(f"{b} {cbs[delta][b]:.1%}" for b in (rule, rule + "d"))
        text = f"{a} {cbs[delta][a]:.1%} ({beside})"
        return ("online" if online < sorted_ else "decreasing"), text

    small, large = ([nearer(a, delta) for a in MODIFIED] for delta in (low, high))
    return [
        Claim(
            "Fig. CBS of the modified",
            f"{text} δ the modified behave in CBS like the {kind} versions",
            "packing/modified.py, tables/scores.csv",
            f"δ {delta:g}: " + ", ".join(shown for _, shown in found),
            verdict(sum(near == kind for near, _ in found), len(found)),
        )
        for text, kind, delta, found in (
            ("at small", "online", low, small),
            ("at large", "decreasing", high, large),
        )
    ]


def _growing(rscore: Values) -> Claim:
    deltas = [delta for delta in rscore if delta > 0]
    grows = [
        a for a in PAPER if all(rscore[x][a] < rscore[y][a] for x, y in itertools.pairwise(deltas))
    ]
    others = [
        f"{a} " + " ".join(f"{rscore[d][a]:.1f}" for d in deltas) for a in PAPER if a not in grows
    ]
    return Claim(
        "Fig. Rscore",
        "every algorithm's average Rscore grows with δ",
        f"`moved_rate` in packing/scores.py, `rscore` in {FIGURE}",
        f"it grows at every step for {', '.join(grows) or 'none'}"
        + (f"; not for {'; '.join(others)} (δ = {listed(deltas)})" if others else ""),
        verdict(len(grows), len(PAPER)),
    )


def _five(rscore: Values, moving: Sequence[float]) -> Claim:
    best = {delta: ranked(rscore[delta])[:5] for delta in moving}
    held = [d for d in moving if set(best[d]) == {*MODIFIED, "nfd"}]
    return Claim(
        "Fig. Rscore",
        "the five best in Rscore are the modified and NFD",
        "packing/anyfit.py, packing/modified.py",
        "; ".join(f"δ {delta:g}: {', '.join(names)}" for delta, names in best.items()),
        verdict(len(held), len(moving)),
    )


def _opposed(cbs: Values, rscore: Values, moving: Sequence[float]) -> Claim:
    orders = {
        d: (
            sorted(MODIFIED, key=lambda a: rscore[d][a]),
            sorted(MODIFIED, key=lambda a: -cbs[d][a]),
        )
        for d in moving
    }
    held = [d for d, (by_rscore, by_cbs) in orders.items() if by_rscore == by_cbs]
    return Claim(
        "Modified Any Fit Evaluation",
        "of the modified, those that are best in Rscore are worst in CBS",
        "tables/scores.csv",
        "; ".join(
            f"δ {d:g}: best Rscore first {' '.join(one)}, worst CBS first {' '.join(other)}"
            for d, (one, other) in orders.items()
        ),
        "holds" if len(held) == len(moving) else "in part",
    )


def _least(rscore: Values, moving: Sequence[float]) -> Claim:
    held = [d for d in moving if min(MODIFIED, key=lambda a: rscore[d][a]) == "mwf"]
    return Claim(
        "Modified Any Fit Evaluation",
        "MWF is the best of the modified in Rscore for δ from 5 to 25",
        "`mwf` in packing/modified.py",
        "; ".join(f"δ {d:g}: mwf {rscore[d]['mwf']:.2f}" for d in moving),
        verdict(len(held), len(moving)),
    )


def _front(cbs: Values, rscore: Values, moving: Sequence[float]) -> Claim:
    fronts = {d: scores.pareto_front({a: (cbs[d][a], rscore[d][a]) for a in PAPER}) for d in moving}
    held = [
        d for d in moving if {"mwf", "mbf", "mbfp"} <= set(fronts[d]) and "mwfp" not in fronts[d]
    ]
    return Claim(
        "Fig. Pareto front",
        "MWF, MBF and MBFP are on the Pareto front, MWFP is not",
        f"`pareto_front` in packing/scores.py, `pareto` in {FIGURE}",
        "; ".join(f"δ {d:g}: {', '.join(names)}" for d, names in fronts.items()),
        verdict(len(held), len(moving)),
    )


def _saving(found: Sequence[Score], delta: float) -> Claim:
    said, more = PUBLISHED[delta]
    rscore, consumers = mean(found, "rscore")[delta], mean(found, "consumers")[delta]
    cbs = mean(found, "cbs")[delta]
    rival = min(EXISTING, key=lambda a: rscore[a])
    saved = 1 - rscore["mwf"] / rscore[rival]
    per_seed = [
        1 - one["mwf"] / min(one[a] for a in EXISTING)
        for one in _by_seed(found, "rscore", delta).values()
    ]
    beside = consumers["mwf"] / consumers[rival] - 1
    return Claim(
        "Modified Any Fit Evaluation",
        f"MWF reduces the rebalance cost by {said:.0%} at δ = {delta:g} for {more:.1%} more"
        " consumers",
        "`mwf` in packing/modified.py, tables/scores.csv",
        f"Rscore {rscore['mwf']:.2f} against {rscore[rival]:.2f} of {rival}, the best existing one:"
        f" −{saved:.0%} ({min(per_seed):.0%} to {max(per_seed):.0%} by stream), for"
        f" {cbs['mwf']:.1%} more consumers than the fewest ({beside:+.1%} beside {rival})",
        "holds" if saved > said - 0.05 else "in part" if saved > 0 else "does not hold",
    )


def _by_seed(found: Sequence[Score], key: str, delta: float) -> dict[int, dict[str, float]]:
    gathered: dict[int, dict[str, float]] = {}
    for one in found:
        if one.delta == delta and one.start == "random":
            gathered.setdefault(one.seed, {})[one.algorithm] = getattr(one, key)
    return gathered
