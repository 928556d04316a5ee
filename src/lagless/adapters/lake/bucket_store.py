"""A store in a bucket: the promises of store.Store, with as few requests as possible.

An object appears whole or not at all, when its put is answered, and is listed from then on. There
are no folders: a name with "/" in it is all that there is of one. Clients are obstore's, the same
code that delta-rs uses, and are shared by all stores of a process.
"""

import asyncio
import io
import os
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from lagless.adapters.lake import shared_profile, trusted_roots
from lagless.adapters.lake.store import Store, Stored, reason
from lagless.settings import Bucket, StorageSettings

if TYPE_CHECKING:
    from obstore.store import ClientConfig

REGION = "us-east-1"
"""The region of stores that have none."""
_clients: dict[tuple[str, StorageSettings], S3Store] = {}
_lock = threading.Lock()


def at(place: Bucket, storage: StorageSettings) -> Store:
    """Return the store of a place in a bucket."""
    if storage.ca_file is not None:
        trusted_roots.add(storage.ca_file)
    return BucketStore(str(place), options(place.name, storage), place.prefix, (place, storage))


def client(bucket: str, storage: StorageSettings) -> S3Store:
    """Return the client of a bucket."""
    with _lock:
        key = (bucket, storage)
        if key not in _clients:
            _clients[key] = _client(bucket, storage)
        return _clients[key]


def _client(bucket: str, storage: StorageSettings) -> S3Store:
    known = options(bucket, storage)
    web: ClientConfig = {
        "timeout": timedelta(seconds=storage.timeout),
        "allow_http": known["aws_allow_http"] == "true",
    }
    if storage.ca_file is not None:
        web["root_certificate"] = trusted_roots.add(storage.ca_file)
    seconds = timedelta(seconds=storage.retry_seconds)
    more: dict[str, Any] = {}
    if "aws_endpoint_url" in known:
        more["endpoint"] = known["aws_endpoint_url"]
    if (provider := shared_profile.provider(os.environ)) is not None:
        more["credential_provider"] = provider
    return S3Store(
        bucket,
        region=known["aws_region"],
        virtual_hosted_style_request=not storage.path_style,
        client_options=web,
        retry_config={"retry_timeout": seconds},
        **more,
    )


def options(bucket: str, storage: StorageSettings) -> dict[str, str]:
    """Return delta-rs's options, which hold no secret: it looks for credentials itself."""
    region = storage.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    endpoint = storage.endpoint or os.environ.get("AWS_ENDPOINT_URL")
    known = {
        "aws_region": region or REGION,
        "aws_virtual_hosted_style_request": str(not storage.path_style).lower(),
        # A commit is a put that the store accepts only if there is no such entry yet.
        "aws_conditional_put": "etag",
        # Else delta-rs looks into no profile if an endpoint is named.
        "aws_force_credential_load": "true",
        "aws_allow_http": str((endpoint or "").startswith("http://")).lower(),
        "timeout": f"{storage.timeout:g}s",
        "retry_timeout": f"{storage.retry_seconds:g}s",
    }
    if endpoint:
        scheme, _, host = endpoint.partition("://")
        virtual = endpoint if storage.path_style else f"{scheme}://{bucket}.{host}"
        known["aws_endpoint_url"] = virtual
    return known


