"""Packing: which consumer reads which partition. Pure: numbers in, numbers out.

No clock, randomness, logger or client enters this room. Every algorithm is a function on arrays
(`Packer`), found by name in the registry here; `pack` puts mappings around it.
"""
