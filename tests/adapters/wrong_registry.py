"""A schema registry in memory that may answer wrongly: a double for what a real one does not do."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class WrongRegistry:
    """A server that runs between entering and leaving; `answer` may replace what it says."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.versions: dict[tuple[str, int], dict[str, Any]] = {}
        self.asked: list[str] = []
        self.credentials: list[str | None] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] | None = None
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.credentials.append(self.headers.get("Authorization"))
                (registry.answer or registry.right)(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def right(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer as a registry does."""
        parts = handler.path.split("/")
        match parts[1:]:
            case ["subjects"]:
                return send(handler, 200, [])
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return send(handler, 200, self.schemas[int(number)])
            case ["subjects", name, "versions", version] if (name, int(version)) in self.versions:
                return send(handler, 200, self.versions[name, int(version)])
        return send(handler, 404, {"error_code": 40403, "message": "Schema not found"})


def send(handler: BaseHTTPRequestHandler, status: int, body: Any, **headers: str) -> None:
    """Answer with bytes as they are, or with anything else as JSON."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(sent)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(sent)


def drip(handler: BaseHTTPRequestHandler) -> None:
    """Send a byte now and then, so that no single wait is long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Hang up in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"schema": ')
    handler.close_connection = True


def babble(handler: BaseHTTPRequestHandler) -> None:
    """Send what is not HTTP."""
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    handler.close_connection = True
