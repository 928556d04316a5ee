"""A proxy in front of an S3 server that misbehaves by rule, as networks and object stores do.

Requests and answers are passed on as they come, in pieces, over connections that stay open. Rules
choose requests by kind, key, occurrence and chance, and name the fault that happens to them. Every
request is counted by its kind, with or without a rule.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from lagless.adapters.spark.sessions import HOST
from lagless.lab.parts import s3_faults
from lagless.lab.parts.s3_faults import Fault, Request, Rule

PIECE = 1 << 16
LINE = 1 << 17
"""The longest line of a head: signatures and metadata are in it."""


@dataclass(slots=True)
class _Head:
    first: str
    lines: list[str]
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> bytes:
        return "\r\n".join([self.first, *self.lines, "", ""]).encode("latin-1")

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> int:
        return int(self.headers.get("content-length", "0"))

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


async def _read_head(reader: asyncio.StreamReader) -> _Head | None:
    first = (await reader.readline()).decode("latin-1").rstrip("\r\n")
    if not first:
        return None
    head = _Head(first, [])
    while line := (await reader.readline()).decode("latin-1").rstrip("\r\n"):
        head.lines.append(line)
        name, _, value = line.partition(":")
        head.headers[name.strip().lower()] = value.strip()
    return head


class _Upstream:
    """One connection to the server, opened again when the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection that the server has not closed."""
        if self.reader is None or self.writer is None or self.reader.at_eof():
            self.close()
            self.reader, self.writer = await asyncio.open_connection(HOST, self._port, limit=LINE)
        return self.reader, self.writer

    def close(self) -> None:
        """Close the connection."""
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


class FaultyProxy:
    """A proxy to a port of this machine that runs between entering and leaving, in a thread."""

    def __init__(self, port: int, rules: Sequence[Rule] = (), seed: int = 0) -> None:
        self.rules = list(rules)
        """May be exchanged at any time; the first rule that applies counts."""
        self.latency = 0.0
        """Seconds added to every request."""
        self.counts: Counter[str] = Counter()
        """Requests by kind."""
        self.faults: Counter[str] = Counter()
        """Faults that happened, by name."""
        self.late: list[int] = []
        """The server's answers to requests whose clients had gone away."""
        self._target = port
        self._dice = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self._port

    @property
    def url(self) -> str:
        """The address that clients connect to."""
        return f"http://{HOST}:{self._port}"

    def start(self) -> Self:
        """Begin to accept connections."""
        begun = threading.Event()
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._run, args=(begun,), name="proxy", daemon=True)
        thread.start()
        self._thread = thread
        begun.wait()
        return self

    def stop(self) -> None:
        """Close all connections; requests that are still held back are never sent."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------------ the thread

    def _run(self, begun: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve(begun))
        finally:
            self._loop.close()

    async def _serve(self, begun: threading.Event) -> None:
        self._ending = asyncio.Event()
        server = await asyncio.start_server(self._accept, HOST, self._port, limit=LINE)
        self._port = server.sockets[0].getsockname()[1]
        begun.set()
        await self._ending.wait()
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream = _Upstream(self._target)
        try:
            while await self._handle(reader, writer, upstream):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            upstream.close()
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    # ------------------------------------------------------------------ one request

    async def _handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: _Upstream
    ) -> bool:
        """Pass a request on, and return whether the connection stays open."""
        head = await _read_head(reader)
        if head is None:
            return False
        method, target, _ = head.first.split(" ", 2)
        request = s3_faults.kind_of(method, target, head.headers)
        self.counts[request.kind] += 1
        fault = self._draw(request)
        if head.headers.get("expect", "").lower() == "100-continue":
            head.lines = [it for it in head.lines if not it.lower().startswith("expect:")]
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.latency:
            await asyncio.sleep(self.latency)
        if fault is None:
            _, to_server = await upstream.open()
            to_server.write(head.raw)
            await _pass(reader, to_server, head)
            return await self._answer(method, upstream, writer) and not head.closes
        return await self._misbehave(fault, method, head, reader, writer, upstream)

    def _draw(self, request: Request) -> Fault | None:
        for rule in tuple(self.rules):
            if rule.applies(request, self._dice):
                self.faults[rule.fault.name] += 1
                return rule.fault
        return None

    async def _misbehave(
        self,
        fault: Fault,
        method: str,
        head: _Head,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: _Upstream,
    ) -> bool:
        """Let a fault happen to a request, whose body is read first."""
        held = _Held()
        await _pass(reader, held, head)
        whole = head.raw + bytes(held.content)
        if fault.patience is not None:
            task = asyncio.ensure_future(self._send_late(fault, method, whole))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(fault.patience)
            return False
        await asyncio.sleep(fault.wait)
        silent = fault.hang_up or fault.answer is not None
        for count in range(fault.sent):
            _, to_server = await upstream.open()
            to_server.write(whole)
            last = count == fault.sent - 1
            seen = None if silent or not last else writer
            is_open = await self._answer(method, upstream, seen, cut=fault.cut and last)
            if seen is not None:
                return is_open
        if fault.hang_up or fault.answer is None:
            return False
        status, code = fault.answer
        body = f"<Error><Code>{code}</Code><Message>{fault.name}</Message></Error>".encode()
        lines = [f"HTTP/1.1 {status} {code}", "Content-Type: application/xml"]
        lines += [f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(lines).encode() + (b"" if method == "HEAD" else body))
        await writer.drain()
        return True

    async def _send_late(self, fault: Fault, method: str, whole: bytes) -> None:
        await asyncio.sleep(fault.wait)
        upstream = _Upstream(self._target)
        try:
            server, to_server = await upstream.open()
            to_server.write(whole)
            head = await _read_head(server)
            if head is not None:
                self.late.append(int(head.first.split(" ")[1]))
        except OSError:
            self.late.append(0)
        finally:
            upstream.close()

    async def _answer(
        self,
        method: str,
        upstream: _Upstream,
        writer: asyncio.StreamWriter | None,
        *,
        cut: bool = False,
    ) -> bool:
        """Pass the server's answer on, to nobody without a writer; return whether both stay."""
        server = upstream.reader
        if server is None:
            raise ConnectionResetError("the server closed the connection")
        head = await _read_head(server)
        while head is not None and head.first.split(" ")[1] == "100":
            head = await _read_head(server)
        if head is None:
            raise ConnectionResetError("the server closed the connection")
        sink: asyncio.StreamWriter | _Held = writer or _Held()
        sink.write(head.raw)
        status = int(head.first.split(" ")[1])
        if method != "HEAD" and status not in (204, 304):
            if cut and head.length > 1:
                sink.write(await server.readexactly(head.length // 2))
                await sink.drain()
                upstream.close()
                return False
            await _pass(server, sink, head)
        await sink.drain()
        if head.closes:
            upstream.close()
        return not head.closes


class _Held:
    """A writer that keeps what is written."""

    def __init__(self) -> None:
        self.content = bytearray()

    def write(self, data: bytes) -> None:
        self.content += data

    async def drain(self) -> None:
        return


async def _pass(
    reader: asyncio.StreamReader, writer: "asyncio.StreamWriter | _Held", head: _Head
) -> None:
    """Pass a body on, piece by piece, as its head says."""
    if not head.is_chunked:
        await _pass_bytes(reader, writer, head.length)
        return
    while True:
        line = await reader.readline()
        writer.write(line)
        size = int(line.split(b";")[0].strip() or b"0", 16)
        await _pass_bytes(reader, writer, size)
        # A chunk's end; after the last one the trailers, and the empty line behind them.
        line = await reader.readline()
        writer.write(line)
        if size == 0:
            while line.strip():
                line = await reader.readline()
                writer.write(line)
            return


async def _pass_bytes(
    reader: asyncio.StreamReader, writer: "asyncio.StreamWriter | _Held", count: int
) -> None:
    while count > 0:
        piece = await reader.read(min(PIECE, count))
        if not piece:
            raise asyncio.IncompleteReadError(b"", count)
        count -= len(piece)
        writer.write(piece)
        await writer.drain()
