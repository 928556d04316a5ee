"""Where tables lie: the one seam to a file system or an object store.

Every file of a table is listed, read, written, measured and deleted through a Store: a Folder here,
or a bucket's (`bucket_store`). `at` chooses. delta-rs does its own reading and writing, and is
given `uri` and `options`.

Names are relative to the store, with "/" between folders. What a store raises is an OSError, and
FileNotFoundError for a file that is not there.
"""

import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.fs import FileInfo, FileSelector, FileType, LocalFileSystem

from lagless.errors import WrongInput
from lagless.settings import Bucket, LakeSettings, StorageSettings

_SYSTEM = LocalFileSystem()


@dataclass(frozen=True, slots=True)
class Stored:
    """A file as the store lists it."""

    name: str
    size: int
    modified: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Store(ABC):
    """A lake, a table, or a folder of one."""

    uri: str
    """The address that delta-rs opens."""
    options: Mapping[str, str] = field(default_factory=dict)
    """delta-rs's options for this address, without secrets; none for a folder."""

    @property
    def name(self) -> str:
        """Return the last part of the address."""
        return self.uri.rpartition("/")[2]

    @property
    def is_folder(self) -> bool:
        """Return whether Spark can write files here, and rename them in one step."""
        return not self.options

    def is_table(self) -> bool:
        """Return whether there is a Delta table here."""
        return DeltaTable.is_deltatable(self.uri, dict(self.options) or None)

    def table(self) -> DeltaTable:
        """Open the Delta table that is here."""
        return DeltaTable(self.uri, storage_options=dict(self.options) or None)

    @abstractmethod
    def inside(self, folder: str) -> "Store":
        """Return the store of a folder in this one, which need not exist."""

    @abstractmethod
    def prepare(self) -> None:
        """Make sure that files can be written here."""

    @abstractmethod
    def files(self) -> list[Stored]:
        """Return the files directly in here, by name; none if nothing was ever written."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of the folders directly in here."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def read_present(self, names: Collection[str]) -> dict[str, bytes]:
        """Return the contents of those files that are there, asked for at once where possible."""
        contents: dict[str, bytes] = {}
        for name in names:
            with suppress(FileNotFoundError):
                contents[name] = self.read(name)
        return contents

    @abstractmethod
    def put_new(self, name: str, content: bytes) -> None:
        """Create a file as a whole; FileExistsError if there is one, or an earlier try made it."""

    @abstractmethod
    def open(self, name: str) -> pa.NativeFile:
        """Open a file for random reading; it knows its size."""

    @abstractmethod
    def create(self, name: str) -> pa.NativeFile:
        """Open a new file for writing; it is there when it is closed."""

    @abstractmethod
    def move(self, name: str, target: str) -> None:
        """Rename a file, in one step where the store can."""

    @abstractmethod
    def delete(self, name: str) -> bool:
        """Delete a file, and return whether it was there."""

    @abstractmethod
    def delete_all(self, names: Collection[str]) -> int:
        """Delete files, and return how many; those that another deletes at once may count twice."""

    @abstractmethod
    def delete_folder(self, name: str) -> None:
        """Delete a folder with everything in it; what cannot be deleted is left behind."""

    @abstractmethod
    def sweep(self, prefix: str, before: float) -> int:
        """Delete empty folders that begin so and are older, and return how many."""


@dataclass(frozen=True, slots=True)
class Folder(Store):
    """A folder of a file system that every consumer sees."""

    def inside(self, folder: str) -> Store:
        return Folder(self._at(folder))

    def prepare(self) -> None:
        _SYSTEM.create_dir(self.uri)

    def files(self) -> list[Stored]:
        listed = self._list(FileType.File)
        return [Stored(file.base_name, file.size, file.mtime_ns / 1e9) for file in listed]

    def folders(self) -> list[str]:
        with suppress(NotADirectoryError):
            return [folder.base_name for folder in self._list(FileType.Directory)]
        return []

    def read(self, name: str) -> bytes:
        with self.open(name) as source:
            return bytes(source.read())

    def put_new(self, name: str, content: bytes) -> None:
        target = Path(self._at(name))
        made = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
        try:
            made.write_bytes(content)
            os.link(made, target)
        finally:
            made.unlink(missing_ok=True)

    def open(self, name: str) -> pa.NativeFile:
        return _SYSTEM.open_input_file(self._at(name))

    def create(self, name: str) -> pa.NativeFile:
        return _SYSTEM.open_output_stream(self._at(name), compression=None)

    def move(self, name: str, target: str) -> None:
        _SYSTEM.move(self._at(name), self._at(target))

    def delete(self, name: str) -> bool:
        try:
            _SYSTEM.delete_file(self._at(name))
        except FileNotFoundError:
            return False
        return True

    def delete_all(self, names: Collection[str]) -> int:
        return sum(map(self.delete, names))

    def delete_folder(self, name: str) -> None:
        with suppress(OSError):
            _SYSTEM.delete_dir(self._at(name))

    def sweep(self, prefix: str, before: float) -> int:
        swept = 0
        for folder in self._list(FileType.Directory):
            if folder.base_name.startswith(prefix) and folder.mtime_ns / 1e9 < before:
                with suppress(OSError):
                    inner = _SYSTEM.get_file_info(FileSelector(folder.path))
                    # Hadoop leaves a checksum beside each file; the next vacuum deletes the rest.
                    if all(re.fullmatch(r"\..*\.crc", entry.base_name) for entry in inner):
                        _SYSTEM.delete_dir(folder.path)
                        swept += 1
        return swept

    def _at(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def _list(self, kind: FileType) -> list[FileInfo]:
        listed = _SYSTEM.get_file_info(FileSelector(self.uri, allow_not_found=True))
        return sorted((e for e in listed if e.type == kind), key=lambda entry: entry.base_name)


def at(place: Path | Bucket, storage: StorageSettings | None = None) -> Store:
    """Return the store of a folder or of a place in a bucket."""
    if isinstance(place, Path):
        return Folder(str(place.absolute()))
    from lagless.adapters.lake import bucket_store

    return bucket_store.at(place, storage or StorageSettings())


EXPIRED = re.compile(r"ExpiredToken|InvalidToken|InvalidAccessKeyId|TokenRefreshRequired")
"""Codes of stores that once accepted the credentials."""


LONGEST = 400
"""Characters that are quoted of a client's error."""
_MARKS = re.compile(r"\x1b\[[0-9;]*m|↳")
"""Decoration that clients draw around the causes of an error, a line for each."""
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_CAUSE = re.compile(r'message: "([^"]+)"')


