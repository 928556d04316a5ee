"""What the paper compares itself with: Kafka's count-based assignment, and Ezzeddine et al."""

import numpy as np

from lagless.errors import WrongInput
from lagless.packing.anyfit import Consumers, Speeds, ffd
from lagless.packing.compiled import shorthand


def kd(speeds: Speeds, capacity: float, previous: Consumers, *, n: int) -> Consumers:
    """Deal the list out to n consumers, whatever the speeds: partition i to i mod n + 1."""
    if n < 1:
        raise WrongInput(f"kd_<n> needs at least one consumer, not {n}")
    return np.arange(len(speeds), dtype=np.int64) % n + 1


@shorthand
def ezzeddine(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by First Fit Decreasing on bytes/s, as if there were no previous consumers."""
    return ffd(speeds, capacity, np.zeros_like(previous))
