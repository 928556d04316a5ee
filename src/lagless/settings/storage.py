"""Where a lake can be besides a folder: a bucket of an S3-compatible object store.

Credentials are never settings. They are looked up where every tool for S3 looks: environment,
shared profile, web identity, container and instance metadata.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import field_validator, model_validator

from lagless.settings.branch import Branch
from lagless.settings.units import Seconds

INSTEAD = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use a shared profile, "
    "web identity or the instance's role"
)
_SECRET = re.compile(r"access_?key|secret|token|password|credential", re.IGNORECASE)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_PREFIX = re.compile(r"(?:[A-Za-z0-9_=-][A-Za-z0-9._=-]*(?:/(?!$)|$))*")


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, or a prefix in it."""

    name: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"s3://{self.name}/{self.prefix}".rstrip("/")

    def inside(self, prefix: str) -> "Bucket":
        """Return a place under this one."""
        return Bucket(self.name, f"{self.prefix}/{prefix}".lstrip("/"))


def place(value: Any) -> Any:
    """Return s3://bucket/prefix as a Bucket, and anything else as a folder's path."""
    if not isinstance(value, str) or "://" not in value:
        return value
    if value.startswith("file://"):
        return value.removeprefix("file://")
    if "@" in value:
        raise ValueError(f"credentials do not belong in an address: {INSTEAD}")
    if not value.startswith("s3://"):
        raise ValueError(f"is {value!r} and should be a folder or s3://bucket/prefix")
    name, _, prefix = value.removeprefix("s3://").partition("/")
    prefix = prefix.rstrip("/")
    if not _BUCKET.fullmatch(name):
        raise ValueError(f"is {value!r} and should name a bucket, as in s3://bucket/prefix")
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(
            f"is {value!r}; a prefix should be made of letters, digits, '.', '_', '=' and '-', "
            "with '/' between its parts"
        )
    return Bucket(name, prefix)


class StorageSettings(Branch):
    """How to reach the object store, if `lake.path` is `s3://…`. Credentials come from the
    environment, a shared profile, web identity or the instance's role, never from the settings."""

    endpoint: str | None = None
    """Address of an S3-compatible store, `https://host:port`; AWS in `region` by default."""
    region: str | None = None
    """Region of the bucket; `AWS_REGION` or us-east-1 by default."""
    path_style: bool = True
    """Put the bucket's name into the path of a request; if false, into its host name."""
    ca_file: Path | None = None
    """PEM file of the CA that signed the store's certificate."""
    timeout: Seconds = 20
    """Seconds that one request may take."""
    retry_seconds: Seconds = 20
    """Seconds for which a failed request is sent again."""

    @model_validator(mode="before")
    @classmethod
    def _no_secrets(cls, value: Any) -> Any:
        for key in value if isinstance(value, Mapping) else ():
            if _SECRET.search(str(key)):
                raise ValueError(f"{key}: credentials do not belong in the settings; {INSTEAD}")
        return value

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        address = urlsplit(value)
        if address.username or address.password:
            raise ValueError(f"credentials do not belong in an address: {INSTEAD}")
        if (
            address.scheme not in ("http", "https")
            or not address.hostname
            or address.path.strip("/")
        ):
            raise ValueError(f"is {value!r} and should be http://host:port or https://host:port")
        return value.rstrip("/")