@contextmanager
def _os_errors(what: str) -> Iterator[None]:
    """Turn an error of obstore into an OSError of one line."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{what}: the object does not exist") from None
    except (AlreadyExistsError, PreconditionError):
        raise FileExistsError(f"{what}: the object already exists") from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        # Credentials may have been renewed: the next client looks for them again.
        forget_clients()
        raise PermissionError(f"{what}: {reason(error)}") from None
    except BaseError as error:
        raise OSError(f"{what}: {reason(error)}") from None


def forget_clients() -> None:
    """Let every store of this process look for its credentials again."""
    with _lock:
        _clients.clear()


class _Upload(io.BytesIO):
    """Bytes that become an object when they are closed."""

    def __init__(self, store: "BucketStore", name: str) -> None:
        super().__init__()
        self._target = (store, name)

    def close(self) -> None:
        if not self.closed:
            store, name = self._target
            content = self.getvalue()
            super().close()
            store.put(name, content)


@dataclass(frozen=True, slots=True)
class BucketStore(Store):
    """A prefix in a bucket."""

    prefix: str = ""
    _place: tuple[Bucket, StorageSettings] = field(default=(Bucket(""), StorageSettings()))

    @property
    def _client(self) -> S3Store:
        place, storage = self._place
        return client(place.name, storage)

    def _at(self, name: str) -> str:
        return f"{self.prefix}/{name}".lstrip("/")

    def _what(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def inside(self, folder: str) -> Store:
        return BucketStore(f"{self.uri}/{folder}", self.options, self._at(folder), self._place)

    def is_table(self) -> bool:
        # delta-rs's own question holds Python's lock while it waits for the store.
        with _os_errors(self.uri):
            listed = self._client.list(f"{self._at('_delta_log')}/")
            names = (meta["path"].rpartition("/")[2] for batch in listed for meta in batch)
            return any(re.match(r"\d{20}\.", name) for name in names)

    def prepare(self) -> None:
        """Do nothing: a bucket needs no folders."""

    def _listed(self) -> Any:
        with _os_errors(self.uri):
            return self._client.list_with_delimiter(f"{self.prefix}/" if self.prefix else None)

    def files(self) -> list[Stored]:
        objects = self._listed()["objects"]
        return sorted(
            (
                Stored(
                    meta["path"].rpartition("/")[2], meta["size"], meta["last_modified"].timestamp()
                )
                for meta in objects
            ),
            key=lambda stored: stored.name,
        )

    def folders(self) -> list[str]:
        return sorted(p.rstrip("/").rpartition("/")[2] for p in self._listed()["common_prefixes"])

    def read(self, name: str) -> bytes:
        with _os_errors(self._what(name)):
            return bytes(self._client.get(self._at(name)).bytes())

    def read_present(self, names: Collection[str]) -> dict[str, bytes]:
        with _os_errors(self.uri):
            return asyncio.run(self._read_present(names))

    async def _read_present(self, names: Collection[str]) -> dict[str, bytes]:
        client = self._client
        contents: dict[str, bytes] = {}

        async def read(name: str) -> None:
            with suppress(FileNotFoundError):
                got = await client.get_async(self._at(name))
                contents[name] = bytes(await got.bytes_async())

        await asyncio.gather(*map(read, names))
        return contents

    def put_new(self, name: str, content: bytes) -> None:
        with _os_errors(self._what(name)):
            self._client.put(self._at(name), content, mode="create", use_multipart=False)

    def open(self, name: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(name))

    def create(self, name: str) -> pa.NativeFile:
        return pa.PythonFile(_Upload(self, name), mode="w")

    def put(self, name: str, content: bytes | memoryview) -> None:
        with _os_errors(self._what(name)):
            self._client.put(self._at(name), content)

    def move(self, name: str, target: str) -> None:
        """Copy an object and delete it: two steps, so nothing that is finished is moved."""
        with _os_errors(self._what(name)):
            self._client.rename(self._at(name), self._at(target))

    def delete(self, name: str) -> bool:
        try:
            with _os_errors(self._what(name)):
                self._client.head(self._at(name))
                self._client.delete(self._at(name))
        except FileNotFoundError:
            return False
        return True

    def delete_all(self, names: Collection[str]) -> int:
        with _os_errors(self.uri):
            if names:
                self._client.delete([self._at(name) for name in names])
        return len(names)

    def delete_folder(self, name: str) -> None:
        with suppress(OSError), _os_errors(self._what(name)):
            for batch in self._client.list(self._at(name) + "/"):
                self._client.delete([meta["path"] for meta in batch])

    def sweep(self, prefix: str, before: float) -> int:
        """Return 0: there are no empty folders in a bucket."""
        return 0
