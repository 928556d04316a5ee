"""The testbed: a folder, a broker, Spark, settings, a load and child processes on this machine.

Everything that runs the real system stands on it: the demo, the live evaluation, fault runs and
tests. What it starts ends with it, and with this process, however it ends: consumers too, which
otherwise outlive their controller (`wiring.clock`).
"""

import json
import os
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from lagless import settings
from lagless.adapters.kafka.topic_watch import Watcher
from lagless.adapters.spark.sessions import HOST
from lagless.errors import GiveUp, WrongInput
from lagless.history import History
from lagless.lab.load import records
from lagless.lab.load.account import Tally
from lagless.lab.load.flows import Flow
from lagless.lab.parts import assignor_jar, children
from lagless.lab.parts.broker import Broker
from lagless.lab.parts.brokers import Brokers
from lagless.lab.parts.children import Children
from lagless.lab.parts.connect import ConnectServer
from lagless.messages import AnyDecision, Heartbeat, WriteSpeeds
from lagless.settings import Settings
from lagless.wiring import clock

PODS = "PODS"
"""The broker's listener for pods."""


class Testbed:
    """A folder with all that a group needs; a temporary one if none is named.

    With an address, pods on this machine's node reach broker and Spark there. `master` says where
    the Connect server's executors are, `listeners` what else the broker is to listen to. With
    `assignor`, the broker can follow plans. With more than one of `brokers`, `broker` is a cluster
    of them, on this machine's plain addresses only.
    """

    __test__ = False  # pytest would take it for a test

    def __init__(
        self,
        folder: Path | None = None,
        *,
        spark: bool = True,
        address: str | None = None,
        memory: str = "2g",
        master: str = "local[2]",
        assignor: bool = False,
        listeners: Mapping[str, str] = {},
        brokers: int = 1,
    ) -> None:
        if brokers > 1 and (address is not None or listeners):
            raise WrongInput("a testbed of several brokers has no other listeners")
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="lagless-testbed-"))
        self._has_spark = spark
        self._address = address
        self._outer: str | None = None
        self.children = Children()
        plans = assignor_jar.PROPERTIES if assignor else {}
        plugins = [assignor_jar.built()] if assignor else []
        self.broker: Broker | Brokers = (
            Brokers(self.folder / "brokers", brokers, plans, plugins=plugins)
            if brokers > 1
            else Broker(
                self.folder / "broker",
                settings={**_listeners(address), **listeners, **plans},
                plugins=plugins,
            )
        )
        # Pods run as another user than this process: they must be able to delete what Spark writes.
        conf = {} if address is None else {"spark.hadoop.fs.permissions.umask-mode": "000"}
        if master.startswith("spark://"):
            conf |= {"spark.executor.cores": "1", "spark.executor.memory": "512m"}
        host = HOST if address is None else "0.0.0.0"  # nosec B104  # for pods
        self.connect = ConnectServer(
            self.folder / "connect", conf=conf, host=host, memory=memory, master=master
        )

    @property
    def bootstrap(self) -> str:
        """The broker's address for the group."""
        return self.broker.listeners["PLAINTEXT" if self._address is None else PODS]

    @property
    def spark(self) -> str:
        """The Connect server's address for the group."""
        return self.connect.url.replace(HOST, self._address or HOST)

    @property
    def lake(self) -> Path:
        """The folder of the tables, unless the settings name another."""
        return self.folder / "lake"

    def start(self) -> Self:
        """Start the broker and Spark side by side."""
        self._outer = os.environ.get(clock.END_WITH)
        os.environ[clock.END_WITH] = str(os.getpid())
        with ThreadPoolExecutor(1) as side:
            starting = side.submit(self._start_connect)
            self.broker.start()
            starting.result()
        return self

    def warm_up(self) -> None:
        """Have Spark run a consumer's work once."""
        if self._has_spark:
            self.connect.warm_up(self.bootstrap)

    def stop(self) -> None:
        """End all children, then Spark and the broker."""
        self.children.end(patience=5)
        self.connect.stop()
        self.broker.stop()
        os.environ.pop(clock.END_WITH, None)
        if self._outer is not None:
            os.environ[clock.END_WITH] = self._outer

    def __enter__(self) -> Self:
        try:
            self.start().warm_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            if self._temporary:
                shutil.rmtree(self.folder, ignore_errors=True)

    def settle(self, tree: Mapping[str, Any], name: str = "") -> tuple[Settings, Path]:
        """Write a settings file with the testbed's addresses, and return it read back.

        Groups with a name have a folder of their own.
        """
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        defaults: dict[str, dict[str, str]] = {
            "kafka": {"bootstrap": self.bootstrap},
            "lake": {"path": str(home / "lake")},
            "provisioner": {"directory": str(home / "consumers")},
        }
        if self._has_spark:
            defaults["spark"] = {"url": self.spark}
        whole = {**tree, **{key: {**value, **tree.get(key, {})} for key, value in defaults.items()}}
        config = home / "lagless.toml"
        config.write_text(toml(whole))
        return settings.load(config, environ={}), config

    def log(self, name: str) -> Path:
        """Return the log of a child."""
        logs = self.folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return logs / f"{name}.log"

    def start_module(self, name: str, *words: str) -> None:
        """Start `python -m …` as a child with a name."""
        self.children.start(name, words, self.log(name))

    def start_role(self, role: str, config: Path) -> None:
        """Start a role by its command."""
        self.start_module(role, "lagless", role, "--config", str(config))

    def make_topics(self, topics: Mapping[str, int]) -> None:
        """Make the topics that are missing."""
        replicas = self.broker.replicas if isinstance(self.broker, Brokers) else 1
        records.make_topics(self.broker.bootstrap, topics, replicas=replicas)

    def tally(self, name: str = "load") -> Path:
        """Return the file in which a load counts what it produced."""
        return self.folder / ("tally.json" if name == "load" else f"{name}-tally.json")

    def start_load(self, flow: Flow, *words: str, name: str = "load") -> float:
        """Start a load in a child, and return the time at which it began."""
        file = self.folder / f"{name}.csv"
        flow.save(file)
        options = ["--bootstrap", self.broker.bootstrap, "--file", str(file)]
        options += ["--step", f"{flow.step:g}", "--tally", str(self.tally(name)), *words]
        self.start_module(name, "lagless.lab.load.load", *options)
        self.until(self.tally(name).exists, "the load does not begin")
        return time.time() - Tally.load(self.tally(name)).seconds

    def end_load(self, name: str = "load") -> Tally:
        """End a load, and return what it produced."""
        self.children.end(name, patience=60)
        return Tally.load(self.tally(name))

    def until(
        self, condition: Callable[[], bool], trouble: str, seconds: float = 60.0, step: float = 0.1
    ) -> None:
        """Wait until a condition holds while all children run; GiveUp after so many seconds."""
        end = time.monotonic() + seconds
        while not condition():
            self.children.check()
            if time.monotonic() > end:
                raise GiveUp(f"{trouble} within {seconds:g} s")
            time.sleep(step)

    def _start_connect(self) -> None:
        if not self._has_spark:
            return
        before = os.umask(0) if self._address is not None else None
        try:
            self.connect.start()
        finally:
            if before is not None:
                os.umask(before)


