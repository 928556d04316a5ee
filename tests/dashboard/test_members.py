"""A group whose members lagless did not write: what is known is shown, the rest is left out."""

from lagless.dashboard import bins, charts, colours, markup, snapshot, text
from lagless.dashboard.observations import MemorySource
from lagless.dashboard.snapshot import Snapshot
from lagless.dashboard.view import Feed
from lagless.messages import Message, SeenGroup, SeenMember
from lagless.model import TopicPartition
from lagless.settings import parse
from tests.dashboard import plays

NOW = 1_000_000.0
KNOBS = parse({"group": plays.GROUP, "topics": ["orders"], "members": {"kind": "group"}})
A, B, C = (TopicPartition("orders", n) for n in range(3))
SPEEDS = {A: 900_000.0, B: 600_000.0, C: 300_000.0}


class Clock:
    def now(self) -> float:
        return NOW

    def sleep(self, seconds: float) -> None: ...


def seen(rate: float | None, follows: bool | None = True) -> SeenGroup:
    known = SeenMember(
        consumer=1,
        name="app-1",
        held={"orders": (0, 1)},
        lag_records=70,
        lag_bytes=7000.0,
        backlog={"orders": {0: 7000.0}},
        bytes_per_second=1_500_000.0,
    )
    unknown = SeenMember(consumer=2, name="app-2", held={"orders": (2,)})
    return SeenGroup(
        group=plays.GROUP, at=NOW - 1, members=(known, unknown), rate=rate, follows=follows
    )


def look(*messages: Message) -> Snapshot:
    return Feed(MemorySource(messages), KNOBS, Clock()).update()


def drawn(shown: Snapshot) -> str:
    """Draw everything, and return its text."""
    assert bins.option(shown, colours.LIGHT)["series"]
    for chart in (charts.speeds, charts.consumers, charts.lags, charts.reassignments):
        assert "series" in chart(shown, colours.LIGHT)
    return " ".join(
        [
            markup.consumers(shown),
            markup.counts(shown),
            bins.caption(shown),
            charts.consumers_caption(shown),
            charts.lags_caption(shown),
            *text.lag(shown),
            *text.plain_kafka(shown),
            *(notice.text for notice in shown.notices),
        ]
    )


def test_members_are_shown_by_name_with_what_is_known_of_them() -> None:
    shown = look(plays.speeds(NOW - 1, SPEEDS), seen(None))
    assert [(it.name, it.load) for it in shown.bins] == [("app-1", 1.5e6), ("app-2", 3e5)]
    assert shown.capacity == 0
    assert shown.unassigned == ()
    words = drawn(shown)
    assert "1: app-1" in words
    assert "is not known yet" in words
    assert " of C" not in words
    assert "capacity" not in snapshot.document(shown)
    consumers = snapshot.document(shown)["consumers"]
    assert consumers["1"]["lag_bytes"] == 7000
    assert "lag_seconds" not in consumers["1"]
    assert "lag_bytes" not in consumers["2"]


def test_a_learned_rate_is_the_capacity_that_is_shown() -> None:
    feed = Feed(MemorySource([seen(3e6)]), KNOBS, Clock())
    assert feed.snapshot.capacity == 3e6 * 25 / 30
    assert feed.snapshot.max_rate == 3e6
    shown = look(seen(3e6), plays.speeds(NOW - 1, SPEEDS))
    assert "60 % of C" in drawn(shown)


def test_it_is_said_that_a_plan_is_not_followed() -> None:
    words = "do not hold yet what was planned"
    assert words in drawn(look(plays.speeds(NOW - 1, SPEEDS), seen(None, follows=False)))
    assert words not in drawn(look(plays.speeds(NOW - 1, SPEEDS), seen(None, follows=None)))
