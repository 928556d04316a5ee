"""A real S3 server on this machine: MinIO, built once with Go and kept in the user's cache folder.

It stands in for a cloud's bucket in tests, fault runs and the demo. It is never shipped: MinIO is
under the AGPL. The tables' logs need puts that fail if the key exists; this server checks and
writes under one lock.
"""

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from lagless import extras
from lagless.adapters.spark.sessions import HOST
from lagless.errors import GiveUp, MissingPart
from lagless.lab.parts import children
from lagless.lab.parts.go_tools import GoTool

with extras.needed("spark"):
    from pyarrow.fs import S3FileSystem

MINIO = GoTool(
    "the S3 server for tests", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c", "s3"
)
REGION = "us-east-1"


class ObjectStore(children.Server):
    """An S3 server that runs between entering and leaving, and no longer than this process.

    Its credentials are drawn by lot. With a folder of `public.crt` and `private.key` it speaks TLS.
    """

    title = "S3 server"

    def __init__(
        self,
        folder: Path | str | None = None,
        port: int | None = None,
        *,
        certificates: Path | None = None,
    ) -> None:
        super().__init__(folder, port or children.free_tcp_ports()[0], "s3.log")
        self._certificates = certificates
        self._user = f"lagless{secrets.token_hex(4)}"
        self._secret = secrets.token_hex(20)

    @property
    def data(self) -> Path:
        """The folder in which it keeps objects."""
        return self.folder / "data"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._port is not None
        return self._port

    @property
    def url(self) -> str:
        """The address that clients connect to."""
        return f"http{'s' if self._certificates else ''}://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The credentials, as every S3 client finds them in its environment."""
        return {
            "AWS_ACCESS_KEY_ID": self._user,
            "AWS_SECRET_ACCESS_KEY": self._secret,
            "AWS_REGION": REGION,
        }

    def options(self, url: str | None = None) -> dict[str, str]:
        """Return delta-rs's storage options for this server, or for a proxy in front of it."""
        return {
            **self.environment,
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "aws_conditional_put": "etag",
        }

    def make_bucket(self, name: str) -> str:
        """Make a bucket, and return its address."""
        system = S3FileSystem(
            access_key=self._user,
            secret_key=self._secret,
            region=REGION,
            scheme=self.url.partition(":")[0],
            endpoint_override=f"{HOST}:{self.port}",
            allow_bucket_creation=True,
        )
        system.create_dir(name)
        return f"s3://{name}"

    def _launch(self) -> None:
        command: list[str | Path] = [MINIO.build(), "server", "--quiet"]
        command += ["--address", f"{HOST}:{self.port}"]
        if self._certificates is not None:
            command += ["--certs-dir", self._certificates]
        environment: Mapping[str, str] = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("MINIO_", "AWS_"))},
            "MINIO_ROOT_USER": self._user,
            "MINIO_ROOT_PASSWORD": self._secret,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            # No scan of the disk beside the tests.
            "MINIO_SCANNER_SPEED": "slowest",
        }
        self._processes = [children.start([*command, self.data], self.log, env=environment)]
        self._await("the S3 server", lambda: children.answers(self.port))
        self._await("the S3 server", self._serves)

    def _serves(self) -> bool:
        try:
            self.make_bucket("lagless-ready")
        except OSError:
            return False
        return True


def main() -> None:
    """Build the server, and say where it is."""
    if not MINIO.binary().exists():
        print("building the S3 server for tests (once per machine, some minutes)", file=sys.stderr)
    print(MINIO.build())


if __name__ == "__main__":
    try:
        main()
    except (MissingPart, GiveUp) as error:
        sys.exit(f"lagless: {error}")