class Listener:
    """What a group says on its topics: decisions, measurements and heartbeats."""

    def __init__(self, settings: Settings, history: History | None = None) -> None:
        self._watcher = Watcher(settings)
        self._beats: dict[int, tuple[float, Heartbeat]] = {}
        self.history = history or History()
        self.speeds: list[tuple[float, dict[str, float]]] = []
        """When each measurement was published, and the speed of each topic in it."""
        self.consumers_max = 0

    def listen(self) -> None:
        """Take in what arrived."""
        while messages := self._watcher.read():
            for message in messages:
                if isinstance(message, WriteSpeeds):
                    totals = {t: sum(parts.values()) for t, parts in message.speeds.items()}
                    self.speeds.append((message.at, totals))
                elif isinstance(message, AnyDecision):
                    self.history.take(message)
                elif isinstance(message, Heartbeat):
                    self._beats[message.consumer] = (time.time(), message)
        ready = [beat for beat in self.fresh() if beat.state == "ready"]
        self.consumers_max = max(self.consumers_max, len(ready))

    def fresh(self, seconds: float = 8.0) -> list[Heartbeat]:
        """Return the last heartbeat of each consumer that was heard within so many seconds."""
        return [beat for at, beat in self._beats.values() if time.time() - at < seconds]

    def median(self, name: str) -> float | None:
        """Return the median of dt2, dt3 or dt4 over the reassignments."""
        timed = self.history.timed([at for at, _ in self.speeds])
        return median(getattr(reassignment, name) for reassignment in timed)

    def close(self) -> None:
        """Take in what is left and stop listening."""
        self.listen()
        self._watcher.close()


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are known, or None without any."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _listeners(address: str | None) -> dict[str, str]:
    if address is None:
        return {}
    port = children.free_tcp_ports()[0]
    return {
        "listeners": f"{PODS}://0.0.0.0:{port}",
        "advertised.listeners": f"{PODS}://{address}:{port}",
        "listener.security.protocol.map": f"{PODS}:PLAINTEXT",
    }


def toml(tree: Mapping[str, Any], prefix: str = "") -> str:
    """Return settings as TOML, with a line per value that names its tables."""
    lines = []
    for key, value in tree.items():
        name = prefix + (key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key))
        deeper = isinstance(value, Mapping) and value
        lines.append(toml(value, f"{name}.") if deeper else f"{name} = {json.dumps(value)}\n")
    return "".join(lines)
