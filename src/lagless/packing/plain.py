"""The paper's algorithms, defined plainly: to be read beside the paper, and to check the kernels.

Every question is answered by looking at all consumers, in O(nB) for n partitions and B consumers.
The fast twins in `anyfit` and `modified` give the same answers, which the exam in tests/packing
checks. Nothing is compiled here, so `pack` can answer while the twins still are.

The paper's symbols: partition j of the list P has the speed s_j(t_k) in speeds[j] and the previous
consumer g(j, k) in previous[j], 0 if it had none. C is the capacity. Consumers i of B are numbers
from 1. Where the paper leaves room:

- A partition fits if load + s ≤ C in float64, the load summed from 0 in the order of placement. So
  nothing joins a partition faster than C, which alone is a load above C; not even speed 0 does.
- First Fit takes the lowest number that fits; Best and Worst Fit break ties by the lowest number.
- Of equal speeds, the partition that comes first in the list is placed first. Of equal consumers,
  the one with the lower number comes first; their cumulative speed is summed in the list's order.
- Next Fit opens its first consumer by h(j, k) like any other. The paper's published numbers follow
  where the first one is always consumer 1: first="lowest".
- "Unused" means not opened in this iteration, even if it is another partition's previous consumer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from lagless.errors import WrongInput
from lagless.packing.inputs import Consumers, Speeds


class Group:
    """The consumers opened in this iteration, y_i(t_k) = 1, and the partitions assigned to them."""

    def __init__(self, speeds: Sequence[float], capacity: float, previous: Sequence[int]) -> None:
        self.speeds = speeds
        self.capacity = capacity
        self.previous = previous
        self.load: dict[int, float] = {}
        """Each open consumer's load; the consumers are in the order of their creation."""
        self.assignment: dict[int, int] = {}

    def fits(self, i: int, j: int) -> bool:
        """Return whether partition j fits into the open consumer i."""
        return self.load[i] + self.speeds[j] <= self.capacity

    def assign(self, i: int, j: int) -> None:
        """Assign partition j to the open consumer i."""
        self.load[i] += self.speeds[j]
        self.assignment[j] = i

    def create(self, i: int) -> None:
        """Open consumer i, with no partitions yet."""
        self.load[i] = 0.0

    def f(self) -> int:
        """Return the unused consumer with the lowest number: equation f(k)."""
        return next(i for i in range(1, len(self.load) + 2) if i not in self.load)

    def h(self, j: int) -> int:
        """Return the consumer to create for partition j: equation h(j, k)."""
        g = self.previous[j]
        return g if g > 0 and g not in self.load else self.f()

    def assign_open(self, j: int, rule: "Rule") -> bool:
        """Assign partition j to an open consumer by the rule; return whether one has room."""
        i = rule(self, j)
        if i is None:
            return False
        self.assign(i, j)
        return True

    def place(self, j: int, rule: "Rule") -> None:
        """Assign partition j by the rule, in a new consumer if it fits no open one."""
        if not self.assign_open(j, rule):
            i = self.h(j)
            self.create(i)
            self.assign(i, j)


Rule: TypeAlias = Callable[[Group, int], int | None]
"""Choose the open consumer for a partition, or None if it fits none of those that may take it."""


def next_fit(group: Group, j: int) -> int | None:
    """Choose the consumer created last, the only one that is open to Next Fit."""
    last = next(reversed(group.load), None)
    return last if last is not None and group.fits(last, j) else None


def first_fit(group: Group, j: int) -> int | None:
    """Choose the consumer with the lowest number that fits."""
    return min((i for i in group.load if group.fits(i, j)), default=None)


def best_fit(group: Group, j: int) -> int | None:
    """Choose the fullest consumer that fits."""
    fitting = (i for i in group.load if group.fits(i, j))
    return min(fitting, key=lambda i: (-group.load[i], i), default=None)


def worst_fit(group: Group, j: int) -> int | None:
    """Choose the emptiest consumer that fits."""
    fitting = (i for i in group.load if group.fits(i, j))
    return min(fitting, key=lambda i: (group.load[i], i), default=None)


def decreasing(speeds: Sequence[float], partitions: Iterable[int]) -> list[int]:
    """Sort partitions by decreasing speed, equals in the list's order."""
    return sorted(partitions, key=lambda j: (-speeds[j], j))


