"""Consumers through a Connect server whose executors are the workers of a cluster."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lagless.adapters.spark import jars
from lagless.errors import WrongInput
from lagless.lab.parts import masters
from lagless.lab.parts.broker import Broker
from lagless.lab.parts.cluster import Cluster
from lagless.lab.parts.connect import ConnectServer
from tests.lake.bench import Bench

RECORDS = 3000


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*]",
        "yarn",
        "spark://10.0.0.1:7077",
        "spark://one:7077,two:7077",
        "k8s://https://10.0.0.1:6443",
        "k8s://kubernetes.default.svc",
    ],
)
def test_masters_that_spark_knows_are_taken(master: str) -> None:
    assert masters.check(master) == master


@pytest.mark.parametrize("master", ["", "spark://host", "mesos://host:1", "local[", "localhost"])
def test_other_masters_are_refused_by_name(master: str) -> None:
    with pytest.raises(WrongInput, match="expected local"):
        masters.check(master)


def test_executors_elsewhere_are_told_an_address_that_leads_to_the_driver() -> None:
    assert masters.address_towards("spark://127.0.0.1:7077") == "127.0.0.1"
    conf = masters.driver("spark://192.0.2.7:7077", port=7100)
    assert conf["spark.driver.host"] not in ("", "0.0.0.0")
    assert conf["spark.driver.bindAddress"] == "0.0.0.0"
    assert (conf["spark.driver.port"], conf["spark.blockManager.port"]) == ("7100", "7101")


def test_a_named_address_is_told_even_to_executors_on_this_machine() -> None:
    conf = masters.driver("spark://127.0.0.1:7077", "driver.example")
    assert conf == {"spark.driver.host": "driver.example", "spark.driver.bindAddress": "0.0.0.0"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--master", "mesos://x"], "--master mesos://x: expected local[n]"),
        (["--conf", "spark.executor.cores"], "--conf spark.executor.cores: expected KEY=VALUE"),
    ],
)
def test_wrong_use_of_connect_is_one_sentence(arguments: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "lagless", "connect", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"lagless: {sentence}")
    assert done.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as running:
        yield running


@pytest.mark.spark
@pytest.mark.kafka
def test_two_consumers_read_through_a_cluster_of_two_workers(
    cluster: Cluster, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    names = [topic(partitions=4), topic(partitions=4)]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for name in names:
        for seq in range(RECORDS):
            producer.produce(name, json.dumps({"seq": seq}), partition=seq % 4)
    assert producer.flush(30) == 0
    conf = {"spark.executor.cores": "1", "spark.executor.memory": "512m"}
    driver = masters.address_towards("spark://192.0.2.1:7077")

    with ConnectServer(conf=conf, master=cluster.url, memory="1g", driver_host=driver) as server:
        command = Path(f"/proc/{server.pid}/cmdline").read_bytes().decode().split("\0")
        assert f"spark.driver.host={driver}" in command
        benches = [
            Bench(
                broker.bootstrap,
                server.url,
                tmp_path,
                "cluster",
                name,
                {"format": "json", "schema": "seq BIGINT"},
            )
            for name in names
        ]
        with ThreadPoolExecutor(2) as both:
            for _ in both.map(Bench.drain, benches):
                pass
        for bench in benches:
            bench.lake.close()

    for bench in benches:
        assert sorted(row["seq"] for row in bench.rows()) == list(range(RECORDS))
    # Each worker keeps what its executor fetched from the driver.
    handed = {jar.name for jar in jars.spark_jars()}
    for number in range(2):
        fetched = {jar.name for jar in cluster.folder.glob(f"worker-{number}/app-*/*/*.jar")}
        assert handed <= fetched, f"worker {number}"
