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
from lagless.embedded.broker import Broker
from lagless.embedded.connect import ConnectServer
from lagless.settings import Settings
from lagless.wiring import bonds

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stand:
    """A folder, a broker, perhaps a Connect server, and children."""

    folder: Path
    broker: Broker
    connect: ConnectServer | None
    children: Children = field(default_factory=Children)

    def settle(self, name: str, tree: Mapping[str, Any]) -> tuple[Settings, Path]:
        """Write a settings file with the addresses of this stand in it, and read it back."""
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        whole: dict[str, Any] = {
            **tree,
            "kafka": {"bootstrap": self.broker.bootstrap, **tree.get("kafka", {})},
            "lake": {"path": str(place / "lake"), **tree.get("lake", {})},
            "provisioner": {
                "directory": str(place / "consumers"),
                **tree.get("provisioner", {}),
            },
        }
        if self.connect is not None:
            whole["spark"] = {"url": self.connect.url, **tree.get("spark", {})}
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
def raised(tell: Tell, *, spark: bool) -> Iterator[Stand]:
    """Give a stand with everything started, and end all of it."""
    folder = Path(tempfile.mkdtemp(prefix="lagless-live-"))
    earlier = os.environ.get(bonds.END_WITH)
    # Consumers that a controller of this process starts end with it, however it ends.
    os.environ[bonds.END_WITH] = str(os.getpid())
    try:
        with ExitStack() as stack:
            tell("starting a broker" + (" and a Spark Connect server" if spark else ""))
            broker = stack.enter_context(Broker(folder / "broker"))
            connect = None
            if spark:
                connect = ConnectServer(folder / "connect", bootstrap=broker.bootstrap)
                stack.enter_context(connect)
            stand = Stand(folder, broker, connect)
            stack.callback(stand.children.end)
            yield stand
    finally:
        if earlier is None:
            os.environ.pop(bonds.END_WITH, None)
        else:
            os.environ[bonds.END_WITH] = earlier
        shutil.rmtree(folder, ignore_errors=True)


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
