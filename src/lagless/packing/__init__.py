"""Packing: which consumer reads which partition. Pure: numbers in, numbers out.

No clock, randomness, logger or client enters this room. `plain` defines the paper's algorithms;
`anyfit` and `modified` are their fast twins, and `sticky` and `exact` go past the paper. Each is a
function on arrays (`Packer`) with a line in the `registry`. `kernels` are compiled, and nothing
outside this room imports them. Importing this package loads no library.
"""

from lagless.packing.registry import (
    REGISTRY,
    Algorithm,
    Packer,
    Packing,
    algorithm,
    algorithms,
    pack,
    packer,
    packing,
)

__all__ = [
    "REGISTRY",
    "Algorithm",
    "Packer",
    "Packing",
    "algorithm",
    "algorithms",
    "pack",
    "packer",
    "packing",
]
