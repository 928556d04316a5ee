"""Where a part is measured: a broker and a Spark of its own, and processes that end with it."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lagless import settings
from lagless.demo.children import Children
from lagless.embedded import ports
from lagless.embedded.broker import Broker
from lagless.embedded.connect import ConnectServer
from lagless.settings import Settings
from lagless.wiring import bonds

Tell = Callable[[str], None]
PODS = "PODS"
"""The listener that pods use."""


@dataclass(frozen=True, slots=True)
class Stand:
    """A folder, a broker, perhaps a Connect server, and children."""

    folder: Path
    broker: Broker
    connect: ConnectServer | None
    address: str | None = None
    """Where pods reach this machine, if they have to."""
    children: Children = field(default_factory=Children)

    @property
    def bootstrap(self) -> str:
        """The broker's address for the group."""
        return self.broker.listeners["PLAINTEXT" if self.address is None else PODS]

    @property
    def spark(self) -> str | None:
        """The Connect server's address for the group."""
        if self.connect is None or self.address is None:
            return None if self.connect is None else self.connect.url
        return f"sc://{self.address}:{self.connect.url.rpartition(':')[2]}"

    def settle(self, name: str, tree: Mapping[str, Any]) -> tuple[Settings, Path]:
        """Write a settings file with the addresses of this stand in it, and read it back."""
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        whole: dict[str, Any] = {
            **tree,
            "kafka": {"bootstrap": self.bootstrap, **tree.get("kafka", {})},
            "lake": {"path": str(place / "lake"), **tree.get("lake", {})},
            "provisioner": {
                "directory": str(place / "consumers"),
                **tree.get("provisioner", {}),
            },
        }
        if self.spark is not None:
            whole["spark"] = {"url": self.spark, **tree.get("spark", {})}
        config = place / "lagless.toml"
        config.write_text(toml(whole))
        return settings.load(config, environ={}), config

    def log(self, name: str) -> Path:
        """Name the log of a process."""
        return self.folder / f"{name}.log"

    def start(self, name: str, *words: str) -> None:
        """Start `python -m …` under a name."""
        self.children.start(name, words, self.log(name))


@contextmanager
def raised(tell: Tell, *, spark: bool, address: str | None = None) -> Iterator[Stand]:
    """Give a stand with everything started, and end all of it.

    With an address, broker and Spark can also be reached there, from pods of this machine's node.
    """
    folder = Path(tempfile.mkdtemp(prefix="lagless-live-"))
    earlier = os.environ.get(bonds.END_WITH)
    # Consumers that a controller of this process starts end with it, however it ends.
    os.environ[bonds.END_WITH] = str(os.getpid())
    try:
        with ExitStack() as stack:
            tell("starting a broker" + (" and a Spark Connect server" if spark else ""))
            broker = Broker(folder / "broker", settings=_listeners(address))
            stack.enter_context(broker)
            connect = _connect(folder / "connect", broker, address) if spark else None
            if connect is not None:
                stack.enter_context(connect)
            stand = Stand(folder, broker, connect, address)
            stack.callback(stand.children.end)
            yield stand
    finally:
        if earlier is None:
            os.environ.pop(bonds.END_WITH, None)
        else:
            os.environ[bonds.END_WITH] = earlier
        shutil.rmtree(folder, ignore_errors=True)


def _listeners(address: str | None) -> dict[str, str]:
    if address is None:
        return {}
    port = ports.free()[0]
    return {
        "listeners": f"{PODS}://0.0.0.0:{port}",
        "advertised.listeners": f"{PODS}://{address}:{port}",
        "listener.security.protocol.map": f"{PODS}:PLAINTEXT",
    }


def _connect(folder: Path, broker: Broker, address: str | None) -> ConnectServer:
    if address is None:
        return ConnectServer(folder, bootstrap=broker.bootstrap)
    # Pods run as another user than this process: what Spark writes, they have to be able to delete.
    conf = {"spark.hadoop.fs.permissions.umask-mode": "000"}
    server = ConnectServer(folder, conf=conf, host="0.0.0.0", bootstrap=broker.listeners[PODS])
    before = os.umask(0)
    try:
        return server.start()
    finally:
        os.umask(before)


def toml(tree: Mapping[str, Any], prefix: str = "") -> str:
    """Write settings as TOML: plain values first, then a table per mapping."""
    lines = [
        f"{json.dumps(key)} = {json.dumps(value)}"
        for key, value in tree.items()
        if not isinstance(value, Mapping)
    ]
    for key, value in tree.items():
        if isinstance(value, Mapping):
            name = f"{prefix}{json.dumps(key)}"
            lines += ["", f"[{name}]", toml(value, f"{name}.")]
    return "\n".join(lines) + "\n"
