"""A real Kafka broker on this machine: KRaft, one process, on 127.0.0.1."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from lagless import extras
from lagless.embedded import jars, java, lifetimes, ports
from lagless.errors import GiveUp, WrongInput

MODEST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
"""Flags for a quick start and little memory; the broker's work is copying bytes."""

ATTEMPTS = 3
OWN = ("PLAINTEXT://", "CONTROLLER://")
"""The listeners that every embedded broker has."""


class Broker:
    """A broker that runs between entering and leaving, and no longer than this process.

    With a data folder, data outlive the broker, and a later one goes on with them. `settings` are
    Kafka's own and win over those chosen here, but for the listeners: entries of `listeners`,
    `advertised.listeners` and `listener.security.protocol.map` are added to the plain listener
    that `bootstrap` names; port 0 in them becomes a free one, told by `listeners`.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "512m",
        deadline: float = 120.0,
    ) -> None:
        self._temporary = data_dir is None
        self.data_dir = Path(
            tempfile.mkdtemp(prefix="lagless-broker-") if data_dir is None else data_dir
        ).absolute()
        self.log = self.data_dir / "broker.log"
        self.listeners: dict[str, str] = {}
        self._port = port
        self._settings = dict(settings or {})
        self._heap = heap
        self._deadline = deadline
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address that clients are given."""
        return self.listeners["PLAINTEXT"]

    @property
    def port(self) -> int:
        """The port of the plain listener."""
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """The broker's process."""
        return self._running().pid

    def start(self) -> Self:
        """Start the broker and return when it answers; started again, it keeps data and port."""
        if self._process is not None:
            raise WrongInput("this broker runs already: stop it before starting it again")
        if self._port is not None and not ports.is_free(self._port):
            raise GiveUp(f"port {self._port} is in use on this machine: choose another one")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self.data_dir)
        try:
            self._launch()
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        self._port = self.port
        return self

    def stop(self) -> None:
        """Stop the broker as Kafka likes to be stopped; a stopped one may be started again."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker at once, as a crash would."""
        self._end(signal.SIGKILL)

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until the broker ends by itself, and return its exit status; None if it has not."""
        try:
            return self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise WrongInput("this broker does not run: start it first")
        return self._process

    def _launch(self) -> None:
        command: list[Path | str] = [
            *(java.find().path, *MODEST, f"-Xmx{self._heap}"),
            f"-Dlog4j2.configurationFile={resources.files('lagless.embedded')}/log4j2.properties",
            *("-cp", jars.classpath("broker")),
        ]
        logs = self.data_dir / "data"
        config = self.data_dir / "server.properties"
        for attempt in range(ATTEMPTS):
            spoken = self.log.stat().st_size if self.log.exists() else 0
            self.listeners, properties = configure(logs, self._port, self._settings)
            config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            if not (logs / "meta.properties").exists():
                _format(command, config, self.log)
            assert self._lock is not None
            self._process = lifetimes.bear(
                [*command, "kafka.Kafka", config], self.log, keep=[self._lock.fileno()]
            )
            try:
                _await_answer(self._process, self.log, self.port, self._deadline)
                # Started again, it listens where its clients know it.
                added = [it for it in properties["listeners"].split(",") if not it.startswith(OWN)]
                self._settings["listeners"] = ",".join(added)
                return
            except GiveUp:
                said = self.log.read_bytes()[spoken:]
                if b"Address already in use" not in said or attempt == ATTEMPTS - 1:
                    raise
                # Another process took a port between its choice and its use: choose again.
                lifetimes.end(self._process)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            if how == signal.SIGKILL:
                process.kill()
            lifetimes.end(process)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def configure(
    logs: Path, port: int | None, settings: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the advertised addresses by listener, and Kafka's properties."""
    given = dict(settings)
    added = _listeners(given.pop("listeners", ""), "listeners")
    advertised = _listeners(given.pop("advertised.listeners", ""), "advertised.listeners")
    chosen = ports.free(2 + len(added))
    controller = f"{ports.HOST}:{chosen.pop()}"
    bound = {"PLAINTEXT": f"{ports.HOST}:{port or chosen.pop()}"}
    for name, address in added.items():
        host, _, asked = address.rpartition(":")
        bound[name] = f"{host}:{asked if int(asked) else chosen.pop()}"
    known = {
        name: advertised.get(name, address.replace("0.0.0.0", ports.HOST))
        for name, address in bound.items()
    }
    protocols = ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", "SSL:SSL"]
    protocols += ["SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"]
    protocols += filter(None, [given.pop("listener.security.protocol.map", "")])
    return known, {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": _join({**bound, "CONTROLLER": controller}),
        "advertised.listeners": _join(known),
        "listener.security.protocol.map": ",".join(protocols),
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
        **given,
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
    """Hold the folder; the broker inherits the lock, so it lasts while either of both lives."""
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


def _format(command: list[Path | str], config: Path, log: Path) -> None:
    """Make the data folder Kafka's, with a cluster id of its own."""
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with log.open("ab") as output:
        done = subprocess.run(
            [
                *command,
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={cluster}",
                "-c",
                config,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"LC_ALL": "C"},
        )
    if done.returncode != 0:
        raise GiveUp(
            f"Kafka cannot use the folder {config.parent} ({lifetimes.last_words(log)}): see {log}"
        )


def _await_answer(
    process: "subprocess.Popen[bytes]", log: Path, port: int, deadline: float
) -> None:
    with extras.needed("kafka"):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    clients: list[AdminClient] = []

    def answers() -> bool:
        if not clients and ports.answers(port):
            address = f"{ports.HOST}:{port}"
            clients.append(AdminClient({"bootstrap.servers": address, "log_level": 0}))
        try:
            return any(client.list_topics(timeout=1.0).brokers for client in clients)
        except KafkaException:
            return False

    lifetimes.await_ready("the broker", [process], answers, deadline, log)
