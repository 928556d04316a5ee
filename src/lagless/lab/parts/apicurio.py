"""A real schema registry on this machine: Apicurio, one process, its schemas in memory.

It is for tests: fetched from Maven when first used, and unpacked once into the user's cache folder.
"""

import http.client
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from lagless.adapters.spark import jars, java
from lagless.adapters.spark.sessions import HOST
from lagless.lab.parts import children
from lagless.lab.parts.broker import MODEST

PATH = "/apis/ccompat/v7"
"""Where it speaks Confluent's protocol."""
RUNNER = "apicurio-registry-app-3.0.9-runner.jar"


def unpack() -> Path:
    """Return the folder with the registry; fetch and unpack it where it is missing."""
    fetched = jars.fetch("registry")
    target = fetched.with_name(f"{fetched.name}-unpacked")
    with jars.alone(target):
        if not target.exists():
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                for archive in fetched.glob("*.tar.gz"):
                    with tarfile.open(archive) as packed:
                        packed.extractall(scratch, filter="data")
                scratch.rename(target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target


class Apicurio(children.Server):
    """A schema registry that runs between entering and leaving, and no longer than this process."""

    title = "schema registry"

    def __init__(self, folder: Path | str | None = None, port: int | None = None) -> None:
        super().__init__(folder, port or children.free_tcp_ports()[0], "registry.log")

    @property
    def url(self) -> str:
        """The address that clients connect to."""
        return f"http://{HOST}:{self._port}{PATH}"

    def _launch(self) -> None:
        home = unpack()
        command: list[str | Path] = [java.find().path, *MODEST, "-Xmx400m"]
        command += [f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self._port}"]
        command += ["-jar", home / RUNNER]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("QUARKUS_")}
        started = children.start(command, self.log, env=environment, cwd=self.folder)
        self._processes = [started]
        self._await("the schema registry", self._serves)

    def _serves(self) -> bool:
        assert self._port is not None
        connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
        try:
            connection.request("GET", f"{PATH}/subjects")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
