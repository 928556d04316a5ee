"""Best Fit's open consumers: their loads in a tree with up to 256 branches a node.

Entries come by load and then by falling slot, so that the last one that fits is the fullest and
the lowest of equals; no slot comes twice. The nodes are in that order and so are the entries above
the leaves; within a leaf there is no order. Best Fit leaves most consumers nearly full, where
hardly any partition fits: they are put at the end of leaves that are seldom read, and the ends of
all leaves stay in the processor's cache.

1. Node i has its entries' loads at loads[256i …], and in links, from 512i: their slots and, above
   the leaves, the child below each entry. Their number is counts[SIZES + i].
2. An entry above the leaves is the least one of its child. So if it fits, something there does.
3. No node but the root of an empty tree is empty. A node that runs empty is left out of the tree;
   nodes are not merged otherwise. Each partition is inserted once, and a split takes 96 inserts
   or more, so there are never more than n/95 nodes, and O(log n) levels.
4. counts holds the root, the levels above the leaves, the nodes in use, the way that `find` went
   (on each level the node and the place of its entry), and then the nodes' sizes.

A node is looked through as a whole: its lines of the cache come side by side, and without a branch
to guess the processor takes several entries at a time. Loads are not negative, so their bits are
ordered as they are, and integers spare the questions about NaN; unsigned places spare those about
negative ones.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing import pages
from lagless.packing.compiled import kernel

Loads: TypeAlias = NDArray[np.float64]
Links: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.int64]

WIDTH = 256
HALF = WIDTH // 2
LEAST = 3 * WIDTH // 8
STRIDE = 2 * WIDTH
ROOT, LEVELS, NODES, WAY, SIZES = 0, 1, 2, 3, 64


@kernel
def empty(partitions: int) -> tuple[Loads, Links, Counts]:
    """Return the tree without entries, for that many inserts."""
    nodes = partitions // (LEAST - 1) + 16
    counts = np.zeros(SIZES + nodes, np.int64)
    counts[NODES] = 1
    links = pages.large(np.empty(nodes * STRIDE, np.int32))
    return pages.lined_up(nodes * WIDTH, 0), links, counts


@kernel
def last_fitting(loads: Loads, counts: Counts, node: int, speed: float, capacity: float) -> int:
    """Return the last place in a node above the leaves whose entry fits, or -1."""
    first = np.uintp(node * WIDTH)
    fitting = 0
    for i in range(np.uintp(counts[SIZES + node])):
        fitting += loads[first + i] + speed <= capacity
    return fitting - 1


@kernel
def last_before(
    loads: Loads, links: Links, counts: Counts, node: int, load: float, slot: int
) -> int:
    """Return the last place in a node above the leaves whose entry comes before another, or -1."""
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
    """Return the place of a leaf's last entry that fits, or -1."""
    bits, first = loads.view(np.int64), np.uintp(leaf * WIDTH)
    most = -1
    for i in range(np.uintp(counts[SIZES + leaf])):
        fits = loads[first + i] + speed <= capacity
        most = max(most, int(bits[first + i]) if fits else -1)
    return at_load(bits, links, counts, leaf, most, 1)


@kernel
def least(loads: Loads, links: Links, counts: Counts, leaf: int) -> int:
    """Return the place of a leaf's first entry."""
    bits, first = loads.view(np.int64), np.uintp(leaf * WIDTH)
    low = bits[first]
    for i in range(np.uintp(counts[SIZES + leaf])):
        low = min(low, bits[first + i])
    return at_load(bits, links, counts, leaf, low, -1)


@kernel
def at_load(bits: Counts, links: Links, counts: Counts, leaf: int, load: int, sign: int) -> int:
    """Return the place of the entry with a load, or -1; sign -1: of equals the highest slot."""
    first, slots, size = np.uintp(leaf * WIDTH), leaf * STRIDE, counts[SIZES + leaf]
    equal, at = 0, np.intp(0)
    for i in range(np.uintp(size)):
        here = bits[first + i] == load
        equal += here
        at += np.intp(i) if here else np.intp(0)
    if equal == 1:
        return int(at)
    place = -1
    for i in range(size):
        if bits[leaf * WIDTH + i] == load and (
            place < 0 or sign * links[slots + i] < sign * links[slots + place]
        ):
            place = i
    return place


@kernel
def find(loads: Loads, links: Links, counts: Counts, speed: float, capacity: float) -> int:
    """Go to the entry of the highest load where load + speed ≤ capacity; return its slot, or -1."""
    node = counts[ROOT]
    for level in range(counts[LEVELS]):
        place = last_fitting(loads, counts, node, speed, capacity)
        if place < 0:
            return -1
        counts[WAY + 2 * level] = node
        counts[WAY + 2 * level + 1] = place
        node = links[node * STRIDE + WIDTH + place]
    place = fullest(loads, links, counts, node, speed, capacity)
    if place < 0:
        return -1
    counts[WAY + 2 * counts[LEVELS]] = node
    counts[WAY + 2 * counts[LEVELS] + 1] = place
    return int(links[node * STRIDE + place])


