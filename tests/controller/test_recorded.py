"""What version 0.1.0 wrote is still read, and its decisions are still made.

fixtures/group-0.1.0.jsonl.gz holds every message of a group of 0.1.0 on a real broker: a start, a
change of speeds, a second controller, a killed consumer, a consumer that claims what it was not
given, a partition that is too fast, and the way back to one consumer. `lagless events --replay`
of 0.1.0 found 44 decisions in it, none different. A replay compares the figures of a reason and not
its wording, and what 0.1.0 called Rscore with the weight that moved.
"""

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lagless import messages
from lagless.controller import event_log
from lagless.history import History
from lagless.messages import Assigned, Message
from lagless.model import Phase
from lagless.wiring import compiling

KINDS = {
    "speeds": {"WriteSpeeds": 30},
    "mail": {"Echo": 23, "Heartbeat": 141, "Receipt": 20, "Order": 20},
    "state": {"ControllerState": 16, "ConsumerState": 19},
    "events": {"Began": 2, "Told": 54}
    | {"PhaseChanged": 20, "Assigned": 6, "Created": 3, "Deleted": 2}
    | {"Timed": 11, "Lost": 1, "Warned": 1},
}
FILE = Path(__file__).parent / "fixtures" / "group-0.1.0.jsonl.gz"


def recorded(topic: str) -> list[Message]:
    """Return the messages of a topic, oldest first."""
    with gzip.open(FILE, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    found = [messages.read(row["value"], group="recorded") for row in rows if row["topic"] == topic]
    return [message for message in found if message is not None]


def test_every_message_is_recognised() -> None:
    kinds = {
        topic: dict(Counter(type(message).__name__ for message in recorded(topic)))
        for topic in ("speeds", "mail", "state", "events")
    }
    assert kinds == KINDS


def test_the_log_replays_without_a_difference() -> None:
    compared = list(event_log.replay(recorded("events"), compiling.pack_by, "recorded"))
    assert len(compared) == 44
    assert [found for found in compared if not found.agrees] == []


def test_what_0_1_0_called_rscore_is_the_weight_that_moved() -> None:
    """The paper's Rscore sums speeds: it differs wherever a moved partition has a backlog."""
    pairs = [
        (found.logged.details, found.remade.details)
        for found in event_log.replay(recorded("events"), compiling.pack_by, "recorded")
        if isinstance(found.logged, Assigned) and isinstance(found.remade, Assigned)
    ]
    assert [old.weight_moved for old, _ in pairs] == [None] * 6
    assert [new.weight_moved for _, new in pairs] == pytest.approx([old.rscore for old, _ in pairs])
    less = [(new.rscore or 0) < (old.rscore or 0) for old, new in pairs]
    assert less == [False, True, True, False, True, True]


def test_another_decision_is_a_difference() -> None:
    first = next(event_log.replay(recorded("events"), compiling.pack_by, "recorded"))
    assert first.logged is not None
    assert first.agrees
    for change in ({"generation": 7}, {"reason": "all 3 have reported"}, {"at": 1.0}):
        assert not replace(first, remade=first.logged.model_copy(update=change)).agrees
    reworded = first.logged.model_copy(update={"reason": "every consumer has reported"})
    assert replace(first, remade=reworded).agrees


def test_the_history_is_read_from_it() -> None:
    history = History(recorded("events"))
    assert history.phase is Phase.SENTINEL
    assert [known.consumers for known in history.reassignments] == [2, 2, 3, 3, 2, 1]
    assert [known.migrations for known in history.reassignments] == [0, 2, 1, 0, 3, 1]
    assert set(history.target.values()) == {3}
    assert (history.lost, history.contradicted) == (1, 1)
    assert set(history.deleted_at) == {1, 4}
