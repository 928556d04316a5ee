"""The monitor: measure how many bytes per second are written to each partition.

`window` computes speeds from sizes and is pure, `service` is the loop, `metrics` says how it does.
It speaks to ports only: no client library, no clock, no other role.
"""
