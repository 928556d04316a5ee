"""What follows from the one target that users name: how late a record may be.

The knobs that decide between late records and more consumers hang together. For a target of 20 s
they are the defaults; a shorter one needs more room, and quicker steps:

    slack         1 s / delay       room for the next change, so that it moves less
    pause         delay / 2         an overload has to be over within the delay
    catch_up      3 · delay         a backlog grows the group until it is worked off
    shrink_after  600 s² / delay    a consumer that is still there need not be started
"""

from typing import Final

DEFAULT: Final = 20.0
"""Seconds of delay for which the knobs are the defaults."""


def knobs(delay: float) -> dict[str, float]:
    """Return the knobs for a delay in seconds."""
    return {
        "slack": min(0.5, 1 / delay),
        "pause": min(30.0, delay / 2),
        "catch_up": min(900.0, max(10.0, 3 * delay)),
        "shrink_after": min(600.0, max(10.0, 600 / delay)),
    }
