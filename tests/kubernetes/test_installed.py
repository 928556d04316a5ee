"""lagless as deploy/ installs it: two controllers, the monitor and the consumers are real pods.

The tests follow each other on one installation: what a pod may do, how it ends, who takes over
from a controller that is killed, and what is left when lagless is taken off the cluster.
"""

import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml
from kubernetes import client

from lagless.adapters.kafka.topic_watch import Watcher
from lagless.adapters.kubernetes import manifest
from lagless.adapters.lake import store
from lagless.lab import testbed
from lagless.lab.live import pods
from lagless.lab.load import counting, flows, records
from lagless.lab.load.load import Load
from lagless.messages import Heartbeat
from lagless.settings import Settings, parse
from tests.kubernetes import hosted
from tests.kubernetes.conftest import BASE, new_namespace
from tests.waiting import until

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
PARTITIONS = 4
LEADS = "leading from generation"


@dataclass(slots=True)
class Installed:
    """A group on the cluster, and what it says."""

    namespace: str
    settings: Settings
    watcher: Watcher
    load: Load
    beats: list[Heartbeat] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return self.settings.topics[0]

    def listen(self) -> list[Heartbeat]:
        while found := self.watcher.read():
            self.beats += [one for one in found if isinstance(one, Heartbeat)]
        return self.beats

    def reader(self, but: str = "") -> Heartbeat | None:
        """Return the last word of who holds every partition, other than this incarnation."""
        for beat in reversed(self.listen()):
            if beat.incarnation != but and len(beat.held) == PARTITIONS:
                return beat if time.time() - beat.at < 5 else None
        return None

    def pods(self, component: str) -> list[Any]:
        selector = f"app.kubernetes.io/component={component}"
        core = client.CoreV1Api()
        return list(core.list_namespaced_pod(self.namespace, label_selector=selector).items)

    def leaders(self, but: str = "") -> list[str]:
        """Name the controllers whose last word on it is that they lead."""
        core = client.CoreV1Api()
        found = []
        for name, process in hosted.processes("controller").items():
            try:
                said = core.read_namespaced_pod_log(name, self.namespace, timestamps=True)
                # Right after a restart the log is still that of the process before.
                words = [line for line in said.splitlines() if _at(line) > process.create_time()]
            except (client.ApiException, psutil.NoSuchProcess):
                continue  # it has not begun, or is between two starts
            words = [line for line in words if LEADS in line or "standing by" in line]
            if words and LEADS in words[-1] and name != but:
                found.append(name)
        return found


def _at(line: str) -> float:
    """Read the time in front of a line."""
    return datetime.fromisoformat(line.split()[0]).timestamp()


def settings(stage: hosted.Stage, folder: Path) -> dict[str, Any]:
    name = f"installed-{uuid.uuid4().hex[:6]}"
    return {
        "group": name,
        "topics": [name],
        "kafka": {"bootstrap": stage.bootstrap},
        "monitor": {"interval": 1, "window": 5},
        "consumer": {"max_rate": 1_000_000, "batch_bytes": 100_000},
        "topic": {name: {"format": "json", "schema": records.SCHEMA}},
        "spark": {"url": stage.spark},
        "lake": {"path": str(folder / "lake")},
        "provisioner": {
            "kind": "kubernetes",
            "image": hosted.IMAGE,
            "config_map": "lagless",
            "template": "/etc/lagless/consumer.yaml",
            "owner": "lagless-controller",
        },
    }


