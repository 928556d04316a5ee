"""The compiled kernels: data structures from which the fast algorithms are built.

Only `lagless.packing` imports this package, and only through the names below. `packing.plain`
defines what the answers have to be; the exam in tests/packing compares the two.

Theory. An any-fit algorithm asks one question per partition: which open consumer does the rule
choose, and does the partition fit there? Looking at every consumer, as `plain` does, takes O(B)
steps, for n partitions and B consumers O(nB). Each rule has a structure that answers in O(log B):

- Next Fit has one open consumer, the last one created. There is nothing to search.
- Worst Fit takes the least loaded consumer, which is the top of a heap.
- First Fit takes the lowest number that fits. The leaves of a tree of minima are the loads in the
  order of the consumers' numbers, and each inner node has the least load below it. On the way down
  the first child that fits leads to the first leaf that fits.
- Best Fit takes the fullest consumer that fits: the last one that fits in the order of the loads,
  which change. A search tree with wide nodes keeps them in this order.

Fits. `plain` says what fits and who wins a tie. The load is never compared with C - s, which rounds
differently from load + s; rounded addition is monotone, so loads can be searched in order. Nothing
joins a load above C: Best and Worst Fit leave such a consumer out of their structures.

Ties. Consumers are kept by slot, in the order of their numbers; structures order equal loads by
slot, and all sorts are stable.

Sorting by radix takes O(n), so a packing takes O(n log B).
"""

from lagless.packing.kernels.compiled import kernel, large, packer, shorthand
from lagless.packing.kernels.open_consumers import (
    BEST,
    FIRST,
    LOWEST,
    NEXT,
    WORST,
    Slots,
    create,
    empty,
    join,
    numbers,
    slots,
    tally,
    unused,
)
from lagless.packing.kernels.order import gathered, radix, ranked, scattered

__all__ = [
    "BEST",
    "FIRST",
    "LOWEST",
    "NEXT",
    "WORST",
    "Slots",
    "create",
    "empty",
    "gathered",
    "join",
    "kernel",
    "large",
    "numbers",
    "packer",
    "radix",
    "ranked",
    "scattered",
    "shorthand",
    "slots",
    "tally",
    "unused",
]
