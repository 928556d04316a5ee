"""The controller's policy for tests: the settings' defaults, and what a test changes.

What holds an algorithm back is off, so that each answer of `pack` is followed; CALM turns it on.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from lagless.controller.state import Pack, Policy
from lagless.settings import parse
from lagless.wiring import controller


@cache
def _defaults() -> Policy:
    knobs = parse({"group": "g", "topics": ["t"], "lake": {"path": "lake"}})
    plain = controller.policy(knobs)
    bare = replace(plain, capacity=100.0, max_rate=0.0, gather=0.0, early_consumers=0)
    return replace(bare, dead_band=0.0, shrink_after=0.0, max_move=1.0)


CALM: dict[str, float] = {"dead_band": 0.1, "shrink_after": 60.0, "max_move": 0.2}
"""What holds an algorithm back."""


def policy(pack: Pack, **changes: Any) -> Policy:
    """Return the policy of group g with C = 100 B/s, and cycles that wait for no bytes."""
    return replace(_defaults(), pack=pack, **changes)
