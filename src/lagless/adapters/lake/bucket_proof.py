"""Prove that a bucket keeps the promises on which exactly once rests.

 1. Of all writers that create one object at the same time, one is told that it did, and the object
    holds what that one wrote. A table's log is made of such objects: were two told so, each would
    count its records as landed, and one of the two commits would be gone.
 2. What was written is read and listed at once, and what was deleted is not.
 3. An upload in parts appears whole, as it was sent.
 4. The rights for all of this are there.

A race that nobody wins twice proves nothing for certain, but a store that checks first and writes
later is caught in almost every run. What is put for a proof lies under names of its own, and is
deleted at its end.
"""

import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from lagless.adapters.lake import bucket_store, store
from lagless.errors import GiveUp
from lagless.settings import Bucket, StorageSettings
from lagless.settings.storage import INSTEAD

Outcome = Literal["created", "refused", "failed"]
WRITERS = 32
"""Writers that race for one object."""
ROUNDS = 30
"""Objects that they race for."""
ATTEMPTS = 4
PAUSE = 0.2
"""How often a writer without a rival tries to create an object, and seconds between: answers can be
lost, and stores can be busy for a moment."""
PART = 5 << 20
"""Bytes of a part: the least that S3 takes, but for the last one."""
RIGHTS = {
    "put": "s3:PutObject",
    "get": "s3:GetObject",
    "list": "s3:ListBucket",
    "delete": "s3:DeleteObject",
    "upload in parts": "s3:PutObject",
}
FORBIDDEN = re.compile(r"AccessDenied|\b40[13] (Forbidden|Unauthorized)")
UNKNOWN = re.compile(r"ExpiredToken|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken")
UNABLE = re.compile(r"NotImplemented|NotSupported|Invalid(Argument|Request)|MethodNotAllowed")
"""Codes of stores that do not know conditional puts; other failures may pass."""
METADATA = re.compile(r"169\.254\.\d+\.\d+|/latest/(api/token|meta-data)")
"""Of an error: there are no credentials, so the instance was asked for its role's."""
UNSAFE = "two consumers could overwrite each other's commits: keep the lake in another store"


def prove(
    place: Bucket, storage: StorageSettings, writers: int = WRITERS, rounds: int = ROUNDS
) -> Iterator[tuple[bool, str]]:
    """Yield whether each promise holds, and a sentence on what was seen."""
    proof = _Proof(place, bucket_store.client(place.name, storage))
    steps: list[Callable[[], str]] = [
        proof.write,
        proof.list,
        proof.delete,
        proof.upload,
        proof.create_twice,
        lambda: proof.race(writers, rounds),
    ]
    try:
        for step in steps:
            try:
                yield True, step()
            except (OSError, GiveUp) as error:
                yield False, str(error)
                if step == proof.write:  # nothing else can be told
                    return
    finally:
        proof.clean_up()


def check(place: Bucket, storage: StorageSettings) -> None:
    """Prove with a handful of requests what can be: GiveUp if a promise is broken.

    OSError where the store does not answer, or a right is missing.
    """
    proof = _Proof(place, bucket_store.client(place.name, storage))
    try:
        proof.create_twice()
        proof.list(objects=1)
        proof.delete()
    finally:
        proof.clean_up()


@dataclass(frozen=True, slots=True)
class _Race:
    """The outcome for one object that many writers tried to create."""

    outcomes: Counter[Outcome]
    content: bytes
    creators: list[bytes]
    """The content of the writers whose put was accepted."""
    trouble: str


