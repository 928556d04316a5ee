"""Lines over time and how long responses took."""

from lagless.dashboard import series
from lagless.dashboard.story import KEPT, Story
from lagless.model import TopicPartition
from tests.dashboard import plays

P = TopicPartition("orders", 0)
C = 1e6


def story(*points: tuple[float, float]) -> Story:
    told = Story(plays.GROUP, C)
    for at, speed in points:
        told.tell(plays.speeds(at, {P: speed}))
    return told


def test_a_sudden_change_shows_as_a_ramp_as_long_as_the_window() -> None:
    flat = [(5.0 * n, 1e5) for n in range(6)]
    ramp = [(30 + 5.0 * n, 1e5 + 2e5 * n) for n in range(7)]
    after = [(65 + 5.0 * n, 1.3e6) for n in range(4)]
    assert series.ramps(story(*flat, *ramp, *after).samples) == [30.0]


def test_noise_is_no_change_of_load() -> None:
    points = [(5.0 * n, 1e5 + 1e5 * (n % 2)) for n in range(30)]
    assert series.ramps(story(*points).samples) == []


def test_a_change_that_is_not_over_does_not_count_yet() -> None:
    points = [(5.0 * n, 1e5 + 2e5 * n) for n in range(6)]
    assert series.ramps(story(*points).samples) == []


def test_a_change_back_is_a_second_one() -> None:
    up = [(5.0 * n, 2e5 * n) for n in range(6)]
    down = [(30 + 5.0 * n, 1e6 - 2e5 * (n + 1)) for n in range(5)]
    rest = [(60.0, 0.0), (65.0, 0.0)]
    assert series.ramps(story(*up, *down, *rest).samples) == [25.0, 25.0]


def test_consumers_count_while_they_are_heard() -> None:
    told = story(*[(5.0 * n, 1e5) for n in range(200)])
    told.tell(plays.heartbeat(100, 1, {}))
    told.tell(plays.heartbeat(500, 1, {}))
    told.tell(plays.heartbeat(300, 2, {}))
    told.tell(plays.heartbeat(400, 2, {}))
    counts = {moment.at: moment.consumers for moment in series.moments(told, 6)}
    at = {near: counts[max(t for t in counts if t <= near)] for near in (50, 200, 350, 450, 600)}
    assert at == {50: 0, 200: 1, 350: 2, 450: 1, 600: 0}


def test_old_points_go_and_lines_have_no_more_points_than_can_be_seen() -> None:
    told = story(*[(1.0 * n, 1e5) for n in range(int(2 * KEPT))])
    assert told.samples[0].at == KEPT - 1
    shown = series.moments(told, 6)
    assert series.POINTS <= len(shown) <= series.POINTS + 1
    assert shown[-1].at == 2 * KEPT - 1


def test_who_ended_long_ago_is_forgotten() -> None:
    told = story((0, 1e5))
    told.tell(plays.heartbeat(0, 1, {}))
    told.tell(plays.heartbeat(KEPT, 2, {}))
    told.tell(plays.speeds(KEPT + 1, {P: 1e5}))
    assert [member.consumer for member in told.members.values()] == [2]
    assert list(told.lags) == [2]
