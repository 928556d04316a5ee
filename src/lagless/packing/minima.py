"""First Fit's open consumers: a tree of minima with 32 branches a node, over slots.

Finds the lowest slot whose load leaves room, in O(log B). Loads of slots that are not open are
infinite, so nothing fits there.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import pages
from lagless.packing.compiled import kernel

Tree: TypeAlias = NDArray[np.float64]

WIDTH = 32


@kernel
def leaves(slots: int) -> int:
    """Give the number of leaves, a power of 32, that holds that many slots."""
    count = 1
    while count < slots:
        count *= WIDTH
    return count


@kernel
def empty(slots: int) -> Tree:
    """Return the tree of a group without consumers.

    The children of node i are 32i+1 … 32i+32, in whole lines of the cache.
    """
    tree = pages.lined_up((WIDTH * leaves(slots) - 1) // (WIDTH - 1), 1)
    tree[:] = np.inf
    return tree


@kernel
def find(tree: Tree, speed: float, capacity: float) -> int:
    """Return the lowest slot where load + speed ≤ capacity, or -1.

    Rounded addition is monotone in the load, so a node's least load tells for all below it.
    """
    if tree[0] + speed > capacity:
        return -1
    inner = len(tree) // WIDTH
    node = 0
    while node < inner:
        node = WIDTH * node + 1
        while tree[node] + speed > capacity:
            node += 1
    return node - inner


@kernel
def load(tree: Tree, slot: int) -> float:
    """Return the load of a slot."""
    held: float = tree[len(tree) // WIDTH + slot]
    return held


@kernel
def put(tree: Tree, slot: int, load: float) -> None:
    """Set the load of a slot."""
    node = len(tree) // WIDTH + slot
    tree[node] = load
    while node > 0:
        node = (node - 1) // WIDTH
        least = tree[WIDTH * node + 1]
        for child in range(WIDTH * node + 2, WIDTH * node + WIDTH + 1):
            least = min(least, tree[child])
        if tree[node] == least:
            return
        tree[node] = least
