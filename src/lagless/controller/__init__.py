"""The controller: how many consumers there are, and which partitions each one reads."""
