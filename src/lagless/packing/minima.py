"""First Fit's open consumers: a tree of minima with eight branches a node, over slots.

Finds the lowest slot whose load leaves room, in O(log B). Loads of slots that are not open are
infinite, so nothing fits there.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import pages
from lagless.packing.compiled import kernel

Tree: TypeAlias = NDArray[np.float64]


@kernel
def leaves(slots: int) -> int:
    """Give the number of leaves, a power of eight, that holds that many slots."""
    count = 1
    while count < slots:
        count *= 8
    return count


@kernel
def empty(slots: int) -> Tree:
    """Return the tree of a group without consumers.

    The children of node i are 8i+1 … 8i+8, in one line of the cache.
    """
    tree = pages.lined_up((8 * leaves(slots) - 1) // 7, 1)
    tree[:] = np.inf
    return tree


@kernel
def find(tree: Tree, speed: float, capacity: float) -> int:
    """Return the lowest slot where load + speed ≤ capacity, or -1.

    Rounded addition is monotone in the load, so a node's least load tells for all below it.
    """
    if tree[0] + speed > capacity:
        return -1
    inner = len(tree) // 8
    node = 0
    while node < inner:
        node = 8 * node + 1
        while tree[node] + speed > capacity:
            node += 1
    return node - inner


@kernel
def load(tree: Tree, slot: int) -> float:
    """Return the load of a slot."""
    held: float = tree[len(tree) // 8 + slot]
    return held


@kernel
def put(tree: Tree, slot: int, load: float) -> None:
    """Set the load of a slot."""
    node = len(tree) // 8 + slot
    tree[node] = load
    while node > 0:
        node = (node - 1) >> 3
        least = tree[8 * node + 1]
        for child in range(8 * node + 2, 8 * node + 9):
            least = min(least, tree[child])
        if tree[node] == least:
            return
        tree[node] = least
