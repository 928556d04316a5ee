"""The load: what it says it produced is what Kafka holds, whatever happens to the broker."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from lagless.errors import WrongInput
from lagless.lab.load import flows, records
from lagless.lab.load.load import Load, Sizes, Tally
from lagless.lab.parts.broker import Broker
from lagless.model import TopicPartition as Partition
from tests.waiting import until


def read_back(bootstrap: str, tally: Tally) -> dict[str, dict[int, list[bytes]]]:
    """Read all that Kafka holds of the tally's topics, in the order of the log."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "back", "enable.auto.commit": False}
    )
    back: dict[str, dict[int, list[bytes]]] = {}
    for topic, counts in tally.produced.items():
        for number in counts:
            there = TopicPartition(topic, number, 0)
            _, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            values = back.setdefault(topic, {}).setdefault(number, [])
            consumer.assign([there])
            while len(values) < high:
                messages = consumer.consume(high - len(values), timeout=30)
                assert messages, f"{topic} {number}: {len(values)} of {high}"
                values += [message.value() or b"" for message in messages]
    consumer.close()
    return back


def assert_exact(bootstrap: str, tally: Tally) -> None:
    for topic, partitions in read_back(bootstrap, tally).items():
        for number, values in partitions.items():
            records = [json.loads(value) for value in values]
            assert [record["seq"] for record in records] == list(
                range(tally.produced[topic][number])
            )
            assert {(record["topic"], record["partition"]) for record in records} <= {
                (topic, number)
            }


@pytest.mark.kafka
def test_the_tally_is_what_kafka_holds(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=3)
    flow = flows.Flow(flows.spread({name: 3}), np.array([[0.0, 50e3, 200e3]]))
    file = tmp_path / "tally.json"
    began = time.time()
    tally = Load(broker.bootstrap, flow, sizes=Sizes("lognormal", 300), tally=file).run(3)

    assert tally.complete
    assert tally.produced[name][0] == 0
    assert_exact(broker.bootstrap, tally)
    assert records.compare(broker.bootstrap, tally) == {}
    assert Tally.load(file).produced == tally.produced
    values = read_back(broker.bootstrap, tally)[name]
    for number, expected in ((1, 50e3), (2, 200e3)):
        size = sum(len(value) + 10 for value in values[number])
        assert size == pytest.approx(3 * expected, rel=0.1)
        times = [json.loads(value)["at"] for value in values[number]]
        assert times == sorted(times)
        assert began - 1 < times[0] <= times[-1] < time.time() + 1


