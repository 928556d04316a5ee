"""The number of members that lagless did not write: their workload, and KEDA."""
