"""What a monitor published becomes a stream with a row each so many seconds."""

import pytest

from lagless.errors import WrongInput
from lagless.lab import rehearsals
from lagless.lab.model import recordings
from lagless.messages import WriteSpeeds


def said(at: float, **speeds: float) -> WriteSpeeds:
    per = {int(name[1:]): speed for name, speed in speeds.items()}
    return WriteSpeeds(group="g", at=at, window=30, speeds={"t": per})


def test_each_row_is_the_newest_measurement_of_its_time() -> None:
    published = [said(100 + k, p0=k, p1=1) for k in range(11)]
    recording = recordings.gather(published, 5, 60)
    assert recording.stream.partitions == ("t:0", "t:1")
    assert recording.stream.speeds.tolist() == [[4, 1], [9, 1], [10, 1]]
    assert recording.missing == 0


def test_a_slow_monitor_is_held_and_a_pause_is_left_out() -> None:
    published = [said(0, p0=1), said(20, p0=2), said(500, p0=3), said(505, p0=4)]
    recording = recordings.gather(published, 10, 60)
    assert recording.stream.speeds[:, 0].tolist() == [1, 1, 2, 4]
    assert recording.missing == 480


def test_what_comes_twice_counts_once_and_what_is_not_there_is_silent() -> None:
    published = [said(0, p0=1), said(0, p0=9), said(10, p0=2, p1=5), said(5, p0=9), said(20, p1=6)]
    recording = recordings.gather(published, 10, 60)
    assert recording.stream.speeds.tolist() == [[1, 0], [2, 5], [0, 6]]


def test_too_little_is_refused() -> None:
    with pytest.raises(WrongInput, match="there are 1"):
        recordings.gather([said(0, p0=1)], 5, 60)


def test_columns_are_partitions_whatever_they_are_called() -> None:
    assert list(map(str, rehearsals.named(["a:b:3", "t:0"]))) == ["a:b:3", "t:0"]
    assert list(map(str, rehearsals.named(["x", "t:0"]))) == ["x:0", "t:0:0"]
