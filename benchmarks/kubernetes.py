"""Δt3 on the test cluster: from the request for consumers to each being ready, and where it goes.

    LAGLESS_TEST_KUBECONFIG=… python -m benchmarks.kubernetes --consumers 8 --runs 5

The consumers are real pods on this machine (tests/kubernetes/hosted.py), all requested at once.
The group grows: its Connect server is warm, and has had a consumer before. For each of them:
  pod      request → its process runs: API server, scheduler, kubelet, sandbox, container
  python   → lagless is imported and answers on its port
  spark    → it has its mailbox and a session, has rehearsed a cycle and says that it is ready
"""

import argparse
import json
import logging
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kubernetes import client

from lagless import messages
from lagless.adapters.kafka import topics
from lagless.adapters.kafka.topic_watch import Watcher
from lagless.adapters.kubernetes.provisioner import KubernetesProvisioner
from lagless.messages import Heartbeat
from lagless.settings import Settings, load
from tests.kubernetes import hosted

ANSWERS = "metrics and health on port"
PATIENCE = 180.0
SETTINGS = """
group = "{group}"
topics = ["nothing"]
[kafka]
bootstrap = "{stage.bootstrap}"
[consumer]
heartbeat = 1
[spark]
url = "{stage.spark}"
[lake]
path = "{folder}/lake"
[provisioner]
kind = "kubernetes"
kubeconfig = "{stage.kubeconfig}"
namespace = "{group}"
image = "{image}"
config_map = "lagless"
template = "{folder}/consumer.yaml"
"""


@dataclass(frozen=True, slots=True)
class Start:
    """When one consumer came to life, in seconds since the request, and what it cost."""

    process: float
    answers: float
    ready: float
    cpu: float
    megabytes: float


def wait(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise SystemExit("the consumers do not get ready, or do not go")
        time.sleep(0.05)


def start(settings: Settings, count: int, watcher: Watcher) -> list[Start]:
    """Request consumers, wait until all are ready, and end them."""
    provisioner = KubernetesProvisioner(settings)
    numbers = range(1, count + 1)
    while watcher.read():
        pass
    requested = time.time()
    troubles = provisioner.create(numbers)
    if troubles:
        raise SystemExit(f"not created: {troubles}")
    births = {found.consumer: found.birth for found in provisioner.instances()}
    ready: dict[int, float] = {}

    def all_ready() -> bool:
        for beat in watcher.read():
            if not isinstance(beat, Heartbeat) or beat.state != "ready":
                continue
            if messages.birth(beat.incarnation) == births[beat.consumer]:
                ready.setdefault(beat.consumer, beat.at)
        return len(ready) == count

    wait(all_ready)
    found = [_told(settings, pod, requested, ready) for pod in _pods(settings)]
    provisioner.delete(dict.fromkeys(numbers, ""))
    wait(lambda: not provisioner.instances() and not _pods(settings))
    provisioner.close()
    return found


def _pods(settings: Settings) -> list[Any]:
    return list(client.CoreV1Api().list_namespaced_pod(settings.provisioner.namespace).items)


def _told(settings: Settings, pod: Any, requested: float, ready: dict[int, float]) -> Start:
    name = pod.metadata.name
    process = hosted.processes()[name]
    log = client.CoreV1Api().read_namespaced_pod_log(
        name, settings.provisioner.namespace, timestamps=True
    )
    stamp = next(line for line in log.splitlines() if ANSWERS in line).split()[0]
    spent = process.cpu_times()
    return Start(
        process.create_time() - requested,
        datetime.fromisoformat(stamp).timestamp() - requested,
        ready[int(pod.metadata.labels["lagless.consumer"])] - requested,
        spent.user + spent.system,
        process.memory_info().rss / 1e6,
    )


def summary(starts: list[Start]) -> dict[str, Any]:
    """Return the distribution of Δt3, and the median of its parts."""
    ready = sorted(one.ready for one in starts)

    def median(values: list[float]) -> float:
        return round(statistics.median(values), 2)

    return {
        "starts": len(starts),
        "dt3": {
            "min": round(ready[0], 2),
            "p50": median(ready),
            "p90": round(ready[int(0.9 * (len(ready) - 1))], 2),
            "max": round(ready[-1], 2),
        },
        "pod": median([one.process for one in starts]),
        "python": median([one.answers - one.process for one in starts]),
        "spark": median([one.ready - one.answers for one in starts]),
        "cpu_seconds": median([one.cpu for one in starts]),
        "megabytes": median([one.megabytes for one in starts]),
    }


def main() -> None:
    """Measure and print as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consumers", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    logging.disable()
    kubeconfig = Path(os.environ["LAGLESS_TEST_KUBECONFIG"])
    group = f"dt3-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as name, hosted.stage(kubeconfig, Path(name)) as stage:
        folder = Path(name)
        file = folder / "lagless.toml"
        file.write_text(
            SETTINGS.format(group=group, stage=stage, folder=folder, image=hosted.IMAGE)
        )
        hosted.write_template(folder / "consumer.yaml", folder / "lake")
        client.CoreV1Api().create_namespace({"metadata": {"name": group}})
        hosted.config_map(group, file)
        settings = load(file, environ={})
        topics.ensure(settings)
        watcher = Watcher(settings)
        print(json.dumps({"the first one": summary(start(settings, 1, watcher))}), flush=True)
        starts: list[Start] = []
        for number in range(asked.runs):
            found = start(settings, asked.consumers, watcher)
            print(json.dumps({"run": number + 1, **summary(found)}), flush=True)
            starts += found
        watcher.close()
        client.CoreV1Api().delete_namespace(group)
    print(json.dumps(summary(starts), indent=1))


if __name__ == "__main__":
    main()
