"""Offsets on a real broker."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

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
