"""The monitor: how many bytes per second are written to each partition."""
