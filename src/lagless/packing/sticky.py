"""Sticky: keep what can be kept, and move the rest into as few consumers as asked for.

1. Aim: the target is ⌊B · (1 + slack)⌋ consumers, where B is what Best Fit Decreasing needs.
2. Keep: from the fastest partition to the slowest, each one stays with its consumer if that still
   holds it and if all that is not kept still packs into the target. If each consumer held one
   partition of a sort, the sets that can be kept would be the independent sets of a matroid, and
   this order would keep the most speed that can be kept; as it is, it comes near.
3. Refill: what is not kept goes into the consumers with most room, so that the next change of
   speeds overfills few. Only as many of the fastest as must are placed by Best Fit instead.
4. Return: whatever can go back to its consumer does, so that undoing any one move would overload a
   consumer or take one more.
5. Save: if anything moves at all, one consumer less is tried, and again, for as long as that moves
   little more. The price of a consumer falls with the slack, so that a group that may be larger
   does not shrink at once when it could. With slack 0 there is nothing to save.

Steps 2 to 4 are in `sticky_steps`, `sticky_probe` answers whether all still packs. An answer given
back with the same speeds is kept as a whole in step 2, so nothing moves.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.errors import WrongInput
from lagless.packing import group, sticky_probe
from lagless.packing import sticky_steps as steps
from lagless.packing.anyfit import gathered, scattered
from lagless.packing.order import ranked

Speeds: TypeAlias = NDArray[np.float64]
Consumers: TypeAlias = NDArray[np.int64]
Slots: TypeAlias = NDArray[np.int32]

# At slack 0.1, a consumer less is worth 0.6 of Rscore: about what the last tenth of the consumers
# saves on the paper's streams.
PRICE = 0.06


def pack(speeds: Speeds, capacity: float, previous: Consumers, *, slack: float = 0.05) -> Consumers:
    """Pack with at most (1 + slack) times Best Fit Decreasing's consumers, moving little."""
    if not 0 <= slack < float("inf"):
        raise WrongInput(f"slack has to be a number from 0, such as 0.05, not {slack!r}")
    order, rates = ranked(speeds)
    homes, high = group.slots(previous)
    before = gathered(homes, order)
    slots = len(rates) + len(high)
    fewest = steps.fewest(rates, capacity, slots)
    placed = arrange(rates, capacity, before, slots, aim(fewest, len(rates), slack))
    # In long lists one consumer more or less does not matter, and trying takes time.
    if slack > 0 and len(rates) <= sticky_probe.ROW:
        placed = save(rates, capacity, before, slots, placed, fewest, PRICE / slack)
    return scattered(group.numbers(placed, high), order)


def aim(fewest: int, partitions: int, slack: float) -> int:
    """Give the number of consumers that must not be exceeded."""
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
    """Do with fewer consumers as long as each one costs less than its price in Rscore.

    Invariant: what moved nothing stays as it is, so unchanged speeds still move nothing.
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
    """Sum the speeds that move, and count the consumers."""
    moves = (placed != before) & (before >= 0)
    return float(rates[moves].sum()), len(np.unique(placed))
