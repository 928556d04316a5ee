"""A real Kafka broker on this machine: KRaft, one process, on 127.0.0.1."""

import fcntl
import os
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO

from lagless import extras
from lagless.adapters.spark import jars, java, sessions
from lagless.errors import GiveUp, WrongInput
from lagless.lab.parts import children

with extras.needed("kafka"):
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

MODEST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
"""Flags for a quick start and little memory; the broker's work is copying bytes."""

ATTEMPTS = 3
OWN = ("PLAINTEXT://", "CONTROLLER://")
"""The listeners that every embedded broker has."""


@dataclass(frozen=True, slots=True)
class Node:
    """A process of a Kafka cluster: its number, and what it does there."""

    id: int = 1
    roles: str = "broker,controller"
    cluster: str = ""
    """The cluster's id; without one, it is a new cluster."""
    voter: str = ""
    """The cluster's controller as Kafka writes it, ID@HOST:PORT; without one, this node itself."""

    @property
    def listener(self) -> str:
        """The listener that answers when the node is up."""
        return "PLAINTEXT" if "broker" in self.roles else "CONTROLLER"


ALONE = Node()


class Broker(children.Server):
    """A broker that runs between entering and leaving, and no longer than this process.

    With a data folder, data outlive the broker, and a later one continues with them. `settings` are
    Kafka's own and win over those chosen here, but for the listeners: entries of `listeners`,
    `advertised.listeners` and `listener.security.protocol.map` are added to the plain listener
    that `bootstrap` names; port 0 in them becomes a free one, told by `listeners`. `plugins` are
    jars on its class path. It is a cluster by itself, unless `node` says which part of one.
    """

    title = "broker"

    def __init__(
        self,
        data_dir: Path | str | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "512m",
        plugins: Sequence[Path] = (),
        node: Node = ALONE,
    ) -> None:
        super().__init__(data_dir, port, "broker.log")
        self.data_dir = self.folder
        self.listeners: dict[str, str] = {}
        self._settings = dict(settings or {})
        self._heap = heap
        self._plugins = plugins
        self.node = node
        self._lock: IO[str] | None = None

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to; brokers, where it is only their controller."""
        return self.listeners[self.node.listener]

    @property
    def port(self) -> int:
        """The port of that address."""
        return int(self.bootstrap.rpartition(":")[2])

    def stop(self) -> None:
        """Stop the broker in order; a stopped one may be started again."""
        super().stop()
        if self._lock is not None:
            self._lock.close()

    def _launch(self) -> None:
        self._lock = _lock(self.data_dir)
        command: list[Path | str] = [
            *(java.find().path, *MODEST, f"-Xmx{self._heap}"),
            f"-Dlog4j2.configurationFile={resources.files('lagless.lab.parts')}/log4j2.properties",
            *("-cp", os.pathsep.join((jars.classpath("broker"), *map(str, self._plugins)))),
        ]
        logs = self.data_dir / "data"
        config = self.data_dir / "server.properties"
        for attempt in range(ATTEMPTS):
            spoken = self.log.stat().st_size if self.log.exists() else 0
            self.listeners, properties = configure(logs, self._port, self._settings, self.node)
            config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            if not (logs / "meta.properties").exists():
                _format(command, config, self.log, self.node)
            words, keep = [*command, "kafka.Kafka", config], [self._lock.fileno()]
            self._processes = [children.start(words, self.log, keep=keep)]
            try:
                self._await_node()
                # Started again, it keeps the addresses that its clients know.
                added = [it for it in properties["listeners"].split(",") if not it.startswith(OWN)]
                self._settings["listeners"] = ",".join(added)
                self._port = self.port
                return
            except GiveUp:
                output = self.log.read_bytes()[spoken:]
                if b"Address already in use" not in output or attempt == ATTEMPTS - 1:
                    raise
                # Another process took a port between its choice and its use: choose again.
                children.end(self._processes.pop())

    def _await_node(self) -> None:
        self._await(f"the {self.title}", lambda: children.answers(self.port))
        if "broker" in self.node.roles:
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            self._await(f"the {self.title}", lambda: _serves(admin, self.node))


def configure(
    logs: Path, port: int | None, settings: Mapping[str, str], node: Node = ALONE
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the advertised addresses by listener, and Kafka's properties."""
    properties = dict(settings)
    added = _listeners(properties.pop("listeners", ""), "listeners")
    advertised = _listeners(properties.pop("advertised.listeners", ""), "advertised.listeners")
    chosen = children.free_tcp_ports(2 + len(added))
    bound = {node.listener: f"{sessions.HOST}:{port or chosen.pop()}"}
    for name, address in added.items():
        host, _, asked = address.rpartition(":")
        bound[name] = f"{host}:{asked if int(asked) else chosen.pop()}"
    known = {
        name: advertised.get(name, address.replace("0.0.0.0", sessions.HOST))  # nosec B104  # a name
        for name, address in bound.items()
    }
    if "controller" in node.roles:
        bound.setdefault("CONTROLLER", f"{sessions.HOST}:{chosen.pop()}")
    protocols = [f"{name}:{name}" for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")]
    more = properties.pop("listener.security.protocol.map", "")
    return known, {
        "process.roles": node.roles,
        "node.id": str(node.id),
        "controller.quorum.voters": node.voter or f"{node.id}@{bound['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": _join(bound),
        "advertised.listeners": _join(known),
        "listener.security.protocol.map": ",".join(
            filter(None, ["CONTROLLER:PLAINTEXT", *protocols, more])
        ),
        "log.dirs": str(logs),
        # One broker: nothing can be replicated, and internal topics may be small.
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        # A typing mistake, or a reader of a deleted topic, must not make a topic.
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        # After a crash Kafka takes the broker back only when its old session is over.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "800",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        **properties,
    }


def _listeners(text: str, key: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = entry.partition("://")
        if not separator or not address.rpartition(":")[2].isdigit():
            raise WrongInput(f"{key} has {entry!r}: write NAME://HOST:PORT, with port 0 for any")
        if f"{name}://" in OWN:
            raise WrongInput(f"{key} has {entry!r}: that name is the embedded broker's own")
        found[name] = address
    return found


def _join(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in listeners.items())


def _lock(data_dir: Path) -> IO[str]:
    """Lock the folder; the broker inherits the lock, which lasts while either process lives."""
    lock = (data_dir / "broker.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise GiveUp(
            f"the folder {data_dir} is in use by a broker that runs: stop that one or take "
            "another folder"
        ) from None
    return lock


def new_cluster_id() -> str:
    """Return an id for a new cluster."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _format(command: list[Path | str], config: Path, log: Path, node: Node) -> None:
    """Format the data folder."""
    cluster = node.cluster or new_cluster_id()
    if "controller" not in node.roles:
        # Only a controller also needs the first metadata, which takes Kafka's tool and a JVM.
        folder = config.parent / "data"
        folder.mkdir(exist_ok=True)
        ids = f"version=1\ncluster.id={cluster}\nnode.id={node.id}\n"
        (folder / "meta.properties").write_text(ids)
        return
    words = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", config)
    environment = os.environ | {"LC_ALL": "C"}
    if children.start([*command, *words], log, env=environment).wait() != 0:
        raise GiveUp(
            f"Kafka cannot use the folder {config.parent} ({children.last_lines(log)}): see {log}"
        )


def _serves(admin: AdminClient, node: Node) -> bool:
    try:
        return node.id in admin.list_topics(timeout=1.0).brokers
    except KafkaException:
        return False


def has_jars() -> bool:
    """Return whether the broker's jars are on this machine."""
    return jars.present("broker")


def fetch_jars() -> None:
    """Fetch the broker's jars, which takes about a minute."""
    jars.fetch("broker")
