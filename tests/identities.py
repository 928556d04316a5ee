"""Doubles of what hands out temporary credentials: to web identities, containers and instances.

They check what a client has to show, and give the credentials that they were made with.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

from tests.temporary_keys import Credentials

ROLE = "arn:aws:iam::123456789012:role/lake"
IDENTITY = "the-web-identity-token"
SESSION = "the-session-of-the-metadata-service"
CONTAINER = "the-container's-token"
HOST = "127.0.0.1"


class Identities:
    """A server that runs between entering and leaving, for all three."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.asked: list[str] = []
        """What was granted: web identity, container, instance."""
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer((HOST, 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Identities

    def _until(self) -> str:
        return (datetime.now(UTC) + timedelta(minutes=15)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self._assume({**parse_qs(parts.query), **parse_qs(body)})

    def _assume(self, said: Mapping[str, list[str]]) -> None:
        wanted = ("AssumeRoleWithWebIdentity", IDENTITY, ROLE)
        if tuple(said.get(n, [""])[0] for n in ("Action", "WebIdentityToken", "RoleArn")) != wanted:
            self._answer(403, b"<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error>")
            return
        self.owner.asked.append("web identity")
        given = self.owner.credentials | {"Expiration": self._until()}
        fields = "".join(f"<{name}>{value}</{name}>" for name, value in given.items())
        result = "AssumeRoleWithWebIdentityResult"
        who = f"<AssumedRoleId>x</AssumedRoleId><Arn>{ROLE}</Arn>"
        user = f"<AssumedRoleUser>{who}</AssumedRoleUser>"
        text = f"<{result}><Credentials>{fields}</Credentials>{user}</{result}>"
        space = 'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"'
        outer = "AssumeRoleWithWebIdentityResponse"
        self._answer(200, f"<{outer} {space}>{text}</{outer}>".encode())

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fine = self.path == "/latest/api/token"
        self._answer(200 if fine else 404, SESSION.encode(), "text/plain")

    def do_GET(self) -> None:
        roles = "/latest/meta-data/iam/security-credentials"
        if self.path.startswith("/?"):
            self._assume(parse_qs(urlsplit(self.path).query))
        elif self.path == "/container":
            self._give("container", self.headers.get("Authorization") == CONTAINER)
        elif self.headers.get("x-aws-ec2-metadata-token") != SESSION:
            self._answer(401, b"")
        elif self.path.rstrip("/") == roles:
            self._answer(200, b"lake", "text/plain")
        elif self.path == f"{roles}/lake":
            self._give("instance", True)
        else:
            self._answer(404, b"")

    def _give(self, what: str, fine: bool) -> None:
        if not fine:
            self._answer(403, b"{}")
            return
        self.owner.asked.append(what)
        known = self.owner.credentials
        said = {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "LastUpdated": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "AccessKeyId": known["AccessKeyId"],
            "SecretAccessKey": known["SecretAccessKey"],
            "Token": known["SessionToken"],
            "Expiration": self._until(),
        }
        self._answer(200, json.dumps(said).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str = "text/xml") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.path == "/latest/api/token":
            self.send_header("x-aws-ec2-metadata-token-ttl-seconds", "600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


class TlsFront:
    """TLS in front of a port of this machine, between entering and leaving."""

    def __init__(self, port: int, certificate: Path, key: Path) -> None:
        self._target = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        begun = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(begun),)
        )
        self._thread.start()
        begun.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self, begun: threading.Event) -> None:
        self._ending = asyncio.Event()
        server = await asyncio.start_server(
            self._accept, HOST, 0, ssl=self._context, ssl_shutdown_timeout=1
        )
        self.port = server.sockets[0].getsockname()[1]
        begun.set()
        await self._ending.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            inner, to_server = await asyncio.open_connection(HOST, self._target)
            writers.append(to_server)
            await asyncio.gather(_pass(reader, to_server), _pass(inner, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in writers:
                one.close()
                with suppress(OSError, asyncio.CancelledError):
                    await one.wait_closed()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        writer.close()
