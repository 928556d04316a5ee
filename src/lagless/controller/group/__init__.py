"""The controller of groups whose members lagless did not write: who reads what, by a plan.

Pure but for `service`. It shares weights, limits and decisions with the controller of lagless's own
consumers; what differs is here: members are seen, not heard, and follow a plan instead of orders.
"""
