"""The web server: the page, its JSON and its metrics.

Everything that a browser loads comes from this server, so the page works without internet access.
"""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import uvicorn
from fastapi import FastAPI, Response
from nicegui import app as pages
from nicegui import ui

from lagless.dashboard import gate, group_page, snapshot
from lagless.dashboard.page import Page
from lagless.dashboard.view import Feed
from lagless.errors import GiveUp
from lagless.ports import GroupSummary

ASSETS = Path(__file__).parent / "assets"
EVERY = 1.0
"""Seconds between two reads of the source."""
Groups = Callable[[], Sequence[GroupSummary]]
"""Returns every group of the cluster."""
Metrics = Callable[[], tuple[bytes, str]]
"""Returns what Prometheus scrapes, and its content type."""


def serve(
    feed: Feed,
    host: str,
    port: int,
    ready: Callable[[str], None],
    metrics: Metrics | None = None,
    groups: Groups | None = None,
) -> None:
    """Serve the page until SIGINT or SIGTERM; `ready` is called with its address."""
    knobs = feed.settings.dashboard
    login = gate.Login(knobs.username or "", knobs.read_password(), knobs.read_access_token())
    listener = _listen(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}{knobs.path}/"
    config = uvicorn.Config(
        gate.Gate(cast(gate.App, build(feed, metrics, groups)), knobs.path, login),
        server_header=False,
        log_level="warning",
        access_log=False,
        ws="wsproto",
        timeout_graceful_shutdown=3,
    )
    pages.on_startup(lambda: ready(address))
    uvicorn.Server(config).run(sockets=[listener])


def build(feed: Feed, metrics: Metrics | None = None, groups: Groups | None = None) -> FastAPI:
    """Return the web application."""

    @ui.page("/", title=f"lagless · {feed.settings.group}")
    def _index() -> None:
        Page(feed)

    @pages.get("/snapshot.json")
    def _snapshot() -> dict[str, Any]:
        return snapshot.document(feed.snapshot)

    @pages.get("/health")
    def _health() -> dict[str, bool | str]:
        # Always 200: while Kafka is unreachable the page works, and a restart would not help.
        trouble = feed.snapshot.link.trouble
        return {"healthy": not trouble, "trouble": trouble}

    if metrics is not None:

        @pages.get("/metrics")
        def _metrics() -> Response:
            content, kind = metrics()
            return Response(content, media_type=kind)

    if groups is not None:

        @pages.get("/groups")
        def _groups() -> Response:
            content = group_page.page(groups(), feed.settings.dashboard.path)
            return Response(content, media_type="text/html")

        @pages.get("/groups.json")
        def _groups_document() -> dict[str, Any]:
            return group_page.document(groups())

    pages.add_static_files("/assets", ASSETS)
    style = f"{feed.settings.dashboard.path}/assets/style.css"
    ui.add_head_html(f'<link rel="stylesheet" href="{style}">', shared=True)
    pages.timer(EVERY, feed.update)
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
        listener.listen()  # so that whoever is told the address can connect at once
    except OSError as error:
        listener.close()
        raise GiveUp(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
        ) from error
    return listener
