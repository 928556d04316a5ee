"""Several real Kafka brokers on this machine, as one cluster whose brokers fail one by one.

The controller is a process of its own. In the brokers it would need two of three, and so no leader
could be elected while two are away; losing records takes just that.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self

from lagless import extras
from lagless.errors import GiveUp
from lagless.lab.parts.broker import Broker, Node, new_cluster_id

with extras.needed("kafka"):
    from confluent_kafka import ElectionType, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient
    from kafka import KafkaAdminClient
    from kafka import TopicPartition as Place

CONTROLLER = 100
"""The controller's number; brokers count from 1."""
PATIENCE = 120.0
"""Seconds within which a cluster gets into a state that it is asked for."""
PAUSE = 0.3


class Brokers:
    """Brokers 1 to `count` and their controller, between entering and leaving.

    Topics have as many replicas as there are brokers, up to three, and a write with acks=all needs
    all of them but one. `settings` are Kafka's own, for every broker, and win over those chosen
    here. Each of `members` can be killed, stopped, started, paused and resumed by itself.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "384m",
        plugins: Sequence[Path] = (),
    ) -> None:
        self._temporary = data_dir is None
        folder = tempfile.mkdtemp(prefix="lagless-brokers-") if data_dir is None else data_dir
        self.data_dir = Path(folder).absolute()
        self._count = count
        self._settings = {**replicated(count), **(settings or {})}
        self._heap = heap
        self._plugins = plugins
        self._cluster = new_cluster_id()
        self.controller = Broker(
            self.data_dir / "controller",
            settings=self._settings,
            heap="256m",
            node=Node(CONTROLLER, "controller", self._cluster),
        )
        self._asked: tuple[str, AdminClient] | None = None
        self.members: dict[int, Broker] = {}
        """The brokers by number, from the first start on."""

    @property
    def bootstrap(self) -> str:
        """The addresses that clients connect to."""
        return ",".join(member.bootstrap for member in self.members.values())

    @property
    def replicas(self) -> int:
        """How many copies the cluster keeps of a topic."""
        return int(self._settings["default.replication.factor"])

    @property
    def listeners(self) -> dict[str, str]:
        """The addresses by listener, as a single broker has them."""
        return {"PLAINTEXT": self.bootstrap}

    def start(self) -> Self:
        """Start what does not run; what was started before keeps data and ports."""
        if not self.controller.running:
            self.controller.start()
        for number in range(1, self._count + 1):
            if number not in self.members:
                self.members[number] = self._member(number)
        _side_by_side([it.start for it in self.members.values() if not it.running])
        return self

    def stop(self) -> None:
        """Stop every broker in order; they hand over to the controller, which ends last."""
        _side_by_side([member.stop for member in self.members.values()])
        self.controller.stop()

    def kill(self) -> None:
        """End everything at once, as when the power fails."""
        for part in (*self.members.values(), self.controller):
            part.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition; -1 while none does."""
        return int(self._described(topic, partition).leader)

    def in_sync(self, topic: str, partition: int) -> set[int]:
        """Return the brokers whose replicas have everything that the leader has."""
        return set(self._described(topic, partition).isrs)

    def move(self, topic: str, partition: int, to: int) -> None:
        """Let another broker lead a partition, in order: it becomes the preferred one."""
        replicas = [int(it) for it in self._described(topic, partition).replicas]
        order = [to, *(it for it in replicas if it != to)]
        with closing(KafkaAdminClient(bootstrap_servers=self._bootstrap.split(","))) as admin:
            admin.alter_partition_reassignments({Place(topic, partition): order})

        def leads() -> bool:
            preferred = int(self._described(topic, partition).replicas[0])
            if preferred == to:
                wanted = [TopicPartition(topic, partition)]
                self._admin().elect_leaders(ElectionType.PREFERRED, wanted).result(30)
            return self.leader(topic, partition) == to

        _until(leads, f"broker {to} does not lead {topic}:{partition}")

    def lose(self, topic: str, partition: int, meanwhile: Callable[[], None]) -> int:
        """Lose what the leader of a partition gets `meanwhile`, in an unclean leader election.

        The followers are killed, and miss what is written. Then the leader is killed too, and a
        follower comes back and is elected, for which the topic needs
        `unclean.leader.election.enable`. All run again afterwards, and the former leader has
        dropped what the others never had. Return it.
        """
        leader = self.leader(topic, partition)
        followers = [number for number in self.members if number != leader]
        for number in followers:
            self.members[number].kill()
        alone = f"the followers of {topic}:{partition} are still in sync"
        _until(lambda: self.in_sync(topic, partition) == {leader}, alone)
        meanwhile()
        self.members[leader].kill()
        _side_by_side([self.members[number].start for number in followers])
        unclean = f"no follower of {topic}:{partition} was elected"
        _until(lambda: self.leader(topic, partition) in followers, unclean)
        self.members[leader].start()
        self.settle(topic, partition)
        return leader

    def settle(self, topic: str, partition: int) -> None:
        """Wait until every replica of a partition is in sync."""
        every = set(self._described(topic, partition).replicas)
        _until(
            lambda: self.in_sync(topic, partition) == every,
            f"not every replica of {topic}:{partition} is in sync",
        )

    def _member(self, number: int) -> Broker:
        return Broker(
            self.data_dir / f"broker-{number}",
            settings=self._settings,
            heap=self._heap,
            plugins=self._plugins,
            node=Node(number, "broker", self._cluster, f"{CONTROLLER}@{self.controller.bootstrap}"),
        )

    @property
    def _bootstrap(self) -> str:
        """The brokers that answer."""
        up = [member.bootstrap for member in self.members.values() if member.responsive]
        return ",".join(up)

    def _admin(self) -> AdminClient:
        # A new one whenever another broker fails: an old one would go on asking it.
        bootstrap = self._bootstrap
        if self._asked is None or self._asked[0] != bootstrap:
            self._asked = bootstrap, AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        return self._asked[1]

    def _described(self, topic: str, partition: int) -> Any:
        """Return what the cluster says of a partition."""
        until = time.monotonic() + PATIENCE
        while True:
            with suppress(KafkaException):
                known = self._admin().list_topics(topic, timeout=5).topics[topic]
                if partition in known.partitions:
                    return known.partitions[partition]
            if time.monotonic() > until:
                raise GiveUp(f"no broker knows {topic}:{partition} within {PATIENCE:g} s")
            time.sleep(PAUSE)


def replicated(count: int) -> dict[str, str]:
    """Return Kafka's settings for a cluster of so many brokers that may lose one."""
    copies = str(min(3, count))
    needed = str(max(1, min(3, count) - 1))
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": needed,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": needed,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": needed,
    }


def _until(condition: Callable[[], bool], trouble: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        # What cannot be asked, or is just being elected, is asked again.
        with suppress(KafkaException):
            if condition():
                return
        if time.monotonic() > end:
            raise GiveUp(f"{trouble} within {PATIENCE:g} s")
        time.sleep(PAUSE)


def _side_by_side(calls: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(max(1, len(calls))) as threads:
        for done in [threads.submit(call) for call in calls]:
            done.result()