@kernel
def take(loads: Loads, links: Links, counts: Counts) -> float:
    """Take out the entry that `find` went to; return its load."""
    level = counts[LEVELS]
    node, place = counts[WAY + 2 * level], counts[WAY + 2 * level + 1]
    load: float = loads[node * WIDTH + place]
    slot = links[node * STRIDE + place]
    counts[SIZES + node] -= 1
    size = counts[SIZES + node]
    loads[node * WIDTH + place] = loads[node * WIDTH + size]
    links[node * STRIDE + place] = links[node * STRIDE + size]
    while level > 0:
        level -= 1
        above, at = counts[WAY + 2 * level], counts[WAY + 2 * level + 1]
        if loads[above * WIDTH + at] != load or links[above * STRIDE + at] != slot:
            break
        if counts[SIZES + node] == 0:
            erase(loads, links, counts, above, at)
        else:  # the least entry of the node is another one now
            first = least(loads, links, counts, node) if level + 1 == counts[LEVELS] else 0
            loads[above * WIDTH + at] = loads[node * WIDTH + first]
            links[above * STRIDE + at] = links[node * STRIDE + first]
        node = above
    if counts[SIZES + counts[ROOT]] == 0:
        counts[LEVELS] = 0
    return load


@kernel
def erase(loads: Loads, links: Links, counts: Counts, node: int, place: int) -> None:
    """Take an entry out of a node above the leaves."""
    counts[SIZES + node] -= 1
    size = counts[SIZES + node]
    for i in range(node * WIDTH + place, node * WIDTH + size):
        loads[i] = loads[i + 1]
    for part in (0, WIDTH):
        for i in range(node * STRIDE + part + place, node * STRIDE + part + size):
            links[i] = links[i + 1]


@kernel
def write(
    loads: Loads, links: Links, counts: Counts, node: int, place: int, child: int, first: int
) -> None:
    """Put the entry of a child, whose least one is at `first`, into a node that is not full."""
    size = counts[SIZES + node]
    counts[SIZES + node] += 1
    for i in range(node * WIDTH + size, node * WIDTH + place, -1):
        loads[i] = loads[i - 1]
    for part in (0, WIDTH):
        for i in range(node * STRIDE + part + size, node * STRIDE + part + place, -1):
            links[i] = links[i - 1]
    loads[node * WIDTH + place] = loads[child * WIDTH + first]
    links[node * STRIDE + place] = links[child * STRIDE + first]
    links[node * STRIDE + WIDTH + place] = child


@kernel
def middle(loads: Loads, links: Links, leaf: int) -> int:
    """Return a place of a full leaf whose entry has at least three eighths before and behind it.

    Every fourth entry is such a one, so few are tried.
    """
    first, slots = np.uintp(leaf * WIDTH), np.uintp(leaf * STRIDE)
    place = HALF
    while True:
        load, slot = loads[leaf * WIDTH + place], links[leaf * STRIDE + place]
        before = 0
        for i in range(np.uintp(WIDTH)):
            before += loads[first + i] < load
            before += loads[first + i] == load and links[slots + i] > slot
        if LEAST <= before <= WIDTH - LEAST:
            return place
        place = (place + 1) % WIDTH


@kernel
def split(loads: Loads, links: Links, counts: Counts, above: int, place: int, leaf: bool) -> None:
    """Move about half of a full node, the upper one, into a new node to the right of it."""
    node, new = links[above * STRIDE + WIDTH + place], counts[NODES]
    counts[NODES] += 1
    at = middle(loads, links, node) if leaf else HALF
    load, slot = loads[node * WIDTH + at], links[node * STRIDE + at]
    kept, moved, first = 0, 0, 0
    for i in range(WIDTH):
        other, its = loads[node * WIDTH + i], links[node * STRIDE + i]
        if other > load or (other == load and its <= slot):
            if its == slot:
                first = moved
            to, at, moved = new, moved, moved + 1
        else:
            to, at, kept = node, kept, kept + 1
        loads[to * WIDTH + at] = other
        links[to * STRIDE + at] = its
        if not leaf:
            links[to * STRIDE + WIDTH + at] = links[node * STRIDE + WIDTH + i]
    counts[SIZES + node], counts[SIZES + new] = kept, moved
    write(loads, links, counts, above, place + 1, new, first)


@kernel
def insert(loads: Loads, links: Links, counts: Counts, slot: int, load: float) -> None:
    """Add an entry, splitting the full nodes on the way down."""
    load += 0.0  # -0.0 has other bits
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
        place = last_before(loads, links, counts, node, load, slot)
        if counts[SIZES + links[node * STRIDE + WIDTH + max(0, place)]] == WIDTH:
            split(loads, links, counts, node, max(0, place), level + 1 == counts[LEVELS])
            place = last_before(loads, links, counts, node, load, slot)
        if place < 0:
            place = 0
            loads[node * WIDTH] = load
            links[node * STRIDE] = slot
        node = links[node * STRIDE + WIDTH + place]
    size = counts[SIZES + node]
    counts[SIZES + node] += 1
    loads[node * WIDTH + size] = load
    links[node * STRIDE + size] = slot
