"""The assignor in Java consumers with the classic protocol, on a broker without it."""

import shutil

import pytest

from lagless.lab.parts.broker import Broker
from tests.assignor.groups import Group
from tests.waiting import until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK to compile the consumer"),
]


def test_java_consumers_follow_a_plan_and_its_changes(broker: Broker) -> None:
    group = Group(broker, classic=True)
    topic = group.topic("orders", 6)
    try:
        for name in ("c-1", "c-2"):
            group.join_classic(name, topic)
        until(lambda: group.counts() == [3, 3], "an even start without a plan")

        group.plan({"c-1": {topic: range(5)}, "c-2": {topic: [5]}})
        group.follows({"c-1": {topic: range(5)}, "c-2": {topic: [5]}})
        group.stays()

        group.plan({"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}})
        group.follows({"c-1": {topic: [0]}, "c-2": {topic: range(1, 6)}})

        group.members.pop("c-2").kill()
        until(lambda: group.counts() == [6], "the other to read everything")
    finally:
        group.close()