def any_fit(group: Group, rule: Rule, order: Iterable[int]) -> None:
    """Place partitions in an order by a rule.

    Sections "Approximation Algorithms" and "Approximation Algorithms Adaptation".
    """
    for j in order:
        group.place(j, rule)


SortKey: TypeAlias = Callable[[Sequence[float]], float]
"""The key of a previous consumer, from the speeds of its partitions in the list's order."""


def cumulative(speeds: Sequence[float]) -> float:
    """Return the sum of the speeds, rounded after each addition."""
    total = 0.0
    for speed in speeds:
        total += speed
    return total


def modified(group: Group, rule: Rule, key: SortKey) -> None:
    """Place all partitions by Algorithm 1, whose lines the comments name.

    Section "Modified Any Fit"; table "Modified implementations" has the rules and keys.

    The paper leaves open what happens if the first partition does not fit into the consumer that
    was created for it (line 19): it is accepted.
    """
    current: dict[int, list[int]] = {}
    unassigned: list[int] = []
    for j, consumer in enumerate(group.previous):
        if consumer > 0:
            current.setdefault(consumer, []).append(j)
        else:
            unassigned.append(j)
    keys = {c: key([group.speeds[j] for j in pset]) for c, pset in current.items()}
    for c in sorted(current, key=lambda c: (-keys[c], c)):  # 2, 3
        pset = decreasing(group.speeds, current[c])  # 4, 5
        while pset and group.assign_open(pset[-1], rule):  # 6 to 13, slowest first
            pset.pop()
        if not pset:  # 14 to 16
            continue
        group.create(c)  # 17
        group.assign(c, pset.pop(0))
        while pset and group.fits(c, pset[0]):  # 18 to 24, fastest first
            group.assign(c, pset.pop(0))
        unassigned.extend(pset)  # 25
    for j in decreasing(group.speeds, unassigned):  # 27 to 30
        group.place(j, rule)


def kd(partitions: int, n: int) -> list[int]:
    """Deal partitions out to n consumers: section "Comparison with Kafka's Assignment Strategy"."""
    if n < 1:
        raise WrongInput(f"kd_<n> needs at least one consumer, not {n}")
    return [j % n + 1 for j in range(partitions)]


ANY_FIT: dict[str, Rule] = {"nf": next_fit, "ff": first_fit, "bf": best_fit, "wf": worst_fit}
"""The rules of the online algorithms; nfd, ffd, bfd and wfd apply them by decreasing speed."""
MODIFIED: dict[str, tuple[Rule, SortKey]] = {
    "mwf": (worst_fit, cumulative),
    "mbf": (best_fit, cumulative),
    "mwfp": (worst_fit, max),
    "mbfp": (best_fit, max),
}
"""Table "Modified implementations of the any fit algorithms"."""
PAPER = (*(name + suffix for name in ANY_FIT for suffix in ("", "d")), *MODIFIED)
"""The twelve algorithms that the paper evaluates."""
ALGORITHMS = (*PAPER, "kd_<n>", "ezzeddine")


def pack(
    speeds: Speeds,
    capacity: float,
    previous: Consumers,
    /,
    *,
    algorithm: str,
    n: int = 1,
    first: str = "previous",
) -> Consumers:
    """Pack by one of ALGORITHMS; but for that parameter this is a `Packer` of the registry.

    `n` is the number of consumers of kd_<n>, `first` what nf and nfd open first.
    """
    if algorithm not in ALGORITHMS:
        raise WrongInput(f"{algorithm!r} has no plain definition; {', '.join(ALGORITHMS)} have one")
    if algorithm == "kd_<n>":
        return np.array(kd(len(speeds), n), np.int64)
    if algorithm == "ezzeddine":  # section "Consumer Group Autoscaling"
        return pack(speeds, capacity, np.zeros_like(previous), algorithm="ffd")
    partitions = range(len(speeds))
    order = decreasing(speeds.tolist(), partitions) if algorithm.endswith("d") else partitions
    before = previous.tolist()
    if first == "lowest" and before:
        before[order[0]] = 0
    group = Group(speeds.tolist(), capacity, before)
    if algorithm in MODIFIED:
        modified(group, *MODIFIED[algorithm])
    else:
        any_fit(group, ANY_FIT[algorithm.removesuffix("d")], order)
    return np.array([group.assignment[j] for j in partitions], np.int64)