def manifests(folder: Path) -> str:
    """Render deploy/ without what is outside of the cluster here, with the host's Python in it."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "the test cluster comes with kubectl"
    done = subprocess.run([kubectl, "kustomize", str(BASE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kept = []
    for document in yaml.safe_load_all(done.stdout):
        role = document["metadata"]["name"].removeprefix("lagless-")
        if document["kind"] == "Deployment" and role in ("controller", "monitor"):
            env = [{"name": "NUMBA_CACHE_DIR", "value": str(folder / "kernels")}]
            overlay = pods.template(folder, role, image=hosted.IMAGE, env=env)
            kept.append(manifest.merge(document, overlay))
        elif document["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
            kept.append(document)
    return str(yaml.safe_dump_all(kept))


@pytest.fixture(scope="module")
def installed(
    stage: hosted.Stage, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("installed")
    folder.chmod(0o777)
    hosted.kernels(folder / "kernels")
    document = settings(stage, folder)
    (folder / "lagless.toml").write_text(testbed.toml(document))
    hosted.write_template(folder / "consumer.yaml", folder / "lake")
    parsed = parse(document, environ={})
    flow = flows.steady(flows.spread({parsed.topics[0]: PARTITIONS}), 20_000)
    with new_namespace(kubeconfig) as namespace, Load(stage.bootstrap, flow) as load:
        hosted.config_map(namespace, folder / "lagless.toml", folder / "consumer.yaml")
        kubectl = ["kubectl", "--kubeconfig", str(kubeconfig), "-n", namespace, "apply", "-f", "-"]
        subprocess.run(kubectl, input=manifests(folder), check=True, capture_output=True, text=True)
        watcher = Watcher(parsed)
        yield Installed(namespace, parsed, watcher, load)
        watcher.close()


def test_a_consumer_is_ready_only_when_it_is_warm(installed: Installed) -> None:
    def ready() -> float | None:
        for pod in installed.pods("consumer"):
            if any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or []):
                return time.time()
        return None

    seen = until(ready, "the cluster to call the first consumer ready", 180)
    assert until(installed.reader, "a consumer that reads everything")
    assert min(beat.at for beat in installed.beats if beat.state == "ready") < seen
    assert any(beat.state == "starting" for beat in installed.beats)


def test_a_consumer_has_no_rights_and_cannot_change_its_image(installed: Installed) -> None:
    until(installed.reader, "a consumer that reads everything")
    found = hosted.processes()  # on a busy machine the controller may have wanted two
    assert found
    for process in found.values():
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        assert status["Uid"].split() == ["10001"] * 4
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        mounts = Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines()
        root = next(line.split() for line in mounts if line.split()[4] == "/")
        assert "ro" in root[5].split(",")
        assert not any("serviceaccount" in line for line in mounts)


def test_a_consumer_that_is_asked_to_end_hands_back_and_ends_in_time(installed: Installed) -> None:
    before = until(installed.reader, "a consumer that reads everything")
    (pod,) = installed.pods("consumer")
    process = hosted.processes()[pod.metadata.name]
    client.CoreV1Api().delete_namespaced_pod(pod.metadata.name, installed.namespace)
    gone = pod.spec.termination_grace_period_seconds
    until(lambda: not _lives(process), "the consumer to end", gone)
    until(lambda: installed.reader(but=before.incarnation), "another one to read")
    last = [one for one in installed.listen() if one.incarnation == before.incarnation][-1]
    assert not last.held


def test_the_second_controller_takes_over_from_one_that_hangs(installed: Installed) -> None:
    (leader,) = until(installed.leaders, "a controller that leads")
    assert len(installed.pods("controller")) == 2
    process = hosted.processes("controller")[leader]
    process.suspend()
    began = time.monotonic()
    (other,) = until(lambda: installed.leaders(but=leader), "the other controller to lead", 60)
    print(f"the other controller leads {time.monotonic() - began:.1f} s after the first one hung")
    process.resume()
    until(lambda: installed.leaders() == [other], "the first one to stand by")
    time.sleep(5)
    assert installed.leaders() == [other], "who comes back does not take the lead again"


def test_another_controller_leads_after_one_was_killed(installed: Installed) -> None:
    (leader,) = until(installed.leaders, "a controller that leads")
    process = hosted.processes("controller")[leader]
    process.kill()
    began = time.monotonic()
    # A container that was killed is back at once: either of both may lead, but not both.
    until(lambda: not _lives(process) and installed.leaders(), "a controller to lead", 60)
    print(f"a controller leads {time.monotonic() - began:.1f} s after the kill")
    assert len(installed.leaders()) == 1
    assert until(installed.reader, "the group to read on")


def test_nothing_is_lost_or_left(installed: Installed) -> None:
    installed.load.ask_to_stop()
    tally = until(lambda: (t := installed.load.tally()).complete and t, "the load to end")
    lake, tables = store.of(installed.settings.lake), {installed.topic: installed.topic}
    until(lambda: counting.arrived(lake, tables) >= tally.records, "every record")
    count = counting.count(lake, tables, tally.produced)
    assert count.landed == count.produced > 0
    assert count.duplicated == count.out_of_order == count.lost == 0
    apps = client.AppsV1Api()
    apps.delete_namespaced_deployment("lagless-controller", installed.namespace)
    until(lambda: not installed.pods("consumer"), "the consumers to go with their controller")
    left = {one.metadata.name for one in apps.list_namespaced_deployment(installed.namespace).items}
    assert left == {"lagless-monitor"}


def _lives(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
