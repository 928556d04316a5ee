"""Wait for processes to end."""

import time

import psutil  # type: ignore[import-untyped]  # it ships no types


def gone(pid: int, seconds: float = 20.0) -> bool:
    """Return whether a process ends within the seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False
