"""What tests share: a real broker and a real Connect server for each lane, started when first used.

`broker`   the embedded broker; `broker.bootstrap` is its address
`connect`  the embedded Connect server; `connect.url` is its address
`spark`    a session on it
`s3`       an S3 server; its credentials are in the environment while the lane runs
`bucket`   the name of a fresh bucket on it
`registry` a schema registry; `registry.url` is its address
`topic`    `topic(partitions=4)` makes a topic with a fresh name and returns the name
"""

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lagless.lab.parts.apicurio import Apicurio
    from lagless.lab.parts.broker import Broker
    from lagless.lab.parts.connect import ConnectServer
    from lagless.lab.parts.object_store import ObjectStore

# The tests' JVMs live for seconds: what the second compiler makes comes too late for them, and
# takes a third of the processor.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
# Making the archive of classes takes a core for half a minute, and they end before it is of use.
os.environ.setdefault("LAGLESS_SPARK__ARCHIVE", "false")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here, with the reason."""
    reasons: dict[str, str] = {}
    if not os.environ.get("LAGLESS_TEST_KUBECONFIG"):
        reasons["kubernetes"] = "needs a cluster: LAGLESS_TEST_KUBECONFIG is not set"
    if not any(map(shutil.which, BROWSERS)):
        reasons["browser"] = "needs a browser: no Chromium was found"
    if any(item.get_closest_marker("s3") for item in items):
        from lagless.lab.parts.object_store import MINIO

        if not MINIO.can_run():
            reasons["s3"] = f"needs an S3 server: {MINIO.lacking}"
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
    _arrange(items)


def _arrange(items: list[pytest.Item]) -> None:
    """Prepare for two lanes: a file stays in one, all of the cluster's too; slow ones begin.

    Whole systems follow each other: each has a load that does not wait for a busy machine, so that
    two at once would both have more to read, and less to read it with.
    """
    lanes: dict[str, list[pytest.Item]] = {}
    for item in items:
        together = (name for name in ("kubernetes", "system") if item.get_closest_marker(name))
        lane = next(together, item.nodeid.partition("::")[0])
        lanes.setdefault(lane, []).append(item)
        item.add_marker(pytest.mark.xdist_group(lane))

    def haste(lane: str) -> tuple[bool, bool]:
        return lane != "system", not any(test.get_closest_marker("slow") for test in lanes[lane])

    items[:] = [test for lane in sorted(lanes, key=haste) for test in lanes[lane]]


@pytest.fixture(scope="session", autouse=True)
def _nothing_left() -> Iterator[None]:
    """Find no process of the tests left when the last fixture has ended."""
    yield
    until = time.monotonic() + 15
    while (left := _descendants()) and time.monotonic() < until:
        time.sleep(0.2)
    told = [f"{process.pid} {name}" for process, name in left]
    for process, _ in left:
        process.kill()
    assert not told, f"the tests left processes running: {told}"


def _descendants() -> list[tuple[psutil.Process, str]]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            line = " ".join(process.cmdline())
            # Python's own helper of multiprocessing lives until the interpreter ends.
            helper = "resource_tracker" in line or "multiprocessing.forkserver" in line
            if process.status() != psutil.STATUS_ZOMBIE and not helper:
                found.append((process, line[:200]))
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.fixture(scope="session")
def broker() -> "Iterator[Broker]":
    """Run one broker for all tests of a lane."""
    from lagless.lab.parts.broker import Broker

    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def connect(broker: "Broker") -> "Iterator[ConnectServer]":
    """Run one warm Connect server for all tests of a lane; it could read buckets itself."""
    from lagless.lab.parts import s3a
    from lagless.lab.parts.connect import ConnectServer

    conf = {"spark.jars": ",".join(map(str, s3a.all_jars()))}
    with ConnectServer(bootstrap=broker.bootstrap, conf=conf) as running:
        yield running


@pytest.fixture(scope="session")
def spark(connect: "ConnectServer") -> "Iterator[SparkSession]":
    """Open one session on the Connect server."""
    from lagless.adapters.spark.sessions import session

    opened = session(connect.url)
    yield opened
    opened.stop()


@pytest.fixture(scope="session")
def s3() -> "Iterator[ObjectStore]":
    """Run one S3 server for all tests of a lane."""
    from lagless.lab.parts.object_store import ObjectStore

    with ObjectStore() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture
def bucket(s3: "ObjectStore") -> str:
    """Make a bucket of the test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    s3.make_bucket(name)
    return name


@pytest.fixture(scope="session")
def registry() -> "Iterator[Apicurio]":
    """Run one schema registry for all tests of a lane."""
    from lagless.lab.parts.apicurio import Apicurio

    with Apicurio() as running:
        yield running


@pytest.fixture(scope="session")
def topic(broker: "Broker") -> Callable[..., str]:
    """Return a function that makes a topic: `topic(partitions=1, name=None, **config)`."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 4})

    def led(name: str, partitions: int) -> bool:
        known = admin.list_topics(name, timeout=30).topics[name].partitions.values()
        return len(known) == partitions and all(part.leader >= 0 for part in known)

    def make(partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"test-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        made = admin.create_topics([NewTopic(name, partitions, 1, config=settings)])
        made[name].result(30)
        until = time.monotonic() + 30
        while not led(name, partitions):
            assert time.monotonic() < until, f"the topic {name} has no leaders"
            time.sleep(0.05)
        return name

    return make
