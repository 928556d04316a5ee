"""A group in memory and virtual time: the real controller and consumers, on ports with faults.

Every port of the roles lives here in memory. No thread, no real clock and no client enters.
"""
