"""The user's own consumers in pods: lagless places them, and scales their workload."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lagless.adapters.kafka import topic_records
from lagless.adapters.kafka.planned_group import PlannedGroup
from lagless.errors import TryAgain
from lagless.lab.live import pods
from lagless.lab.testbed import Testbed
from lagless.messages import Plan
from lagless.settings import Settings
from tests.waiting import until

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
]

NAME, PARTITIONS = "orders", 6
MEMBER = Path(__file__).with_name("ordinary_member.py")
RATE = 100_000
CALM, BUSY = 40_000, 220_000
"""Bytes/s of the load: enough for one member of `RATE`, and for three."""
PATIENCE = 300.0


def document(kind: str, kubeconfig: Path, namespace: str) -> dict[str, Any]:
    return {
        "group": NAME,
        "topics": [NAME],
        "monitor": {"interval": 2, "window": 6},
        "controller": {"iteration": 10, "rebalance": 1, "pause": 2, "shrink_after": 5},
        "members": {"kind": "group", "rate": RATE},
        "provisioner": {
            "kind": kind,
            "workload": NAME,
            "namespace": namespace,
            "kubeconfig": str(kubeconfig),
        },
    }


def create_workload(kind: str, namespace: str, bootstrap: str, folder: Path) -> None:
    """Create the workload with one pod; its members append to files in a folder."""
    from kubernetes import client

    folder.mkdir()
    folder.chmod(0o777)
    told = {"BOOTSTRAP": bootstrap, "GROUP": NAME, "TOPIC": NAME, "FOLDER": str(folder)}
    static = {"STATIC": "1"} if kind == "statefulset" else {}
    env: list[dict[str, Any]] = [{"name": k, "value": v} for k, v in {**told, **static}.items()]
    env.append({"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    member = {"image": pods.IMAGE, "command": [sys.executable, "-c", MEMBER.read_text()]}
    pod = pods.template(folder, "member", **member, env=env)["spec"]["template"]
    pod["metadata"] = {"labels": {"app": NAME}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": NAME}}, "template": pod}
    body = {"metadata": {"name": NAME}, "spec": spec}
    apps = client.AppsV1Api()
    if kind == "deployment":
        apps.create_namespaced_deployment(namespace, body)
    else:
        spec |= {"serviceName": NAME, "podManagementPolicy": "Parallel"}
        apps.create_namespaced_stateful_set(namespace, body)


def replicas(kind: str, namespace: str) -> int:
    """Return the number in the workload's scale subresource."""
    from kubernetes import client

    apps = client.AppsV1Api()
    if kind == "deployment":
        scale: Any = apps.read_namespaced_deployment_scale(NAME, namespace)
    else:
        scale = apps.read_namespaced_stateful_set_scale(NAME, namespace)
    return int(scale.spec.replicas or 0)


class Load:
    """Writes to all partitions alike, at a speed that may be changed."""

    def __init__(self, bootstrap: str) -> None:
        self.speed = 0
        self.produced: Counter[int] = Counter()
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 4})
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write while the block runs; after it, all is in Kafka."""
        self._thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._thread.join(60)
        assert self._producer.flush(60) == 0

    def _write(self) -> None:
        owed = 0.0
        while not self._ending.wait(0.1):
            owed += self.speed * 0.1 / 1000
            while owed >= 1:
                owed -= 1
                partition = self.produced.total() % PARTITIONS
                self._producer.produce(NAME, b"x" * 950, partition=partition)
                self.produced[partition] += 1
            self._producer.poll(0)


class Placed:
    """Where the plan places the partitions, and who holds them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._group = PlannedGroup(settings)

    def close(self) -> None:
        self._group.close()

    def plan(self) -> Plan | None:
        """Return the newest plan; None before the controller has made its topic."""
        settings = self._settings
        topic = settings.plan_topic
        try:
            with closing(topic_records.Reader(settings.kafka, topic, 0, "beginning")) as reader:
                read = reader.drain_to_end(60)
                return reader.newest(Plan, read, settings.group, {settings.group})
        except TryAgain:
            return None

    def followed_by(self, busy: int) -> bool:
        """Return whether so many members hold all partitions, each exactly what is planned."""
        plan = self.plan()
        if plan is None:
            return False
        planned = {name: set(topics.get(NAME, ())) for name, topics in plan.members.items()}
        members = self._group.describe().members
        held = {it.name: {p.partition for p in it.held} for it in members if it.held}
        whole = sum(map(len, held.values())) == PARTITIONS
        return whole and held == planned and len(held) == busy


def processed(folder: Path) -> dict[str, Counter[tuple[int, int]]]:
    """Return how often each pod processed each record, by partition and offset."""
    found = {}
    for file in folder.iterdir():
        lines = (line.split() for line in file.read_text().splitlines(keepends=True) if line)
        found[file.name] = Counter((int(p), int(offset)) for p, offset in lines)
    return found


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_the_workload_grows_and_shrinks_with_the_load_and_every_record_is_processed(
    kind: str, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    folder = tmp_path / "processed"
    address = pods.address(kubeconfig)
    with Testbed(tmp_path / "bed", spark=False, address=address, assignor=True) as bed:
        settings, config = bed.settle(document(kind, kubeconfig, namespace))
        bed.make_topics({NAME: PARTITIONS})
        create_workload(kind, namespace, bed.bootstrap, folder)
        for role in ("monitor", "controller"):
            bed.start_role(role, config)
        load = Load(bed.broker.bootstrap)
        with closing(Placed(settings)) as placed:

            def settled(pods: int) -> bool:
                bed.children.check()
                return replicas(kind, namespace) == pods and placed.followed_by(pods)

            with load.running():
                load.speed = CALM
                until(lambda: settled(1), "one member to have it all", PATIENCE)
                load.speed = BUSY
                until(lambda: settled(3), "three members to follow the plan", PATIENCE)
                load.speed = CALM
                until(lambda: settled(1), "one member to have it all again", PATIENCE)
        wanted = {(p, n) for p, count in load.produced.items() for n in range(count)}

        def done() -> bool:
            return set().union(*processed(folder).values()) >= wanted

        until(done, "every record to be processed", PATIENCE)
    by_pod = processed(folder)
    assert set().union(*by_pod.values()) == wanted
    assert sum(bool(records) for records in by_pod.values()) >= 3
    if kind == "statefulset":
        assert by_pod.keys() == {f"{NAME}-{n}" for n in range(len(by_pod))}
