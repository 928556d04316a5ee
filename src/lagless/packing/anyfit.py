"""Next, First, Best and Worst Fit, on the list as it comes and by decreasing speed; the baselines.

Paper, sections "Approximation Algorithms" and "Approximation Algorithms Adaptation". The baselines
are from "Comparison with Kafka's Assignment Strategy" and "Consumer Group Autoscaling". `plain`
defines what these functions have to answer.
"""

import numpy as np

from lagless.errors import WrongInput
from lagless.packing import kernels
from lagless.packing.inputs import Consumers, Speeds
from lagless.packing.kernels import kernel, packer, shorthand


@kernel
def fit(speeds: Speeds, capacity: float, previous: Consumers, rule: int) -> Consumers:
    """Place the partitions in the list's order by a rule, in O(n log n)."""
    before, high = kernels.slots(previous)
    return kernels.numbers(placed(speeds, capacity, before, len(high), rule), high)


@kernel
def fit_decreasing(speeds: Speeds, capacity: float, previous: Consumers, rule: int) -> Consumers:
    """Place the partitions by decreasing speed by a rule, in O(n log n)."""
    order, rates = kernels.ranked(speeds)
    before, high = kernels.slots(previous)
    slots = placed(rates, capacity, kernels.gathered(before, order), len(high), rule)
    return kernels.numbers(kernels.scattered(slots, order), high)


@kernel
def placed(
    speeds: Speeds, capacity: float, before: kernels.Slots, high: int, rule: int
) -> kernels.Slots:
    """Return the slots in which a rule places the partitions; `high` counts the high numbers."""
    count = len(speeds) + high
    held, links, counts = kernels.empty(rule, count)
    used, lowest = np.zeros(count, np.bool_), np.zeros(1, np.int64)
    result = kernels.large(np.empty(len(speeds), np.int32))
    for j in range(len(speeds)):
        slot = kernels.join(rule, held, links, counts, capacity, speeds[j])
        if slot < 0:
            previous = -1 if rule == kernels.LOWEST and j == 0 else before[j]
            slot = kernels.unused(used, lowest, previous)
            kernels.create(rule, held, links, counts, capacity, slot, speeds[j])
        result[j] = slot
    return result


# Next Fit: only the consumer created last is open.
nf = packer(fit, kernels.NEXT)
nfd = packer(fit_decreasing, kernels.NEXT)
nf_lowest = packer(fit, kernels.LOWEST)
nfd_lowest = packer(fit_decreasing, kernels.LOWEST)
ff = packer(fit, kernels.FIRST)
ffd = packer(fit_decreasing, kernels.FIRST)
bf = packer(fit, kernels.BEST)
bfd = packer(fit_decreasing, kernels.BEST)
wf = packer(fit, kernels.WORST)
wfd = packer(fit_decreasing, kernels.WORST)


@shorthand
def ezzeddine(speeds: Speeds, capacity: float, previous: Consumers) -> Consumers:
    """Pack by First Fit Decreasing as if there were no previous consumers (Ezzeddine et al.)."""
    return ffd(speeds, capacity, np.zeros_like(previous))


def kd(speeds: Speeds, capacity: float, previous: Consumers, *, n: int) -> Consumers:
    """Deal the list out to n consumers as Kafka does, whatever the speeds: i to i mod n + 1."""
    if n < 1:
        raise WrongInput(f"kd_<n> needs at least one consumer, not {n}")
    return np.arange(len(speeds), dtype=np.int64) % n + 1


def next_fit(
    speeds: Speeds, capacity: float, previous: Consumers, *, first: str = "previous"
) -> Consumers:
    """Pack by Next Fit.

    `first` is the consumer that is opened first: "previous" is h(j, k), as in the paper's text;
    "lowest" is consumer 1, as in the program that the paper's published numbers come from.
    """
    return {"previous": nf, "lowest": nf_lowest}[_checked(first)](speeds, capacity, previous)


def next_fit_decreasing(
    speeds: Speeds, capacity: float, previous: Consumers, *, first: str = "previous"
) -> Consumers:
    """Pack by Next Fit Decreasing; `first` as in `next_fit`."""
    return {"previous": nfd, "lowest": nfd_lowest}[_checked(first)](speeds, capacity, previous)


def _checked(first: str) -> str:
    if first not in ("previous", "lowest"):
        raise WrongInput(f"Next Fit's parameter 'first' is previous or lowest, not {first!r}")
    return first
