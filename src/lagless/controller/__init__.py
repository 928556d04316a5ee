"""The controller: how many consumers there are, and which partitions each one reads.

One file per phase of the paper's state machine; all of them are pure but `service`, which speaks to
ports. No client library, no clock and no other role enters.
"""
