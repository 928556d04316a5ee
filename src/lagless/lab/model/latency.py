"""The paper's latency model (section "Comparison with Kafka's Assignment Strategy").

docs/evaluation.md has the rules where the paper leaves room. Every queue enters the second
measurement with latency 0, and a rebalanced queue begins with the time that a rebalance takes.
"Nothing would be left" is W_F ≥ C̄. T = 30·W is not rounded, and a line is cut off at 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagless.errors import WrongInput
from lagless.lab.model.distribution import Distribution, gather
from lagless.lab.model.streams import Floats, Numbers


@dataclass(frozen=True, slots=True)
class Model:
    """The consumers' max rate C̄ in bytes/s, and the seconds of an iteration and a rebalance."""

    max_rate: float
    iteration: float = 30.0
    rebalance: float = 5.0

    def __post_init__(self) -> None:
        for name, value in (("max rate", self.max_rate), ("iteration", self.iteration)):
            if not 0 < value < np.inf:
                raise WrongInput(f"the {name} is a number above 0, not {value:g}")
        if not 0 <= self.rebalance <= self.iteration:
            raise WrongInput(
                f"a rebalance takes between 0 s and the {self.iteration:g} s of an iteration,"
                f" not {self.rebalance:g} s"
            )


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration's lines: bytes written and latency at first and last byte, per queue.

    `ended` is each consumer number's latency at the end, `backlog` the unread bytes behind it.
    """

    written: Floats
    begins: Floats
    ends: Floats
    ended: Floats
    backlog: Floats


@dataclass(frozen=True, slots=True)
class Latency:
    """What a stream's bytes waited under one algorithm, and its mean number of consumers."""

    consumers: float
    bytes: float
    late: Distribution


def slope(read: float, written: float) -> float:
    """Return the latency that each byte adds, m = 1/R − 1/W, in seconds per byte."""
    return 1 / read - 1 / written


def iterate(
    model: Model, speeds: Floats, current: Numbers, rebalanced: NDArray[np.bool_], ended: Floats
) -> Iteration:
    """Run one iteration; `ended` holds, per consumer number, how the last one ended."""
    size = max(int(current.max()) + 1, len(ended))
    begin = np.zeros(size)
    begin[: len(ended)] = ended
    W_F = sums(current, np.where(rebalanced, 0.0, speeds), size)
    W_R = sums(current, np.where(rebalanced, speeds, 0.0), size)
    R_F, R_R = rates(model.max_rate, W_F, W_R)
    fixed = end(model, begin, W_F, R_F)
    moved = end(model, model.rebalance, W_R, R_R)
    unread_F, unread_R = np.maximum(fixed, 0.0) * R_F, np.maximum(moved, 0.0) * R_R
    quiet = (W_F == 0) & (W_R == 0)
    return Iteration(
        written=np.concatenate([W_F, W_R]) * model.iteration,
        begins=np.concatenate([begin, np.full(size, model.rebalance)]),
        ends=np.concatenate([fixed, moved]),
        ended=np.where(quiet, begin, np.maximum(np.where(W_R > 0, moved, fixed), 0.0)),
        backlog=np.where(
            quiet, begin * R_F, np.where(W_F > 0, unread_F, 0) + np.where(W_R > 0, unread_R, 0)
        ),
    )


def run(model: Model, speeds: Floats, assignments: Iterable[Numbers]) -> Latency:
    """Follow a stream through its assignments, one per measurement."""
    ended = np.zeros(1)
    previous: Numbers | None = None
    consumers: list[int] = []
    iterations: list[Iteration] = []
    for measured, current in zip(speeds, assignments, strict=True):
        consumers.append(len(np.unique(current)))
        if previous is not None:
            iterations.append(iterate(model, measured, current, current != previous, ended))
            ended = iterations[-1].ended
        previous = current
    return summary(model, speeds, consumers, iterations)


def summary(
    model: Model, speeds: Floats, consumers: list[int], iterations: list[Iteration]
) -> Latency:
    """Gather the iterations of a stream into one result."""
    return Latency(
        consumers=float(np.mean(consumers)),
        bytes=float(speeds[1:].sum()) * model.iteration,
        late=gather((it.written, it.begins, it.ends) for it in iterations),
    )


def sums(current: Numbers, speeds: Floats, size: int) -> Floats:
    """Return what the partitions of each consumer number have together."""
    return np.asarray(np.bincount(current, speeds, minlength=size), dtype=np.float64)


def rates(max_rate: float, W_F: Floats, W_R: Floats) -> tuple[Floats, Floats]:
    """Return at what rate each consumer reads what stayed with it, and what moved to it."""
    R_F = np.where(W_R > 0, np.minimum(W_F, max_rate), max_rate)
    R_R = max_rate - R_F
    shared = (max_rate <= W_F) & (W_R > 0)
    total = (W_F + W_R)[shared]
    R_F[shared] = max_rate * W_F[shared] / total
    R_R[shared] = max_rate * W_R[shared] / total
    return R_F, R_R


def end(model: Model, begin: Floats | float, written: Floats, read: Floats) -> Floats:
    """Return the line's value at the last byte, m·T + b; below 0 where it crosses earlier."""
    # m·T = (1/R − 1/W)·iteration·W, written so that R = W adds exactly 0 and W = 0 needs no case.
    ratio = np.divide(written, read, out=np.zeros_like(written), where=written > 0)
    return np.asarray(begin + model.iteration * (ratio - 1))
