"""A consumer whose group has no monitor."""

from typing import Any

import pytest

from lagless.errors import TryAgain
from lagless.settings import parse
from lagless.wiring import consumer


def test_a_missing_topic_of_speeds_is_not_waited_for_in_every_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    class Missing:
        def __init__(self, settings: Any) -> None:
            pass

        def latest(self) -> None:
            asked.append(1)
            raise TryAgain("there is no such topic")

    monkeypatch.setattr(consumer, "LatestSpeeds", Missing)
    read = consumer._speeds(parse({"group": "g", "topics": ["t"], "lake": {"path": "l"}}))
    assert [read() for _ in range(5)] == [None] * 5
    assert asked == [1]
