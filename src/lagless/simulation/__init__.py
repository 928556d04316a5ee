"""Simulation: streams of measurements, algorithms replayed over them, and the latency they cause.

Pure: no clock, thread, logger or client enters; randomness is a generator that is handed in.
`world` is the other half: every port in memory, in virtual time.
"""
