"""The paper's latency model with backlogs that follow their partitions.

`latency` scores packings one iteration at a time: a partition that moves begins with the seconds of
a rebalance, and what its last consumer had not read of it is forgotten. A controller that moves
partitions because of a backlog would win by that. Here every partition keeps its unread bytes, and
they count for the consumer that has it. Without backlogs both models are the same.
"""

import numpy as np
from numpy.typing import NDArray

from lagless.lab.model import latency
from lagless.lab.model.streams import Floats, Numbers

NOTHING = 1e-6
"""Bytes of backlog that are rounding."""

Lines = tuple[Floats, Floats, Floats]
"""Bytes written, and the latency of the first and of the last of them, by queue."""


def step(
    model: latency.Model,
    speeds: Floats,
    consumers: Numbers,
    moved: NDArray[np.bool_],
    backlog: Floats,
) -> tuple[Lines, Floats]:
    """Run one iteration; `backlog` is the unread bytes of each partition, before and after."""
    size = int(consumers.max(initial=0)) + 1
    stayed, T = ~moved, model.iteration
    W_F, W_R = (latency.sums(consumers, np.where(of, speeds, 0.0), size) for of in (stayed, moved))
    B_F, B_R = (latency.sums(consumers, np.where(of, backlog, 0.0), size) for of in (stayed, moved))
    R_F, R_R = latency.rates(model.max_rate, W_F + B_F / T, W_R + B_R / T)
    fixed, rebalanced = _seconds(B_F, R_F), model.rebalance + _seconds(B_R, R_R)
    ends_F = latency.end(model, fixed, W_F, R_F)
    ends_R = latency.end(model, rebalanced, W_R, R_R)
    left_F, left_R = np.maximum(ends_F, 0.0) * R_F, np.maximum(ends_R, 0.0) * R_R
    waiting = backlog + speeds * T
    whole = np.where(moved, (B_R + W_R * T)[consumers], (B_F + W_F * T)[consumers])
    left = np.where(moved, left_R[consumers], left_F[consumers])
    after = np.divide(waiting * left, whole, out=np.zeros_like(waiting), where=whole > 0)
    after[after < NOTHING] = 0.0
    lines = (
        np.concatenate([W_F, W_R]) * T,
        np.concatenate([fixed, rebalanced]),
        np.concatenate([ends_F, ends_R]),
    )
    return lines, after


def _seconds(backlog: Floats, read: Floats) -> Floats:
    return np.divide(backlog, read, out=np.zeros_like(backlog), where=backlog > 0)