class _Proof:
    """One proof, under a prefix of its own."""

    def __init__(self, place: Bucket, client: S3Store) -> None:
        self._place = place
        self._client = client
        self._folder = place.inside(f"lagless-proof-{uuid.uuid4().hex}").prefix
        self._written: set[str] = set()

    def write(self) -> str:
        """Write an object, read it, write it again and read it again."""
        for content in (b"first", b"second"):
            self._put("written", content)
            if (found := self._get("written")) != content:
                raise GiveUp(
                    f"{self._place}: an object that was overwritten is still read as it was before "
                    f"({found[:20]!r} instead of {content!r}): reads must follow writes at once"
                )
        return f"{self._place}: writes and reads"

    def list(self, objects: int = 5) -> str:
        """Write objects one by one, and find each in the next listing and the next read."""
        self._list("listed")
        for number in range(objects):
            name = f"listed/{number}"
            # As consumers ask for the next entry of a log until it is there.
            with suppress(FileNotFoundError):
                self._get(name)
            self._put(name, b"listed")
            try:
                self._get(name)
            except FileNotFoundError:
                raise GiveUp(
                    f"{self._place}: an object that had been asked for before it was written could "
                    "not be read afterwards: reads must follow writes at once"
                ) from None
            if self._key(name) not in self._list("listed"):
                raise GiveUp(
                    f"{self._place}: an object was not listed after its put had been answered: "
                    "listings must follow writes at once"
                )
        return f"{self._place}: lists what was written"

    def delete(self) -> str:
        """Delete an object, and find it gone."""
        self._put("deleted/object", b"deleted")
        key = self._key("deleted/object")
        with self._doing("delete"):
            self._client.delete(key)
        if key in self._list("deleted"):
            raise GiveUp(f"{self._place}: an object is still listed after it was deleted")
        with suppress(FileNotFoundError):
            self._get("deleted/object")
            raise GiveUp(f"{self._place}: an object can still be read after it was deleted")
        return f"{self._place}: deletes"

    def upload(self) -> str:
        """Upload an object in parts, and read it back."""
        content = bytes(range(256)) * (PART // 256) + b"the last part"
        key = self._key("parts")
        self._written.add(key)
        with self._doing("upload in parts"):
            self._client.put(key, content, use_multipart=True, chunk_size=PART)
        if self._get("parts") != content:
            raise GiveUp(f"{self._place}: an object uploaded in parts is not what was sent")
        return f"{self._place}: takes uploads in parts"

    def create_twice(self) -> str:
        """Create an object, and be refused the second time."""
        self._create_alone("twice", b"first")
        if self._create("twice", b"second")[0] == "created":
            raise GiveUp(
                f"{self._place}: an object that exists was created a second time, although the put "
                f"said If-None-Match: *; {UNSAFE}"
            )
        if (found := self._get("twice")) != b"first":
            raise GiveUp(
                f"{self._place}: a put that was refused has replaced the object ({found[:20]!r}); "
                f"{UNSAFE}"
            )
        return f"{self._place}: refuses to create an object that exists"

    def race(self, writers: int, rounds: int) -> str:
        """Let many writers create one object at once, for many objects."""
        unwon = 0
        barrier = threading.Barrier(writers)
        with ThreadPoolExecutor(writers) as pool:
            for number in range(1, rounds + 1):
                race = self._race(f"race/{number}", writers, pool, barrier)
                created = race.outcomes["created"]
                where = f"in round {number} of {rounds}"
                if created > 1:
                    raise GiveUp(
                        f"{self._place}: {created} of {writers} writers were told that they had "
                        f"created the same object, {where}; {UNSAFE}"
                    )
                if race.creators and race.content != race.creators[0]:
                    raise GiveUp(
                        f"{self._place}: an object does not hold what its creator wrote but what "
                        f"a writer that was refused did, {where}; {UNSAFE}"
                    )
                unwon += not created
                if unwon == rounds or race.outcomes["failed"] == writers:
                    who = f"none of {writers} writers was able to"
                    raise GiveUp(_none(self._place, who, race.trouble))
        # A winner whose answer was lost is refused when its client tries again.
        odd = f"; in {unwon} rounds the winner was not told, as after a lost answer" * bool(unwon)
        return (
            f"{self._place}: {writers} writers raced for each of {rounds} objects, and no two "
            f"created the same one{odd}"
        )

    def _race(
        self, name: str, writers: int, pool: ThreadPoolExecutor, barrier: threading.Barrier
    ) -> _Race:
        def write(content: bytes) -> tuple[Outcome, str]:
            barrier.wait()
            return self._create(name, content)

        contents = [f"writer {number}".encode() for number in range(writers)]
        results = list(pool.map(write, contents))
        outcomes = Counter(outcome for outcome, _ in results)
        creators = [
            content
            for content, (outcome, _) in zip(contents, results, strict=True)
            if outcome == "created"
        ]
        trouble = next((text for outcome, text in results if outcome == "failed"), "")
        try:
            content = self._get(name)
        except FileNotFoundError:
            content = b""
        return _Race(outcomes, content, creators, trouble)

    def clean_up(self) -> None:
        """Delete the written objects; those that cannot be deleted stay."""
        with suppress(BaseError, OSError):
            if self._written:
                self._client.delete(sorted(self._written))

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _put(self, name: str, content: bytes) -> None:
        self._written.add(self._key(name))
        with self._doing("put"):
            self._client.put(self._key(name), content)

    def _get(self, name: str) -> bytes:
        with self._doing("get"):
            return bytes(self._client.get(self._key(name)).bytes())

    def _list(self, folder: str) -> set[str]:
        with self._doing("list"):
            pages = list(self._client.list(self._key(folder) + "/"))
        return {meta["path"] for page in pages for meta in page}

    def _create_alone(self, name: str, content: bytes) -> None:
        """Create an object that nobody else creates; OSError if the store only says: not now."""
        for attempt in range(ATTEMPTS):
            outcome, trouble = self._create(name, content)
            if outcome == "created":
                return
            # An answer may have been lost: the client tried again, and its own put was in the way.
            with suppress(FileNotFoundError):
                if self._get(name) == content:
                    return
            if UNABLE.search(trouble):
                break
            time.sleep(PAUSE * attempt)
        if not UNABLE.search(trouble) and (outcome == "failed" or "Conflict" in trouble):
            raise OSError(f"{self._place}: put failed {ATTEMPTS} times ({trouble})")
        raise GiveUp(_none(self._place, "a writer alone was not able to", trouble))

    def _create(self, name: str, content: bytes) -> tuple[Outcome, str]:
        """Create an object, and return the outcome, with the store's reason if it failed."""
        self._written.add(self._key(name))
        try:
            with self._doing("put"):
                self._client.put(self._key(name), content, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError) as error:
            return "refused", store.reason(error)
        except FileNotFoundError as error:
            raise OSError(str(error)) from None
        except PermissionError:
            raise
        except (NotSupportedError, OSError) as error:
            return "failed", str(error)
        return "created", ""

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Name the right that a refused request needs, and turn other trouble into an OSError."""
        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise self._refusal(what, error) from None
        except (NotFoundError, FileNotFoundError) as error:
            said = store.reason(error)
            if what == "get" and "NoSuchBucket" not in said:
                raise FileNotFoundError(said) from None
            raise OSError(
                f"{self._place}: there is no bucket {self._place.name} ({said}): create it, or "
                "correct lake.path and lake.storage"
            ) from None
        except BaseError as error:
            if METADATA.search(str(error)) or FORBIDDEN.search(str(error)):
                raise self._refusal(what, error) from None
            raise OSError(f"{self._place}: {what} failed ({store.reason(error)})") from None

    def _refusal(self, what: str, error: BaseException) -> PermissionError:
        said = store.reason(error)
        if METADATA.search(str(error)):
            return PermissionError(f"{self._place}: no credentials were found: {INSTEAD} ({said})")
        if UNKNOWN.search(said):
            return PermissionError(
                f"{self._place}: the store does not accept the credentials ({said}): check "
                "AWS_ACCESS_KEY_ID, the shared profile or the role, and whether they have expired"
            )
        return PermissionError(
            f"{self._place}: not allowed to {what} ({said}): grant {RIGHTS[what]} to these "
            "credentials"
        )


def _none(place: Bucket, who: str, trouble: str) -> str:
    return (
        f"{place}: {who} create an object by a put with If-None-Match: * "
        f"({trouble or 'all were refused'}): nothing could ever be committed; the store must know "
        "conditional puts"
    )
