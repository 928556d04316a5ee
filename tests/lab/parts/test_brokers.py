"""A cluster of real brokers: each can fail by itself, and leaders move."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagless.lab.parts.brokers import Brokers, replicated
from tests.lab.parts.ended import gone
from tests.lab.parts.test_broker import consume, produce

pytestmark = pytest.mark.kafka


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_partition_outlives_its_leader(tmp_path: Path) -> None:
    with Brokers(tmp_path) as brokers:
        assert sorted(brokers.members) == [1, 2, 3]
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("kept", 1)])["kept"].result(60)
        brokers.settle("kept", 0)
        assert brokers.in_sync("kept", 0) == {1, 2, 3}
        first = brokers.leader("kept", 0)
        second = first % 3 + 1
        brokers.move("kept", 0, second)
        assert brokers.leader("kept", 0) == second
        produce(brokers.bootstrap, "kept", 5)

        broken = brokers.members[second]
        pid, port = broken.pid, broken.port
        broken.kill()
        assert gone(pid)
        third = another(lambda: brokers.leader("kept", 0), second)
        assert consume(brokers.bootstrap, "kept", 5) == ["0", "1", "2", "3", "4"]

        broken.start()
        assert broken.port == port
        brokers.settle("kept", 0)
        brokers.members[third].pause()
        assert another(lambda: brokers.leader("kept", 0), third) in {1, 2, 3} - {third}
        brokers.members[third].resume()
        brokers.settle("kept", 0)
        pids = [member.pid for member in (*brokers.members.values(), brokers.controller)]
    assert all(map(gone, pids))


def another(leader: Callable[[], int], than: int) -> int:
    until = time.monotonic() + 120
    while (found := leader()) in (than, -1):
        assert time.monotonic() < until
        time.sleep(0.2)
    return found


@pytest.mark.parametrize(
    ("count", "copies", "needed"), [(2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_one_copy_may_be_missing(count: int, copies: str, needed: str) -> None:
    settings = replicated(count)
    assert settings["default.replication.factor"] == copies
    assert settings["min.insync.replicas"] == needed
