"""Offsets on a real broker."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lagless.adapters.kafka import offsets
from lagless.errors import Away
from lagless.lab.load.records import make_topics
from lagless.model import TopicPartition
from lagless.ports import Bounds
from lagless.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def eventually(ask: Callable[[], Bounds | None]) -> Bounds:
    """Ask until there is an answer; what is away is asked again, as a consumer does."""
    until = time.monotonic() + 60
    while True:
        try:
            bounds = ask()
            if bounds is not None:
                return bounds
        except Away:
            assert time.monotonic() < until
        assert time.monotonic() < until
        time.sleep(0.2)


def test_a_topic_that_is_created_again_after_its_leader_changed_can_be_read(tmp_path: Path) -> None:
    """Each start of the broker raises the leader epoch, and a new topic begins at 0."""
    from lagless.lab.parts.broker import Broker

    name = TopicPartition("remade", 0)
    with Broker(data_dir=tmp_path / "broker") as broker:
        port, bootstrap = broker.port, broker.bootstrap
        make_topics(bootstrap, {name.topic: 1})
    settings = Settings.model_validate(
        {
            "group": "g",
            "topics": [name.topic],
            "kafka": {"bootstrap": bootstrap},
            "lake": {"path": str(tmp_path / "lake")},
        }
    )
    with Broker(port=port, data_dir=tmp_path / "broker"):
        reader = offsets.Offsets(settings)
        assert eventually(lambda: reader.bounds([name]).get(name)) == Bounds(0, 0)
        offsets.delete_topics(settings, [name.topic])
        make_topics(bootstrap, {name.topic: 1})
        assert eventually(lambda: reader.bounds([name]).get(name)) == Bounds(0, 0)
        reader.close()


def test_a_leaders_epoch_ends_where_its_successor_began_to_write(tmp_path: Path) -> None:
    """Each start of the broker begins an epoch; here no record is lost."""
    from lagless.lab.parts.broker import Broker

    place = TopicPartition("kept", 0)

    def grow(bootstrap: str, count: int) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for number in range(count):
            producer.produce(place.topic, str(number), partition=0)
        assert producer.flush(60) == 0

    with Broker(tmp_path / "broker") as broker:
        make_topics(broker.bootstrap, {place.topic: 1})
        settings = Settings.model_validate(
            {
                "group": "g",
                "topics": [place.topic],
                "kafka": {"bootstrap": broker.bootstrap},
                "lake": {"path": str(tmp_path / "lake")},
            }
        )
        reader = offsets.Offsets(settings)
        grow(broker.bootstrap, 5)
        first = eventually(lambda: reader.bounds([place]).get(place))
        assert first.epoch >= 0
        broker.stop()
        broker.start()
        grow(broker.bootstrap, 3)
        second = eventually(lambda: reader.bounds([place]).get(place))
        assert second == Bounds(0, 8)
        assert second.epoch > first.epoch
        assert reader.ends({place: first.epoch}, {place: second}) == {place: 5}
        assert reader.ends({place: second.epoch}, {place: second}) == {place: 8}
        # A broker with another idea of who leads does not know.
        with pytest.raises(Away):
            reader.ends({place: first.epoch}, {place: first})
        reader.close()
