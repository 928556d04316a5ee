"""A lake in a bucket for fault runs: a real S3 server, and before it a proxy that misbehaves.

Between faults there is noise: a few of all requests meet one of the faults all the time.
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lagless.adapters.lake import store
from lagless.adapters.lake.store import Store
from lagless.lab.parts import s3_faults
from lagless.lab.parts.faulty_proxy import FaultyProxy
from lagless.lab.parts.object_store import ObjectStore
from lagless.lab.parts.s3_faults import Fault, Rule
from lagless.settings import Bucket, StorageSettings

NAME = "chaos"
PLACE = Bucket(NAME, "lake")
WRITES = ("put", "put part", "end upload")
LATE = (0.05, 0.5, 3.0, 15.0, 45.0)
"""Seconds after which a late put lands."""
NOISE = 0.01
"""The share of requests that meet each fault all the time."""


def _rules(fault: Fault, chance: float = 0.6, **conditions: Any) -> list[Rule]:
    return [Rule(fault, chance=chance, **conditions)]


FAULTS: Mapping[str, Callable[[random.Random], list[Rule]]] = {
    "lost-answer": lambda dice: _rules(s3_faults.LOST_ANSWER, kinds=WRITES),
    "own-retry": lambda dice: [
        *_rules(s3_faults.REPEATED, 0.5, conditional=True),
        *_rules(s3_faults.FAILED_AFTER, 0.5, kinds=WRITES),
    ],
    "conflict": lambda dice: _rules(s3_faults.CONFLICT, conditional=True),
    "slow-down": lambda dice: _rules(s3_faults.SLOW_DOWN, 0.4),
    # Some land before the client has tried again, some long after the cycle's deadline.
    "late-put": lambda dice: [
        Rule(s3_faults.late(dice.choice(LATE)), WRITES, chance=0.5) for _ in range(3)
    ],
    # Looks list the log, or ask for its next entry.
    "slow-list": lambda dice: [
        *_rules(s3_faults.slow(dice.uniform(1, 8)), 1.0, kinds=["list"]),
        *_rules(s3_faults.slow(dice.uniform(1, 8)), 0.3, kinds=["get"], key="_delta_log/"),
    ],
    "expired-token": lambda dice: _rules(s3_faults.EXPIRED, 1.0),
    "cut-answer": lambda dice: _rules(s3_faults.CUT, kinds=["get", "list"]),
}
"""Kinds of faults that requests can meet."""
KINDS = (*FAULTS, "store")
"""The same, and the death of the server."""


class BucketLake:
    """The server, the proxy and their faults, drawn from a seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.server = ObjectStore(folder / "s3")
        self._before: dict[str, str | None] = {}
        self._dice = random.Random(seed)
        self._seed = seed

    def start(self) -> None:
        """Start both, and leave the credentials to the processes that are started from now on."""
        self.server.start()
        self.server.make_bucket(NAME)
        self.proxy = FaultyProxy(self.server.port, _noise(), self._seed).start()
        self._before = {name: os.environ.get(name) for name in self.server.environment}
        os.environ.update(self.server.environment)

    def stop(self) -> None:
        """Stop both, and take the credentials back."""
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if hasattr(self, "proxy"):
            self.proxy.stop()
        self.server.stop()

    @property
    def disk(self) -> Path:
        """The folder in which the server keeps objects."""
        return self.server.data

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a lake behind the proxy, where nobody waits long for an answer."""
        storage = {"endpoint": self.proxy.url, "timeout": 5, "retry_seconds": 5}
        return {"path": str(PLACE), "storage": storage}

    @property
    def store(self) -> Store:
        """The lake as it is, not through the proxy."""
        return store.at(PLACE, StorageSettings(endpoint=self.server.url))

    def misbehave(self, kind: str, wait: Callable[[Callable[[], bool], float], object]) -> None:
        """Let requests meet a fault for some seconds, and until one has; `wait` lets time pass."""
        seconds = self._dice.uniform(1.5, 5.0)
        if kind == "store":
            self.server.kill()
            wait(lambda: False, seconds)
            self.server.start()
            return
        rules = FAULTS[kind](self._dice)
        self.proxy.rules = [*rules, *_noise()]
        wait(lambda: False, seconds)
        names = {rule.fault.name for rule in rules}
        wait(lambda: {rule.fault.name for rule in rules if rule.happened} == names, 30)
        self.proxy.rules = _noise()

    def calm(self) -> dict[str, Any]:
        """End all faults, wait until what is late has landed, and return what requests met."""
        self.proxy.rules = []
        until = time.monotonic() + 60
        while len(self.proxy.late) < self.proxy.faults["late"] and time.monotonic() < until:
            time.sleep(0.2)
        late = {str(status): self.proxy.late.count(status) for status in set(self.proxy.late)}
        return {"faults": dict(self.proxy.faults), "late": late}


def _noise() -> list[Rule]:
    return list(_noises())


def _noises() -> Iterator[Rule]:
    for fault in (s3_faults.LOST_ANSWER, s3_faults.FAILED_AFTER, s3_faults.late(2)):
        yield Rule(fault, WRITES, chance=NOISE)
    yield Rule(s3_faults.REPEATED, conditional=True, chance=NOISE)
    yield Rule(s3_faults.CONFLICT, conditional=True, chance=NOISE)
    yield Rule(s3_faults.SLOW_DOWN, chance=NOISE)
    yield Rule(s3_faults.CUT, ["get"], chance=NOISE)


def holes(lake: Store) -> int:
    """Count the versions that are missing in the middle of the tables' logs."""
    missing = 0
    for name in lake.folders():
        files = lake.inside(name).inside("_delta_log").files()
        entries = {int(it.name[:20]) for it in files if it.name[20:] == ".json"}
        if entries:
            missing += max(entries) - min(entries) + 1 - len(entries)
    return missing
