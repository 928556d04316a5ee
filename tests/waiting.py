"""Waiting for what comes about by itself, on a machine that may be busy."""

import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")


def until(probe: Callable[[], T | Literal[False] | None], what: str, seconds: float = 120) -> T:
    """Wait until the probe gives something true, and give that."""
    end = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < end, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.1)
