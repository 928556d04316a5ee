"""A set of small numbers as bits, with a bit for each word that is not empty above them."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagless.packing.compiled import kernel

Words: TypeAlias = NDArray[np.uint64]
"""The words of the numbers first, then those of the words, up to a single one."""

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)


@kernel
def empty(size: int) -> Words:
    """Return the empty set of numbers below size, which is a power of 64."""
    return np.zeros((size - 1) // 63, np.uint64)


@kernel
def highest(word: np.uint64) -> int:
    """Return the place of the highest bit of a word that is not 0."""
    place = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step) != ZERO:
            word = word >> np.uint64(step)
            place += step
    return place


@kernel
def add(words: Words, size: int, number: int) -> None:
    """Add a number."""
    level = 0
    while size > 1:
        size >>= 6
        word = level + (number >> 6)
        before = words[word]
        words[word] = before | (ONE << np.uint64(number & 63))
        if before != ZERO:
            return
        level += size
        number >>= 6


@kernel
def discard(words: Words, size: int, number: int) -> None:
    """Take a number out."""
    level = 0
    while size > 1:
        size >>= 6
        word = level + (number >> 6)
        words[word] &= ~(ONE << np.uint64(number & 63))
        if words[word] != ZERO:
            return
        level += size
        number >>= 6


@kernel
def up_to(words: Words, size: int, number: int) -> int:
    """Return the highest number of the set that is not above the given one, or -1."""
    level = 0
    count = size >> 6
    found = words[number >> 6] & ((TWO << np.uint64(number & 63)) - ONE)
    while found == ZERO:
        number >>= 6
        if count == 1:
            return -1
        level += count
        count >>= 6
        found = words[level + (number >> 6)] & ((ONE << np.uint64(number & 63)) - ONE)
    number = (number >> 6 << 6) + highest(found)
    while level > 0:
        count <<= 6
        level -= count
        number = (number << 6) + highest(words[level + number])
    return number
