"""Sticky: keep what can be kept, and move the rest into as few consumers as asked for.

docs/sticky.md explains the steps Aim, Keep, Refill, Return and Save, and what each guarantees.
Keep, Refill and Return are compiled: `sticky_steps`. With slack 0 there is nothing to save.
"""

import numpy as np

from lagless.errors import WrongInput
from lagless.packing import kernels, scores
from lagless.packing import sticky_steps as steps
from lagless.packing.inputs import Consumers, Speeds
from lagless.packing.kernels import Slots

PRICE = 0.06
"""At slack 0.1 a consumer is worth 0.6 of Rscore: about what the last tenth of the consumers saves
on the paper's streams."""


def pack(speeds: Speeds, capacity: float, previous: Consumers, *, slack: float = 0.05) -> Consumers:
    """Pack with at most (1 + slack) times Best Fit Decreasing's consumers, moving little."""
    if not 0 <= slack < float("inf"):
        raise WrongInput(f"slack has to be a number from 0, such as 0.05, not {slack!r}")
    order, rates = kernels.ranked(speeds)
    homes, high = kernels.slots(previous)
    before = kernels.gathered(homes, order)
    slots = len(rates) + len(high)
    fewest = steps.fewest(rates, capacity, slots)
    placed = arrange(rates, capacity, before, slots, aim(fewest, len(rates), slack))
    # In long lists a single consumer hardly matters, and trying takes time.
    if slack > 0 and len(rates) <= steps.ROW:
        placed = save(rates, capacity, before, slots, placed, fewest, PRICE / slack)
    return kernels.scattered(kernels.numbers(placed, high), order)


def aim(fewest: int, partitions: int, slack: float) -> int:
    """Return the number of consumers that must not be exceeded."""
    return min(int(min(fewest * (1 + slack) + 1e-9, float(partitions))), partitions)


def arrange(rates: Speeds, capacity: float, before: Slots, slots: int, target: int) -> Slots:
    """Keep, refill and return, for a target that Best Fit Decreasing can meet."""
    kept = steps.keep(rates, capacity, before, slots, target)
    placed = steps.refill(rates, capacity, before, slots, target, kept)
    steps.return_home(rates, capacity, before, slots, target, placed)
    return placed


def save(
    rates: Speeds,
    capacity: float,
    before: Slots,
    slots: int,
    placed: Slots,
    fewest: int,
    price: float,
) -> Slots:
    """Use fewer consumers as long as saving each one costs less than its price in Rscore.

    Invariant: a packing that moves nothing stays as it is, so unchanged speeds move nothing.
    """
    moved, consumers = cost(rates, before, placed)
    while moved > 0 and consumers > fewest:
        other = arrange(rates, capacity, before, slots, consumers - 1)
        more, fewer = cost(rates, before, other)
        if (more - moved) / capacity >= price * (consumers - fewer):
            break
        placed, moved, consumers = other, more, fewer
    return placed


def cost(rates: Speeds, before: Slots, placed: Slots) -> tuple[float, int]:
    """Return the speed that moves, and the number of consumers."""
    moves = scores.moved(before, placed, none=-1)
    return float(rates[moves].sum()), len(np.unique(placed))