@pytest.mark.kafka
def test_a_second_load_goes_on_where_the_first_ended(
    broker: Broker, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    flow = flows.steady(flows.spread({name: 2}), 100e3)
    first = Load(broker.bootstrap, flow, spoil_every=50, compression="lz4").run(0.5)
    with Load(broker.bootstrap, flow, spoil_every=50) as load:
        time.sleep(0.5)
        second = load.stop()

    assert all(second.produced[name][j] > first.produced[name][j] > 0 for j in (0, 1))
    back = read_back(broker.bootstrap, second)[name]
    spoiled = 0
    for number, values in back.items():
        assert len(values) == second.produced[name][number]
        for seq, value in enumerate(values):
            found = records.SEQ.search(value)
            assert found is not None
            assert int(found[1]) == seq
            spoiled += not value.endswith(b"}")
    assert spoiled == second.spoiled > 0


@pytest.mark.kafka
def test_differences_are_named(broker: Broker, topic: Callable[..., str]) -> None:
    name = topic(partitions=1)
    tally = Load(broker.bootstrap, flows.steady(flows.spread({name: 1}), 100e3)).run(0.5)
    count = tally.produced[name][0]
    more = Tally(produced={name: {0: count + 1}}, handed={name: {0: count + 1}})
    assert records.compare(broker.bootstrap, more) == {
        Partition(name, 0): f"produced {count + 1}, and the last is {count - 1}"
    }


@pytest.mark.kafka
@pytest.mark.slow
def test_the_account_is_exact_when_the_broker_crashes(tmp_path: Path) -> None:
    with Broker(tmp_path) as own:
        flow = flows.steady(flows.spread({"crashed": 2}), 300e3)
        with Load(own.bootstrap, flow, tally=tmp_path / "tally.json") as load:
            until(lambda: load.tally().records > 0, "records")
            own.kill()
            before = load.tally().records
            own.start()
            until(lambda: load.tally().records > before, "more records")
            own.stop()
            own.start()
            tally = load.stop()
        assert tally.complete
        assert tally.records > before > 0
        assert_exact(own.bootstrap, tally)


@pytest.mark.kafka
def test_the_load_runs_as_a_process(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=2)
    speeds = tmp_path / "speeds.csv"
    speeds.write_text(f"{name}:0,{name}:1\n100000,0\n0,100000\n")
    done = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-m", "lagless.lab.load.load"),
            *("--bootstrap", broker.bootstrap, "--file", str(speeds)),
            *("--sizes", "uniform:400:0.5", "--seconds", "2"),
            *("--tally", str(tmp_path / "tally.json")),
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    tally = Tally.load(tmp_path / "tally.json")
    assert json.loads(done.stdout) == tally.report()
    assert tally.produced[name][0] == pytest.approx(tally.produced[name][1], rel=0.3)
    assert_exact(broker.bootstrap, tally)


@pytest.mark.kafka
def test_a_topic_that_is_too_small_is_named(broker: Broker, topic: Callable[..., str]) -> None:
    name = topic(partitions=1)
    load = Load(broker.bootstrap, flows.steady(flows.spread({name: 3}), 1.0))
    with pytest.raises(WrongInput, match=f"{name} has 1 partitions"):
        load.start()
    assert not any(thread.name == "load" for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("sizes", "low", "high"),
    [
        (Sizes("fixed", 500), 500, 500),
        (Sizes("uniform", 500, 0.2), 400, 600),
        (Sizes("lognormal", 500, 1.0), 100, 900_000),
    ],
)
def test_sizes_have_their_mean_and_bounds(sizes: Sizes, low: int, high: int) -> None:
    drawn = sizes.draw(np.random.default_rng(1), 20_000)
    assert low <= min(drawn) <= max(drawn) <= high
    assert np.mean(drawn) == pytest.approx(500, rel=0.05)


def test_flows_are_what_their_names_say() -> None:
    parts = flows.spread({"a": 2, "b": 2})
    assert [str(part) for part in parts] == ["a:0", "a:1", "b:0", "b:1"]
    assert flows.steady(parts, 7).at(1e9).tolist() == [7, 7, 7, 7]
    walked = flows.walk(parts, 100.0, 5.0, 50, np.random.default_rng(3), step=2.0)
    steps = np.abs(np.diff(walked.speeds, axis=0))
    assert 0 < steps.max() <= 5
    assert (walked.at(3.9) == walked.speeds[1]).all()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a:0,b\n1,2\n", "'b'"),
        ("a:0\nfast\n", "fast"),
        ("a:0,a:1\n1,2\n3\n", "not a flow"),
        ("a:0\n-1\n", "0 or more"),
        ("", "not a flow"),
    ],
)
def test_a_file_that_is_no_flow_is_told(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.csv"
    file.write_text(text)
    with pytest.raises(WrongInput, match=sentence):
        flows.replay(file)


def test_sizes_that_cannot_be_are_told() -> None:
    with pytest.raises(WrongInput, match="gamma"):
        Sizes("gamma")  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(WrongInput, match="not 10"):
        Sizes(mean=10)


def test_a_file_that_is_no_tally_is_told(tmp_path: Path) -> None:
    file = tmp_path / "tally.json"
    file.write_text("{}")
    with pytest.raises(WrongInput, match=r"tally\.json is not the tally"):
        Tally.load(file)
