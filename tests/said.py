"""Decisions by the name of their kind, as the event log carries them."""

import json
from typing import Any

from lagless import messages
from lagless.messages import AnyDecision


def decision(
    group: str,
    kind: str,
    reason: str,
    at: float,
    phase: str,
    generation: int,
    consumer: int | None = None,
    **details: Any,
) -> AnyDecision:
    """Return the decision, read from the JSON that it has on the topic."""
    fields = {
        "group": group,
        "decision": kind,
        "reason": reason,
        "at": at,
        "phase": phase,
        "generation": generation,
        "consumer": consumer,
        "details": details,
    }
    decided = messages.read(json.dumps(fields))
    assert isinstance(decided, AnyDecision), fields
    return decided
