"""The paper's assumptions on streams, order and numbering, and what other choices give."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagless.evaluation.claims import Claim, Verdict
from lagless.evaluation.experiments import EXISTING, PAPER
from lagless.evaluation.tables import Score, mean


@dataclass(frozen=True, slots=True)
class Evidence:
    """Scores by the published settings, with a fixed order, and without the upper clamp."""

    published: Sequence[Score]
    fixed: Sequence[Score]
    unclamped: Sequence[Score]


def on_assumptions(evidence: Evidence, moving: Sequence[float]) -> list[Claim]:
    """Check what the paper says of its set-up, and vary what it does not say."""
    found = evidence.published
    return [
        *_adaptation(found, moving),
        _starts(found, moving),
        *_choices(evidence, moving[0], moving[-1]),
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


def _adaptation(found: Sequence[Score], moving: Sequence[float]) -> list[Claim]:
    consumers = mean(found, "consumers")
    if "ezzeddine" not in consumers[moving[0]]:
        return []
    differing = [d for d in moving if consumers[d]["ffd"] != consumers[d]["ezzeddine"]]
    shown = "; ".join(
        f"δ {d:g}: {consumers[d]['ffd']:.3f} with, {consumers[d]['ezzeddine']:.3f} without"
        for d in moving
    )
    return [
        Claim(
            "Approximation Algorithms Adaptation",
            "reopening a partition's previous consumer does not change the number of consumers",
            "`unused` in packing/group.py, `ezzeddine` in packing/baselines.py",
            f"FFD's consumers with the adaptation and without it (ezzeddine): {shown}. First Fit"
            " takes the lowest number, so which numbers are open changes what goes where",
            verdict(len(moving) - len(differing), len(moving)),
        )
    ]


def _starts(found: Sequence[Score], moving: Sequence[float]) -> Claim:
    starts = sorted({one.start for one in found})
    by_start = {start: mean(found, "rscore", [start]) for start in starts}
    spread = {
        d: float(np.mean([_spread([by_start[start][d][a] for start in starts]) for a in PAPER]))
        for d in moving
    }
    same = [
        d for d in moving if len({tuple(ranked(by_start[start][d])[:1]) for start in starts}) == 1
    ]
    return Claim(
        "Test Data Generation",
        "the four starts make no significant difference",
        "`first` in simulation/streams.py",
        "largest difference of E(Rscore) between starts, mean over algorithms: "
        + "; ".join(f"δ {d:g}: {value:.0%}" for d, value in spread.items())
        + f"; the best algorithm in Rscore is the same for all starts at δ = {listed(same)}",
        verdict(sum(value < 0.1 for value in spread.values()), len(moving)),
    )


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / max(float(np.mean(values)), 1e-300)


def _choices(evidence: Evidence, low: float, high: float) -> list[Claim]:
    published = mean(evidence.published, "rscore")
    fixed, unclamped = mean(evidence.fixed, "rscore"), mean(evidence.unclamped, "rscore")
    published_cbs, unclamped_cbs = mean(evidence.published, "cbs"), mean(evidence.unclamped, "cbs")
    claims = []
    if low in fixed:
        fixed_cbs = mean(evidence.fixed, "cbs")
        claims.append(
            Claim(
                "not stated",
                "the order in which the online algorithms get the partitions",
                "simulation/replay.py, `--order`",
                f"E(Rscore) at δ {low:g}, shuffled at each iteration → the list's order: "
                + ", ".join(
                    f"{a} {published[low][a]:.1f} → {fixed[low][a]:.1f}"
                    for a in ("nf", "ff", "bf", "wf")
                )
                + f"; nf's CBS {published_cbs[low]['nf']:.1%} → {fixed_cbs[low]['nf']:.1%}. With a "
                f"fixed order {min(EXISTING, key=lambda a: fixed[low][a])} is the best existing "
                f"algorithm in Rscore, and MWF's is "
                f"{fixed[low]['mwf'] / min(fixed[low][a] for a in EXISTING) - 1:+.0%} beside it",
                "see numbers",
            )
        )
    if unclamped:
        claims.append(
            Claim(
                "Eq. of the stream",
                "the formula bounds speeds at 0 alone; the published tables have them below C too",
                "`speeds` in simulation/streams.py, `--clamp`",
                "; ".join(
                    f"without the upper clamp at δ {d:g}: mwf {published[d]['mwf']:.1f} → "
                    f"{unclamped[d]['mwf']:.1f}, nfd {published[d]['nfd']:.1f} → "
                    f"{unclamped[d]['nfd']:.1f} in E(Rscore), mwf {published_cbs[d]['mwf']:.1%} → "
                    f"{unclamped_cbs[d]['mwf']:.1%} in CBS"
                    for d in (low, high)
                    if d in unclamped
                ),
                "see numbers",
            )
        )
    return claims
