"""Best Fit's open consumers: their loads in order, in a tree with up to 32 branches a node.

Entries are ordered by load and then by falling slot, so that the last one that fits is the fullest
and the lowest of equals. Loads that are near each other lie side by side in memory, and Best Fit
leaves a consumer nearly full: most steps stay where the last ones were.

1. Node i has its entries' loads at loads[32i …], and in links, from 65i: their number, their
   slots, and, above the leaves, the child below each entry.
2. An entry above the leaves is the least one of its child. So if it fits, something there does.
3. No node but the root of an empty tree is empty. A node that runs empty is left out of the tree;
   nodes are not merged otherwise. Each partition is inserted once, and a split takes 16 inserts,
   so there are never more than n/15 nodes, and O(log n) levels.
4. counts holds the root, the levels above the leaves, the nodes in use, and then the way that
   `take` went: on each level the node and the place of its entry.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import pages
from lagless.packing.compiled import kernel

Loads: TypeAlias = NDArray[np.float64]
Links: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.int64]

WIDTH = 32
HALF = WIDTH // 2
STRIDE = 2 * WIDTH + 1
ROOT, LEVELS, NODES, WAY = 0, 1, 2, 3


@kernel
def empty(partitions: int) -> tuple[Loads, Links, Counts]:
    """Return the tree without entries, for that many inserts."""
    nodes = partitions // (HALF - 1) + 16
    links = pages.large(np.empty(nodes * STRIDE, np.int32))
    links[0] = 0
    counts = np.zeros(64, np.int64)
    counts[NODES] = 1
    return pages.lined_up(nodes * WIDTH, 0), links, counts


@kernel
def last_fitting(loads: Loads, links: Links, node: int, speed: float, capacity: float) -> int:
    """Return the last place in a node whose entry fits, or -1.

    All entries are looked at: the lines of the cache come side by side, and there is no branch to
    guess, so this is quicker than bisection. Unsigned numbers spare the check for negative ones.
    """
    first = np.uintp(node * WIDTH)
    fitting = 0
    for i in range(np.uintp(links[node * STRIDE])):
        fitting += loads[first + i] + speed <= capacity
    return fitting - 1


@kernel
def last_before(loads: Loads, links: Links, node: int, load: float, slot: int) -> int:
    """Return the last place in a node whose entry comes before another one, or -1."""
    first, size = np.uintp(node * WIDTH), links[node * STRIDE]
    less = 0
    for i in range(np.uintp(size)):
        less += loads[first + i] < load
    while less < size and loads[node * WIDTH + less] == load:
        if links[node * STRIDE + 1 + less] < slot:
            break
        less += 1
    return less - 1


@kernel
def find(loads: Loads, links: Links, counts: Counts, speed: float, capacity: float) -> int:
    """Go to the entry of the highest load where load + speed ≤ capacity; return its slot, or -1."""
    node = counts[ROOT]
    place = last_fitting(loads, links, node, speed, capacity)
    if place < 0:
        return -1
    for level in range(counts[LEVELS]):
        counts[WAY + 2 * level] = node
        counts[WAY + 2 * level + 1] = place
        node = links[node * STRIDE + 1 + WIDTH + place]
        place = last_fitting(loads, links, node, speed, capacity)
    counts[WAY + 2 * counts[LEVELS]] = node
    counts[WAY + 2 * counts[LEVELS] + 1] = place
    return int(links[node * STRIDE + 1 + place])


@kernel
def take(loads: Loads, links: Links, counts: Counts) -> float:
    """Take out the entry that `find` went to; return its load."""
    level = counts[LEVELS]
    node, place = counts[WAY + 2 * level], counts[WAY + 2 * level + 1]
    found: float = loads[node * WIDTH + place]
    erase(loads, links, node, place, level < counts[LEVELS])
    while level > 0 and (place == 0 or links[node * STRIDE] == 0):
        level -= 1
        above, at = counts[WAY + 2 * level], counts[WAY + 2 * level + 1]
        if links[node * STRIDE] == 0:
            erase(loads, links, above, at, True)
        else:  # the least entry of the node is another one now
            loads[above * WIDTH + at] = loads[node * WIDTH]
            links[above * STRIDE + 1 + at] = links[node * STRIDE + 1]
        node, place = above, at
    if links[counts[ROOT] * STRIDE] == 0:
        counts[LEVELS] = 0
    return found


@kernel
def erase(loads: Loads, links: Links, node: int, place: int, inner: bool) -> None:
    """Take an entry out of a node."""
    size = links[node * STRIDE] - 1
    links[node * STRIDE] = size
    for i in range(node * WIDTH + place, node * WIDTH + size):
        loads[i] = loads[i + 1]
    slots = node * STRIDE + 1
    for i in range(slots + place, slots + size):
        links[i] = links[i + 1]
    if inner:
        for i in range(slots + WIDTH + place, slots + WIDTH + size):
            links[i] = links[i + 1]


@kernel
def write(
    loads: Loads, links: Links, node: int, place: int, load: float, slot: int, child: int
) -> None:
    """Put an entry into a node that is not full; child is -1 in a leaf."""
    size = links[node * STRIDE]
    links[node * STRIDE] = size + 1
    for i in range(node * WIDTH + size, node * WIDTH + place, -1):
        loads[i] = loads[i - 1]
    slots = node * STRIDE + 1
    for i in range(slots + size, slots + place, -1):
        links[i] = links[i - 1]
    loads[node * WIDTH + place] = load
    links[slots + place] = slot
    if child >= 0:
        for i in range(slots + WIDTH + size, slots + WIDTH + place, -1):
            links[i] = links[i - 1]
        links[slots + WIDTH + place] = child


@kernel
def split(loads: Loads, links: Links, counts: Counts, above: int, place: int) -> None:
    """Move the upper half of a full node into a new one, to the right of it."""
    node = links[above * STRIDE + 1 + WIDTH + place]
    new = counts[NODES]
    counts[NODES] += 1
    links[node * STRIDE] = HALF
    links[new * STRIDE] = HALF
    for i in range(HALF):
        loads[new * WIDTH + i] = loads[node * WIDTH + HALF + i]
    for part in (1, 1 + WIDTH):  # in leaves there are no children, and nobody looks
        for i in range(part, part + HALF):
            links[new * STRIDE + i] = links[node * STRIDE + HALF + i]
    write(loads, links, above, place + 1, loads[new * WIDTH], links[new * STRIDE + 1], new)


@kernel
def insert(loads: Loads, links: Links, counts: Counts, slot: int, load: float) -> None:
    """Add an entry, splitting the full nodes on the way down."""
    node = counts[ROOT]
    if links[node * STRIDE] == WIDTH:
        root = counts[NODES]
        counts[NODES] += 1
        links[root * STRIDE] = 0
        write(loads, links, root, 0, loads[node * WIDTH], links[node * STRIDE + 1], node)
        counts[ROOT] = node = root
        counts[LEVELS] += 1
        split(loads, links, counts, root, 0)
    for _ in range(counts[LEVELS]):
        place = max(0, last_before(loads, links, node, load, slot))
        if links[links[node * STRIDE + 1 + WIDTH + place] * STRIDE] == WIDTH:
            split(loads, links, counts, node, place)
            place = max(0, last_before(loads, links, node, load, slot))
        if place == 0 and last_before(loads, links, node, load, slot) < 0:
            loads[node * WIDTH] = load
            links[node * STRIDE + 1] = slot
        node = links[node * STRIDE + 1 + WIDTH + place]
    write(loads, links, node, last_before(loads, links, node, load, slot) + 1, load, slot, -1)
