"""What object stores and networks do to requests, as rules: which requests, and what happens.

Events in, decisions out: the proxy in `faulty_proxy` asks the rules and carries out what they say.
"""

import random
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a request. The server's answer is passed on unless something else is said."""

    name: str
    wait: float = 0.0
    """Seconds before the server gets the request."""
    sent: int = 1
    """How many times the server gets it; the last answer counts."""
    patience: float | None = None
    """Seconds after which the client's connection is closed, while the request goes on."""
    answer: tuple[int, str] | None = None
    """The status and S3's error code that the client gets instead."""
    hang_up: bool = False
    """Close the connection instead of answering."""
    cut: bool = False
    """Close the connection in the middle of the answer's body."""


LOST_ANSWER = Fault("lost answer", hang_up=True)
"""The request is carried out, and the connection ends without an answer."""
NEVER_SENT = Fault("never sent", sent=0, hang_up=True)
REPEATED = Fault("repeated", sent=2)
"""Something on the way sends a request twice: a conditional put meets itself (412)."""
FAILED_AFTER = Fault("failed after", answer=(500, "InternalError"))
"""The request is carried out and answered with an error; the client's retry meets its own put."""
CONFLICT = Fault("conflict", sent=0, answer=(409, "ConditionalRequestConflict"))
SLOW_DOWN = Fault("slow down", sent=0, answer=(503, "SlowDown"))
EXPIRED = Fault("expired token", sent=0, answer=(403, "ExpiredToken"))
FORBIDDEN = Fault("forbidden", sent=0, answer=(403, "AccessDenied"))
CUT = Fault("cut", cut=True)


def late(seconds: float, patience: float = 0.0) -> Fault:
    """Return the fault of a request that lands after its client was told nothing and went away."""
    return Fault("late", wait=seconds, patience=patience)


def slow(seconds: float) -> Fault:
    """Return the fault of a request that is answered late."""
    return Fault("slow", wait=seconds)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as rules see it."""

    method: str
    bucket: str
    key: str
    kind: str
    is_conditional: bool
    signer: str = ""
    """The access key that signed it."""


@dataclass(slots=True)
class Rule:
    """Which requests a fault happens to: all conditions must hold."""

    fault: Fault
    kinds: Collection[str] = ()
    """Kinds of requests (see `kind_of`); all by default."""
    key: str = ""
    """A regular expression that is found in the key or, for listings, in the prefix."""
    signers: Collection[str] = ()
    """Access keys; all by default."""
    conditional: bool | None = None
    """Whether the request is a put that must fail if the key exists."""
    nth: Collection[int] = ()
    """Which of the matching requests, from 1; all by default."""
    chance: float = 1.0
    most: int | None = None
    """How many times the fault happens at most."""
    matched: int = 0
    """Requests that met the conditions before `nth` and `chance`."""
    happened: int = 0

    def applies(self, request: Request, dice: random.Random) -> bool:
        """Return whether the fault happens to this request, and count it."""
        if self.kinds and request.kind not in self.kinds:
            return False
        if self.signers and request.signer not in self.signers:
            return False
        if not re.search(self.key, request.key):
            return False
        if self.conditional is not None and request.is_conditional != self.conditional:
            return False
        self.matched += 1
        if self.most is not None and self.happened >= self.most:
            return False
        if self.nth and self.matched not in self.nth:
            return False
        if dice.random() >= self.chance:
            return False
        self.happened += 1
        return True


def kind_of(method: str, target: str, headers: Mapping[str, str]) -> Request:
    """Return what a request is to S3, from its path (`/bucket/key`) and query.

    Kinds: put, get, head, delete, list, copy, delete many, begin upload, put part, end upload,
    abort upload, bucket.
    """
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    kind = "bucket"
    if method == "GET" and not key and not {"location", "versioning"} & query.keys():
        kind, key = "list", query.get("prefix", [""])[0]
    elif method == "POST" and "delete" in query:
        kind = "delete many"
    elif key:
        kind = _of_object(method, query, headers)
    conditional = method in ("PUT", "POST") and "if-none-match" in headers
    signer = re.search(r"Credential=([^/]+)/", headers.get("authorization", ""))
    return Request(method, bucket, key, kind, conditional, signer[1] if signer else "")


def _of_object(method: str, query: Mapping[str, list[str]], headers: Mapping[str, str]) -> str:
    if "uploadId" in query:
        return {"PUT": "put part", "POST": "end upload", "DELETE": "abort upload"}.get(
            method, "list"
        )
    if method == "POST" and "uploads" in query:
        return "begin upload"
    if method == "PUT" and "x-amz-copy-source" in headers:
        return "copy"
    return method.lower()
