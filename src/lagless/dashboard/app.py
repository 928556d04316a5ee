"""The server of the page: NiceGUI on this machine's address, and nothing loaded from elsewhere."""

import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from nicegui import app as pages
from nicegui import ui

from lagless.dashboard import exports
from lagless.dashboard.desk import Desk
from lagless.dashboard.page import Page
from lagless.errors import GiveUp

ASSETS = Path(__file__).parent / "assets"
EVERY = 1.0
"""Seconds between looks at what arrived."""


class Server(uvicorn.Server):
    """uvicorn's server, which says when it listens and ends without a word when asked to."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


Metrics = Callable[[], tuple[bytes, str]]
"""What Prometheus is told, and its content type."""


def serve(
    desk: Desk,
    host: str,
    port: int,
    ready: Callable[[str], None],
    metrics: Metrics | None = None,
) -> None:
    """Serve the page until the process is asked to end; `ready` is told its address."""
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}/"
    config = uvicorn.Config(
        build(desk, metrics),
        log_level="warning",
        access_log=False,
        ws="wsproto",
        timeout_graceful_shutdown=3,
    )
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises what ended it once more: to be asked to end is no failure.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
    Server(config, lambda: ready(address)).run(sockets=[listener])


def build(desk: Desk, metrics: Metrics | None = None) -> FastAPI:
    """Put the pages together."""

    @ui.page("/", title=f"lagless · {desk.settings.group}")
    def _index() -> None:
        Page(desk)

    @pages.get("/snapshot.json")
    def _snapshot() -> dict[str, Any]:
        return exports.document(desk.snapshot)

    @pages.get("/health")
    def _health() -> dict[str, bool | str]:
        # Always 200: a page that says that Kafka is away is well, and a restart would not help.
        trouble = desk.snapshot.link.trouble
        return {"healthy": not trouble, "trouble": trouble}

    if metrics is not None:

        @pages.get("/metrics")
        def _metrics() -> Response:
            content, kind = metrics()
            return Response(content, media_type=kind)

    pages.add_static_files("/assets", ASSETS)
    ui.add_head_html('<link rel="stylesheet" href="/assets/style.css">', shared=True)
    pages.timer(EVERY, desk.look)
    api = FastAPI(openapi_url=None)
    ui.run_with(
        api,
        title="lagless",
        favicon=ASSETS / "icon.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=10,
    )
    return api


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise GiveUp(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
        ) from error
    return listener