def reason(error: BaseException) -> str:
    """Return an object store's own code and message, or what its client says, in one line."""
    text = str(error)
    said = [re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S) for tag in ("Code", "Message")]
    if said[0]:
        return ": ".join(match[1].strip() for match in said if match)
    # What follows is the error once more, as a program would print it, down to its cause.
    text, _, causes = text.partition("Debug source:")
    lines = (_MARKS.sub("", line).strip() for line in text.splitlines())
    told = ": ".join(filter(None, lines))[:LONGEST] or type(error).__name__
    if refused := _CERTIFICATE.search(causes):
        return f"{told}: invalid peer certificate: {refused[1]}"
    if cause := _CAUSE.search(causes):
        return f"{told}: {cause[1]}"
    return told


def trouble(what: str, error: BaseException) -> str:
    """Return what is wrong with a table or a lake, in one line for those who operate it."""
    said = reason(error)
    if not EXPIRED.search(said):
        return f"{what}: {said}"
    return (
        f"{what}: the store no longer accepts the credentials ({said}): "
        "reading continues when they are renewed"
    )


def of(lake: LakeSettings) -> Store:
    """Return the store that the settings name."""
    return at(lake.path, lake.storage)


def chosen(lake: Store, names: Collection[str]) -> list[Store]:
    """Return the named tables, or all; WrongInput where one does not exist."""
    folders = map(lake.inside, lake.folders())
    present = {table.name: table for table in folders if table.is_table()}
    for name in names:
        if name not in present:
            raise WrongInput(
                f"there is no table {name} in {lake.uri}; there are: {', '.join(present) or 'none'}"
            )
    return [present[name] for name in names] if names else list(present.values())
