"""The pure pieces of the latency parts: stream, consumers over time, KEDA's rule, the model."""

import time
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.lab import testbed
from lagless.lab.live import delay, live_stream, rival
from lagless.lab.live.live_stream import Line
from lagless.lab.live.rival_consumer import SCHEMA, Held
from lagless.lab.load import flows
from lagless.lab.load.account import Tally
from lagless.lab.model import keda
from lagless.lab.paper import experiments


def test_the_stream_settles_walks_and_can_be_replayed(tmp_path: Path) -> None:
    stream = live_stream.stream(2.0, seed=1)
    assert stream.seconds == stream.settle + 120
    stream.flow("t").save(tmp_path / "load.csv")
    flow = flows.replay(tmp_path / "load.csv", live_stream.ITERATION)
    assert flow.topics == {"t": live_stream.PARTITIONS}
    assert np.array_equal(flow.at(0), flow.at(stream.settle - 1))
    assert not np.array_equal(flow.at(0), flow.at(stream.settle))
    assert np.allclose(flow.at(stream.settle), stream.speeds[1], atol=1.0)
    assert len(flow.speeds) * flow.step == stream.seconds
    assert stream.speeds.max() <= live_stream.CAPACITY


def test_the_mean_number_of_consumers_is_over_time() -> None:
    line = Line()
    for at, count in ((0.0, 2), (5.0, 2), (10.0, 4), (30.0, 1)):
        line.see(at, count)
    assert line.points == [(0.0, 2), (10.0, 4), (30.0, 1)]
    assert line.mean(0.0, 40.0) == pytest.approx((2 * 10 + 4 * 20 + 1 * 10) / 40)
    assert line.mean(20.0, 30.0) == 4


@given(st.lists(st.floats(0, 1e6), max_size=50), st.integers(1, 16))
def test_keda_stays_within_its_limits_and_shrinks_late(lags: list[float], first: int) -> None:
    scaler = keda.Scaler(first, threshold=100.0, partitions=16, cooldown=300.0)
    before = first
    for look, lag in enumerate(lags, start=1):
        size = scaler.look(30.0 * look, lag)
        assert 1 <= size <= 16
        if 30.0 * look < 300.0:
            assert size >= before, "nothing shrinks within the cooldown"
        before = size


def test_keda_grows_at_once_and_shrinks_after_the_cooldown() -> None:
    scaler = keda.Scaler(2, threshold=100.0, partitions=16, cooldown=300.0)
    assert scaler.look(30.0, 950.0) == 10
    for now in range(60, 330, 30):
        assert scaler.look(float(now), 50.0) == 10
    assert scaler.look(360.0, 50.0) == 1


def test_the_rival_begins_with_what_sticky_would() -> None:
    stream = live_stream.stream(1.0, seed=0)
    least = np.ceil(stream.speeds[0].sum() / live_stream.CAPACITY)
    assert least <= rival.first_size(stream) <= live_stream.PARTITIONS


def message(partition: int, offset: int) -> Any:
    return SimpleNamespace(
        value=lambda: b'{"seq": 1}',
        partition=lambda: partition,
        offset=lambda: offset,
        timestamp=lambda: (1, 1000),
    )


def test_the_rival_keeps_offsets_and_drops_what_it_lost() -> None:
    held = Held()
    for partition, offset in ((0, 5), (0, 6), (1, 9)):
        held.take(message(partition, offset))
    assert held.next_offsets() == {0: 7, 1: 10}
    assert held.rows[0]["_timestamp"] == 1_000_000, "microseconds"
    held.drop({0})
    assert held.next_offsets() == {1: 10}
    held.clear()
    assert (held.rows, held.bytes, held.next_offsets()) == ([], 0, {})


def test_fixed_groups_have_as_many_consumers_as_the_packed_ones() -> None:
    runs = [
        {"name": "mwf", "consumers": 8.2},
        {"name": "sticky", "consumers": 7.9},
        {"name": "kd_9", "consumers": 9.0},
    ]
    assert delay.counted(runs) == ["kd_8", "kd_9"]
    assert delay.counted([]) == []


@pytest.mark.parametrize("name", ["mwf", "sticky", "kd_8", "kd_16"])
def test_the_model_speaks_of_all_bytes(name: str) -> None:
    speeds = live_stream.stream(3.0, seed=2).speeds
    found = experiments.waited(name, speeds, live_stream.CAPACITY, live_stream.MODEL, "fixed", 0)
    told = delay.predicted(found)
    assert 0 <= told["p50"] <= told["p90"] <= told["p99"] <= told["max"]
    assert (told["p50"] == 0) == (told["late"] <= 0.5)


@given(st.lists(st.floats(0, 1e3), max_size=50))
def test_a_sample_keeps_the_ends(values: list[float]) -> None:
    kept = live_stream.sample(np.sort(np.array(values, dtype=np.float64)))
    assert len(kept) == min(len(values), live_stream.SAMPLE)
    if values:
        assert kept[0] == round(min(values), 3)
        assert kept[-1] == round(max(values), 3)


def test_settings_are_written_as_toml() -> None:
    tree = {"group": "a", "topics": ["x", "y"], "topic": {"x.y": {"format": "json"}}, "n": 0.5}
    assert tomllib.loads(testbed.toml(tree)) == tree


def test_what_the_rival_writes_can_be_counted(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    rival.make_table(tmp_path / "t")
    rows = [
        {"topic": "t", "partition": 0, "seq": seq, "at": 1.0, "pad": "x", "_partition": 0}
        | {"_offset": seq, "_timestamp": int((time.time() - 5) * 1e6)}
        for seq in (0, 1, 1)
    ]
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist(rows, SCHEMA), mode="append")
    tally = Tally(produced={"t": {0: 3}}, handed={"t": {0: 3}})
    found = live_stream.account(tmp_path, "t", tally, time.time() - 10, time.time())
    assert (found["landed"], found["duplicated"], found["lost"]) == (2, 1, 1)
    assert found["skipped"] == 0, "the last one may not have been read yet"
    assert not live_stream._landed(tmp_path, "t", tally), "three rows are not three records"
    assert found["records"] == 3
    assert 4 < found["p50"] < 60, "from the timestamp to the commit"
    later = live_stream.account(tmp_path, "t", tally, time.time(), time.time() + 1)
    assert (later["records"], later["p50"], later["sample"]) == (0, None, [])


def test_a_record_is_lost_if_a_later_one_of_its_partition_landed(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    rival.make_table(tmp_path / "t")
    rows = [
        {"topic": "t", "partition": p, "seq": seq, "at": 1.0, "pad": "x", "_partition": p}
        | {"_offset": seq, "_timestamp": int(time.time() * 1e6)}
        for p, seq in ((0, 0), (0, 3), (1, 0))
    ]
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist(rows, SCHEMA), mode="append")
    tally = Tally(produced={"t": {0: 5, 1: 2}}, handed={"t": {0: 5, 1: 2}})
    found = live_stream.account(tmp_path, "t", tally, 0, time.time() + 60)
    assert found["lost"] == 4
    assert found["skipped"] == 2
    whole = Tally(produced={"t": {0: 4, 1: 1}}, handed={"t": {0: 4, 1: 1}})
    assert not live_stream._landed(tmp_path, "t", whole)
    missing = [{**rows[0], "seq": seq, "_offset": seq} for seq in (1, 2)]
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist(missing, SCHEMA), mode="append")
    assert live_stream._landed(tmp_path, "t", whole)
