"""Where the demo lives: its data folder, the settings in it and the logs of its parts."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lagless.demo import traffic
from lagless.embedded import records
from lagless.errors import WrongInput
from lagless.settings import Settings, load

MAX_RATE = 500_000
"""Bytes/s that a consumer of the demo is held to, so that a small load needs several."""
TOTAL = 1_000_000
"""Bytes/s of the whole load between spikes: what two cores read beside everything else."""

_SETTINGS = """\
# The settings of the demo; every process that it started has this file in its command line.
group = "demo"
topics = {topics}

[kafka]
bootstrap = "{bootstrap}"

[monitor]
interval = 2
window = 10

[controller]
iteration = 20
rebalance = 5
pause = 5
catch_up = 30
max_consumers = 8

[consumer]
max_rate = {max_rate}
batch_bytes = "2 MB"
max_batch_bytes = "8 MB"
wait_seconds = 3

[spark]
url = "{spark}"

[lake]
path = "{lake}"

[provisioner]
directory = "{consumers}"

[dashboard]
port = {port}
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """The folders and files of one demo."""

    folder: Path
    temporary: bool

    @classmethod
    def prepare(cls, folder: Path | None) -> Self:
        """Take the folder, which must be new, empty or an earlier demo's; or a temporary one."""
        if folder is None:
            return cls(Path(tempfile.mkdtemp(prefix="lagless-demo-")), True)
        folder = folder.absolute()
        if folder.is_dir() and any(folder.iterdir()) and not (folder / "lagless.toml").exists():
            raise WrongInput(f"--data-dir {folder} has other files in it; name an empty folder")
        for old in ("lake", "broker", "consumers", "connect", "logs", "tally.json"):
            shutil.rmtree(folder / old, ignore_errors=True)
        (folder / "tally.json").unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, False)

    @property
    def lake(self) -> Path:
        """The folder of the tables."""
        return self.folder / "lake"

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.folder / "lagless.toml"

    @property
    def tally(self) -> Path:
        """What the load produced."""
        return self.folder / "tally.json"

    def log(self, part: str) -> Path:
        """Name the log of a part."""
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        return logs / f"{part}.log"

    def settle(self, bootstrap: str, spark: str, port: int) -> Settings:
        """Write the settings file and read it back."""
        text = _SETTINGS.format(
            topics=str(list(traffic.TOPICS)).replace("'", '"'),
            bootstrap=bootstrap,
            spark=spark,
            max_rate=MAX_RATE,
            lake=self.lake,
            consumers=self.folder / "consumers",
            port=port,
        )
        for topic in traffic.TOPICS:
            text += f'\n[topic.{topic}]\nformat = "json"\nschema = "{records.SCHEMA}"\n'
        self.config.write_text(text)
        return load(self.config, environ={})

    def clear(self) -> None:
        """Remove a temporary folder."""
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)
