"""Best Fit's open consumers: a B+-tree of their loads with up to 256 entries per node.

Entries are ordered by load, and equal loads by falling slot: the last entry that fits is then the
fullest consumer, and of equals the one with the lowest number. No slot occurs twice. Entries are
in order in the nodes above the leaves, and from leaf to leaf; within a leaf they are not sorted.
Best Fit leaves most consumers nearly full, where hardly any partition fits: their entries are
appended to leaves that are seldom scanned, and the ends of all leaves fit into the cache.

1. Node i keeps its entries' loads in loads[256i …]. From 512i on, links holds their slots and,
   above the leaves, 256 further on, the child below each entry. counts[SIZES + i] is the number
   of entries.
2. An entry above the leaves is a copy of its child's least entry. If it fits, so does something
   below it.
3. Only the root may be empty, and only in an empty tree. A node that becomes empty is dropped from
   the tree; other nodes are never merged. Each partition is inserted once, and a node is split
   after 96 inserts or more, so there are at most n/95 nodes on O(log n) levels.
4. counts holds the root, the number of levels above the leaves, the number of nodes in use, the
   path that `find` took (per level the node and the position of its entry), and the nodes' sizes.

A node is always scanned as a whole: its cache lines are fetched side by side, and a loop without
branches is vectorized. Loads are not negative, so their bits compare as the loads do, and integer
comparison spares the checks for NaN; unsigned positions spare those for negative indices.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing.kernels.compiled import aligned, kernel, large

Loads: TypeAlias = NDArray[np.float64]
Links: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.int64]

WIDTH = 256
HALF = WIDTH // 2
LEAST = 3 * WIDTH // 8
STRIDE = 2 * WIDTH
ROOT, LEVELS, NODES, PATH, SIZES = 0, 1, 2, 3, 64


@kernel
def empty(partitions: int) -> tuple[Loads, Links, Counts]:
    """Return an empty tree with memory for one insert per partition."""
    nodes = partitions // (LEAST - 1) + 16
    counts = np.zeros(SIZES + nodes, np.int64)
    counts[NODES] = 1
    links = large(np.empty(nodes * STRIDE, np.int32))
    return aligned(nodes * WIDTH, 0), links, counts


@kernel
def last_fitting(loads: Loads, counts: Counts, node: int, speed: float, capacity: float) -> int:
    """Return the position of the last entry that fits in a node above the leaves, or -1."""
    first = np.uintp(node * WIDTH)
    fitting = 0
    for i in range(np.uintp(counts[SIZES + node])):
        fitting += loads[first + i] + speed <= capacity
    return fitting - 1


@kernel
def last_before(
    loads: Loads, links: Links, counts: Counts, node: int, load: float, slot: int
) -> int:
    """Return the position of the last entry before this one in a node above the leaves, or -1."""
    first, size = np.uintp(node * WIDTH), counts[SIZES + node]
    less = 0
    for i in range(np.uintp(size)):
        less += loads[first + i] < load
    while less < size and loads[node * WIDTH + less] == load:
        if links[node * STRIDE + less] < slot:
            break
        less += 1
    return less - 1


@kernel
def fullest(
    loads: Loads, links: Links, counts: Counts, leaf: int, speed: float, capacity: float
) -> int:
    """Return the position of the last entry, in tree order, that fits in a leaf, or -1."""
    bits, first = loads.view(np.int64), np.uintp(leaf * WIDTH)
    most = -1
    for i in range(np.uintp(counts[SIZES + leaf])):
        fits = loads[first + i] + speed <= capacity
        most = max(most, int(bits[first + i]) if fits else -1)
    return at_load(bits, links, counts, leaf, most, 1)


@kernel
def least(loads: Loads, links: Links, counts: Counts, leaf: int) -> int:
    """Return the position of the first entry, in tree order, in a leaf."""
    bits, first = loads.view(np.int64), np.uintp(leaf * WIDTH)
    low = bits[first]
    for i in range(np.uintp(counts[SIZES + leaf])):
        low = min(low, bits[first + i])
    return at_load(bits, links, counts, leaf, low, -1)


@kernel
def at_load(bits: Counts, links: Links, counts: Counts, leaf: int, load: int, sign: int) -> int:
    """Return the position of the entry with this load, or -1.

    Of equals it is the one with the lowest slot, or with sign -1 the one with the highest.
    """
    first, slots, size = np.uintp(leaf * WIDTH), leaf * STRIDE, counts[SIZES + leaf]
    equal, at = 0, np.intp(0)
    for i in range(np.uintp(size)):
        here = bits[first + i] == load
        equal += here
        at += np.intp(i) if here else np.intp(0)
    if equal == 1:
        return int(at)
    position = -1
    for i in range(size):
        if bits[leaf * WIDTH + i] == load and (
            position < 0 or sign * links[slots + i] < sign * links[slots + position]
        ):
            position = i
    return position


@kernel
def find(loads: Loads, links: Links, counts: Counts, speed: float, capacity: float) -> int:
    """Find the fullest consumer where load + speed ≤ capacity; return its slot, or -1."""
    node = counts[ROOT]
    for level in range(counts[LEVELS]):
        position = last_fitting(loads, counts, node, speed, capacity)
        if position < 0:
            return -1
        counts[PATH + 2 * level] = node
        counts[PATH + 2 * level + 1] = position
        node = links[node * STRIDE + WIDTH + position]
    position = fullest(loads, links, counts, node, speed, capacity)
    if position < 0:
        return -1
    counts[PATH + 2 * counts[LEVELS]] = node
    counts[PATH + 2 * counts[LEVELS] + 1] = position
    return int(links[node * STRIDE + position])


@kernel
def take(loads: Loads, links: Links, counts: Counts) -> float:
    """Remove the entry that `find` returned last, and return its load."""
    level = counts[LEVELS]
    node, position = counts[PATH + 2 * level], counts[PATH + 2 * level + 1]
    load: float = loads[node * WIDTH + position]
    slot = links[node * STRIDE + position]
    counts[SIZES + node] -= 1
    size = counts[SIZES + node]
    loads[node * WIDTH + position] = loads[node * WIDTH + size]
    links[node * STRIDE + position] = links[node * STRIDE + size]
    while level > 0:
        level -= 1
        above, at = counts[PATH + 2 * level], counts[PATH + 2 * level + 1]
        if loads[above * WIDTH + at] != load or links[above * STRIDE + at] != slot:
            break
        if counts[SIZES + node] == 0:
            erase(loads, links, counts, above, at)
        else:  # the removed entry was the least of the node
            first = least(loads, links, counts, node) if level + 1 == counts[LEVELS] else 0
            loads[above * WIDTH + at] = loads[node * WIDTH + first]
            links[above * STRIDE + at] = links[node * STRIDE + first]
        node = above
    if counts[SIZES + counts[ROOT]] == 0:
        counts[LEVELS] = 0
    return load


@kernel
def erase(loads: Loads, links: Links, counts: Counts, node: int, position: int) -> None:
    """Remove an entry from a node above the leaves."""
    counts[SIZES + node] -= 1
    size = counts[SIZES + node]
    for i in range(node * WIDTH + position, node * WIDTH + size):
        loads[i] = loads[i + 1]
    for part in (0, WIDTH):
        for i in range(node * STRIDE + part + position, node * STRIDE + part + size):
            links[i] = links[i + 1]


@kernel
def write(
    loads: Loads, links: Links, counts: Counts, node: int, position: int, child: int, first: int
) -> None:
    """Insert the entry of a child, whose least entry is at `first`, into a node that has room."""
    size = counts[SIZES + node]
    counts[SIZES + node] += 1
    for i in range(node * WIDTH + size, node * WIDTH + position, -1):
        loads[i] = loads[i - 1]
    for part in (0, WIDTH):
        for i in range(node * STRIDE + part + size, node * STRIDE + part + position, -1):
            links[i] = links[i - 1]
    loads[node * WIDTH + position] = loads[child * WIDTH + first]
    links[node * STRIDE + position] = links[child * STRIDE + first]
    links[node * STRIDE + WIDTH + position] = child


@kernel
def middle(loads: Loads, links: Links, leaf: int) -> int:
    """Return the position of an entry that splits a full leaf no worse than three to five.

    A quarter of the entries do, so few are tried.
    """
    first, slots = np.uintp(leaf * WIDTH), np.uintp(leaf * STRIDE)
    position = HALF
    while True:
        load, slot = loads[leaf * WIDTH + position], links[leaf * STRIDE + position]
        before = 0
        for i in range(np.uintp(WIDTH)):
            before += loads[first + i] < load
            before += loads[first + i] == load and links[slots + i] > slot
        if LEAST <= before <= WIDTH - LEAST:
            return position
        position = (position + 1) % WIDTH


@kernel
def split(
    loads: Loads, links: Links, counts: Counts, above: int, position: int, leaf: bool
) -> None:
    """Move about the upper half of a full node into a new node to its right."""
    node, new = links[above * STRIDE + WIDTH + position], counts[NODES]
    counts[NODES] += 1
    at = middle(loads, links, node) if leaf else HALF
    load, slot = loads[node * WIDTH + at], links[node * STRIDE + at]
    kept, moved, first = 0, 0, 0
    for i in range(WIDTH):
        other, other_slot = loads[node * WIDTH + i], links[node * STRIDE + i]
        if other > load or (other == load and other_slot <= slot):
            if other_slot == slot:
                first = moved
            to, at, moved = new, moved, moved + 1
        else:
            to, at, kept = node, kept, kept + 1
        loads[to * WIDTH + at] = other
        links[to * STRIDE + at] = other_slot
        if not leaf:
            links[to * STRIDE + WIDTH + at] = links[node * STRIDE + WIDTH + i]
    counts[SIZES + node], counts[SIZES + new] = kept, moved
    write(loads, links, counts, above, position + 1, new, first)


@kernel
def insert(loads: Loads, links: Links, counts: Counts, slot: int, load: float) -> None:
    """Insert an entry, splitting the full nodes on the path down."""
    load += 0.0  # -0.0 becomes 0.0: their bits differ
    node = counts[ROOT]
    if counts[SIZES + node] == WIDTH:
        leaf = counts[LEVELS] == 0
        root = counts[NODES]
        counts[NODES] += 1
        counts[SIZES + root] = 0
        write(loads, links, counts, root, 0, node, least(loads, links, counts, node) if leaf else 0)
        counts[ROOT] = node = root
        counts[LEVELS] += 1
        split(loads, links, counts, root, 0, leaf)
    for level in range(counts[LEVELS]):
        position = last_before(loads, links, counts, node, load, slot)
        if counts[SIZES + links[node * STRIDE + WIDTH + max(0, position)]] == WIDTH:
            split(loads, links, counts, node, max(0, position), level + 1 == counts[LEVELS])
            position = last_before(loads, links, counts, node, load, slot)
        if position < 0:
            position = 0
            loads[node * WIDTH] = load
            links[node * STRIDE] = slot
        node = links[node * STRIDE + WIDTH + position]
    size = counts[SIZES + node]
    counts[SIZES + node] += 1
    loads[node * WIDTH + size] = load
    links[node * STRIDE + size] = slot
