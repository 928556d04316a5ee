"""An S3 server in memory that is wrong on purpose: a double for what a bucket must not do.

It speaks as much of S3 as a table's log needs, checks no signatures, and has no flaw unless told.
"""

import re
import threading
import time
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
FLAWS = (
    "all win",
    "check first",
    "none wins",
    "refuses the header",
    "loses the winner",
    "stale list",
    "stale read",
    "remembers absence",
    "keeps deleted",
    "no put",
    "no get",
    "no list",
    "no delete",
    "no multipart",
    "joins wrongly",
    "no bucket",
)


class WrongStore:
    """A server that runs between entering and leaving."""

    def __init__(self, flaws: Collection[str] = ()) -> None:
        assert set(flaws) <= set(FLAWS), flaws
        self.flaws = set(flaws)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[str] = []
        self.lock = threading.Lock()
        self.listed: list[str] = []
        self.absent: set[str] = set()
        handler = type("Handler", (_Handler,), {"store": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "aws_conditional_put": "etag",
        }

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def put(self, key: str, content: bytes, conditional: bool) -> tuple[int, str]:
        """Store an object, and return status and error code."""
        if conditional and "refuses the header" in self.flaws:
            return 501, "NotImplemented"
        if conditional and "none wins" in self.flaws:
            return 412, "PreconditionFailed"
        if conditional and "check first" in self.flaws:
            if key in self.objects:
                return 412, "PreconditionFailed"
            time.sleep(0.02)
            self.objects[key] = content
            return 200, ""
        with self.lock:
            if conditional and key in self.objects and "all win" not in self.flaws:
                if "loses the winner" in self.flaws:
                    self.objects[key] = content
                return 412, "PreconditionFailed"
            if "stale read" in self.flaws and not conditional and key in self.objects:
                return 200, ""
            self.objects[key] = content
        return 200, ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store: WrongStore

    def _parse(self) -> tuple[str, dict[str, list[str]], bytes]:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.store.requests.append(f"{self.command} {self.path}")
        if bucket != BUCKET or "no bucket" in self.store.flaws:
            raise _Refused(404, "NoSuchBucket")
        return key, query, body

    def _need(self, right: str) -> None:
        if f"no {right}" in self.store.flaws:
            raise _Refused(403, "AccessDenied")

    def _serve(self) -> None:
        try:
            key, query, body = self._parse()
            getattr(self, f"_{self.command.lower()}")(key, query, body)
        except _Refused as refusal:
            status, code = refusal.args
            text = f"<Error><Code>{code}</Code><Message>refused</Message></Error>"
            self._answer(status, text.encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

    def _get(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if not key:
            self._need("list")
            self._list(query)
            return
        self._need("get")
        if key not in self.store.objects or key in self.store.absent:
            if "remembers absence" in self.store.flaws:
                self.store.absent.add(key)
            raise _Refused(404, "NoSuchKey")
        content = self.store.objects[key]
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if span is None:
            self._answer(200, content)
            return
        first, last = int(span[1]), min(int(span[2]), len(content) - 1)
        more = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        self._answer(206, content[first : last + 1], more)

    _head = _get

    def _list(self, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        keys = sorted(self.store.objects)
        if "stale list" in self.store.flaws:
            keys, self.store.listed = self.store.listed, keys
        found = [key for key in keys if key.startswith(prefix) and key in self.store.objects]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.store.objects[key])}</Size>"
            '<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"1"</ETag></Contents>'
            for key in found
        )
        self._answer(
            200,
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>{entries}"
            "</ListBucketResult>".encode(),
        )

    def _put(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            upload, number = query["uploadId"][0], int(query["partNumber"][0])
            self.store.uploads[upload][number] = body
            self._answer(200, b"")
            return
        self._need("put")
        conditional = self.headers.get("If-None-Match") is not None
        status, code = self.store.put(key, body, conditional)
        if code:
            raise _Refused(status, code)
        self._answer(200, b"")

    def _post(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "delete" in query:
            self._need("delete")
            keys = re.findall(rb"<Key>(.*?)</Key>", body)
            for name in keys:
                self._remove(name.decode())
            gone = "".join(f"<Deleted><Key>{it.decode()}</Key></Deleted>" for it in keys)
            self._answer(200, f"<DeleteResult>{gone}</DeleteResult>".encode())
            return
        self._need("multipart")
        if "uploads" in query:
            upload = f"upload{len(self.store.uploads)}"
            self.store.uploads[upload] = {}
            text = f"<Bucket>{BUCKET}</Bucket><Key>{key}</Key><UploadId>{upload}</UploadId>"
            result = f"<InitiateMultipartUploadResult>{text}</InitiateMultipartUploadResult>"
            self._answer(200, result.encode())
            return
        parts = self.store.uploads.pop(query["uploadId"][0])
        order = sorted(parts, reverse="joins wrongly" in self.store.flaws)
        self.store.objects[key] = b"".join(parts[number] for number in order)
        text = f'<Bucket>{BUCKET}</Bucket><Key>{key}</Key><ETag>"1"</ETag>'
        result = f"<CompleteMultipartUploadResult>{text}</CompleteMultipartUploadResult>"
        self._answer(200, result.encode())

    def _delete(self, key: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            self.store.uploads.pop(query["uploadId"][0], None)
        else:
            self._need("delete")
            self._remove(key)
        self._answer(204, b"")

    def _remove(self, key: str) -> None:
        if "keeps deleted" not in self.store.flaws:
            self.store.objects.pop(key, None)

    def _answer(self, status: int, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


class _Refused(Exception):
    """A status and an error code of S3."""
