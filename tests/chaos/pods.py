"""The whole system with consumers as pods, while pods, the controller and the cluster fail.

    python -m tests.chaos group --provisioner kubernetes --minutes 10 --seed S --report FILE

The cluster is the one that LAGLESS_TEST_KUBECONFIG names; its node has to be this machine. One
topic is written to all the time, another one by turns a minute long: the group has to grow and to
shrink. Every kind of fault comes as often as every other, in a random order.

Faults: `deleted` a pod is deleted; `killed` the process in a pod gets -9; `controller` it gets -9
and is started again; `api` the API server is stopped for 20 s.
"""

import os
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np

from lagless.errors import GiveUp, WrongInput
from lagless.lab.load import flows
from lagless.lab.load.account import Counts, Tally
from lagless.lab.testbed import Listener
from lagless.settings import Settings
from tests.chaos import group
from tests.chaos.run import RECOVERY, SMALL, TOPICS, Run, count, tree
from tests.kubernetes import hosted

STEADY, BURST = "orders", "clicks"
FAULTS = ("deleted", "killed", "controller", "api")
AWAY = 20.0
"""Seconds for which the API server is stopped."""
OWNER = "lagless-controller"
TURN = 60.0
"""Seconds for which the second topic is written to, and then not."""


@dataclass(slots=True)
class Pods(Run):
    """A fault run whose consumers are pods."""

    namespace: str = ""
    kubeconfig: Path = Path()
    resume: Timer | None = None

    def kill(self, kind: str) -> str:
        """Let something fail; give what did."""
        if kind == "controller":
            return Run.kill(self, kind)
        self.await_api()
        if kind == "api":
            self._stop_api()
        else:
            victim = self._victim()
            if victim is None:
                return "nothing, since there is no pod"
            if kind == "deleted":
                _core().delete_namespaced_pod(victim.metadata.name, self.namespace)
            else:
                self._kill_inside(victim)
        self.kills[kind] += 1
        return kind

    def _victim(self) -> Any:
        """Choose a pod that runs and is not being deleted."""
        found = [
            pod
            for pod in _core().list_namespaced_pod(self.namespace).items
            if pod.metadata.deletion_timestamp is None and pod.status.phase == "Running"
        ]
        return found[int(self.dice.integers(len(found)))] if found else None

    def _kill_inside(self, pod: Any) -> None:
        # The first process of a pod does not hear -9 from within: the host sends it.
        process = hosted.processes().get(pod.metadata.name)
        if process is not None:
            process.kill()

    def _stop_api(self) -> None:
        """Stop the API server, and let it go on in a while."""
        pid = int((self.kubeconfig.parent / "kube-apiserver.pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        self.resume = Timer(AWAY, os.kill, (pid, signal.SIGCONT))
        self.resume.start()

    def await_api(self) -> None:
        """Wait until an API server that was stopped goes on."""
        if self.resume is not None:
            self.resume.join()
            self.resume = None

    def turn_on(self, topic: str, speed: float) -> None:
        """Begin to write to every partition of a topic, or continue."""
        flow = flows.steady(flows.spread({topic: TOPICS[topic]}), speed)
        self.bed.start_load(flow, name=topic)

    def turn_off(self, topic: str) -> None:
        """Write to a topic no longer."""
        if topic in self.bed.children:
            self.bed.end_load(topic)

    def produced(self) -> Counts:
        """Return how many records each partition got."""
        counts: Counts = {}
        for topic in TOPICS:
            counts |= Tally.load(self.bed.tally(topic)).produced
        return counts

    def written(self) -> int:
        """Count the partitions of the topics that have been written to."""
        return sum(n for topic, n in TOPICS.items() if self.bed.tally(topic).exists())

    def readers(self) -> int:
        """Count the consumers that hold partitions."""
        return sum(bool(beat.held) for beat in self.listener.fresh())

    def remove(self) -> None:
        """Take lagless off the cluster: what it started goes with the controller's Deployment."""
        self.await_api()
        _apps().delete_namespaced_deployment(OWNER, self.namespace)
        # A process may outlive its pod's entry for a moment, on a busy node.
        self.wait(
            90,
            lambda: (
                not _core().list_namespaced_pod(self.namespace).items and not hosted.processes()
            ),
        )

    def left(self) -> list[str]:
        """Return the Deployments, pods and consumers' processes that are still there."""
        deployments = _apps().list_namespaced_deployment(self.namespace).items
        pods = _core().list_namespaced_pod(self.namespace).items
        found = [f"Deployment {one.metadata.name}" for one in deployments]
        found += [f"pod {one.metadata.name}" for one in pods]
        return found + [f"process {one.pid}" for one in hosted.processes().values()]


def _core() -> Any:
    from kubernetes import client

    return client.CoreV1Api()


def _apps() -> Any:
    from kubernetes import client

    return client.AppsV1Api()


def run(
    folder: Path,
    minutes: float,
    seed: int,
    every: float,
    say: Callable[[str], None],
    speed: float = group.PARTITION,
) -> dict[str, Any]:
    """Run it all, and give the report."""
    named = os.environ.get("LAGLESS_TEST_KUBECONFIG")
    if not named:
        raise WrongInput("LAGLESS_TEST_KUBECONFIG: is not set; name the test cluster's kubeconfig")
    with hosted.stage(Path(named), folder) as stage:
        say("broker and Connect server are up")
        return run_on(stage, folder, minutes, seed, every, say, speed)


def run_on(
    stage: hosted.Stage,
    folder: Path,
    minutes: float,
    seed: int,
    every: float,
    say: Callable[[str], None],
    speed: float = group.PARTITION,
) -> dict[str, Any]:
    """Run it with a broker and a Connect server that are there."""
    namespace = f"lagless-chaos-{uuid.uuid4().hex[:8]}"
    _core().create_namespace({"metadata": {"name": namespace}})
    try:
        settings, config = prepare(stage, folder, namespace, int(5 * speed))
        dice = np.random.default_rng(seed)
        one = Pods(stage.bed, dice, settings, config, Listener(settings))
        one.namespace, one.kubeconfig = namespace, stage.kubeconfig
        try:
            return play(one, minutes, every, say, speed / 2)
        finally:
            one.await_api()
            one.bed.children.end(patience=5)
            one.listener.close()
    finally:
        _core().delete_namespace(namespace)


def prepare(stage: hosted.Stage, folder: Path, namespace: str, rate: int) -> tuple[Settings, Path]:
    """Write the settings, give them to the pods, and make the Deployment that owns them."""
    pace = {"iteration": 10, "rebalance": 2, "pause": 3, "catch_up": 30, "max_consumers": 6}
    whole = tree(
        rate,
        monitor={"interval": 1, "window": 5},
        controller=pace,
        provisioner={
            "kind": "kubernetes",
            "kubeconfig": str(stage.kubeconfig),
            "namespace": namespace,
            "image": hosted.IMAGE,
            "config_map": "lagless",
            "template": str(hosted.write_template(folder / "consumer.yaml", folder / "lake")),
            "owner": OWNER,
        },
        lake={"path": str(folder / "lake")},
    )
    settings, config = stage.bed.settle(whole, folder.name)
    hosted.config_map(namespace, config)
    labels = {"app": OWNER}
    pod = {"containers": [{"name": "controller", "image": hosted.IMAGE}]}
    _apps().create_namespaced_deployment(
        namespace,
        {
            "metadata": {"name": OWNER},
            # The controller of this run is a process of this machine.
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    )
    return settings, config


def play(
    one: Pods, minutes: float, every: float, say: Callable[[str], None], speed: float
) -> dict[str, Any]:
    """Let the group read, grow, suffer, shrink and end; give the report."""
    for role in ("monitor", "controller"):
        one.bed.start_role(role, one.config)
    one.turn_on(STEADY, speed)
    if not one.wait(120, lambda: one.lag() is not None):
        raise GiveUp(f"the group does not read: see {one.bed.folder}")
    say("the group reads")
    few = one.readers()
    one.turn_on(BURST, 2 * speed)
    grown = one.wait(120, lambda: one.lag() is not None and one.readers() > few)
    say(f"from {few} to {one.readers()} consumers: {grown}")
    suffer(one, minutes, every, say, speed)
    last = time.monotonic()
    one.turn_off(BURST)
    one.wait(5)
    small = one.wait(3 * RECOVERY, lambda: (one.lag() or 10**9) < SMALL)
    recovered = time.monotonic() - last if small else None
    say(f"lag under {SMALL:g} s again after {recovered} s")
    shrunk = one.wait(120, lambda: one.lag() is not None and one.readers() <= few)
    say(f"back to {one.readers()} consumers: {shrunk}")
    one.turn_off(STEADY)
    produced = one.produced()
    total = sum(sum(counts.values()) for counts in produced.values())
    one.wait(240, lambda: one.arrived() >= total)
    one.bed.children.end("controller", "monitor")
    one.remove()
    return {
        **count(one, produced),
        "grown": grown,
        "shrunk": shrunk,
        "recovered_seconds": recovered,
        "left": one.left(),
    }


def suffer(
    one: Pods, minutes: float, every: float, say: Callable[[str], None], speed: float
) -> None:
    """Let each fault follow the other, at least one of each kind."""
    began = turned = time.monotonic()
    faults = one.deal(FAULTS)
    for _ in range(max(len(FAULTS), int(60 * minutes / every))):
        one.wait(every)
        kind = one.kill(next(faults))
        now = time.monotonic()
        heard = len(one.listener.fresh())
        say(f"{now - began:.0f} s: {kind}, lag {one.lag()}, {heard} consumers heard")
        if now - turned > TURN:
            turned = now
            if BURST in one.bed.children:
                one.turn_off(BURST)
            else:
                one.turn_on(BURST, 2 * speed)


def is_good(report: dict[str, Any]) -> bool:
    """Return whether the group grew and shrank as well, and nothing went wrong."""
    return group.is_good(report) and report["grown"] and report["shrunk"]
