"""/metrics for Prometheus, /health for whoever restarts things and /ready for whoever waits."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Literal

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lagless.errors import GiveUp

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with a value per combination of labels."""

    name: str
    help: str
    values: Mapping[tuple[str, ...], float]
    labels: Sequence[str] = ()
    kind: Literal["gauge", "counter"] = "gauge"


class _Gathered(Collector):
    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families():
            kind = GaugeMetricFamily if family.kind == "gauge" else CounterMetricFamily
            metric = kind(family.name, family.help, labels=list(family.labels))
            for labels, value in family.values.items():
                metric.add_metric(list(labels), value)
            yield metric

    def describe(self) -> Iterator[Metric]:
        yield from ()


def registry(families: Callable[[], Iterable[Family]]) -> CollectorRegistry:
    """Make a registry that asks `families` at each scrape: nothing is kept between two."""
    made = CollectorRegistry()
    made.register(_Gathered(families))
    return made


def exposed(registry: CollectorRegistry) -> tuple[bytes, str]:
    """Give what a scrape answers, and its content type."""
    return generate_latest(registry), CONTENT_TYPE_LATEST


@dataclass(slots=True)
class Endpoint:
    """A running endpoint."""

    port: int
    _server: ThreadingHTTPServer = field(repr=False)

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def serve(
    port: int,
    registry: CollectorRegistry,
    healthy: Callable[[], str],
    host: str = "0.0.0.0",
    ready: Callable[[], str] | None = None,
) -> Endpoint:
    """Answer /metrics, /health and /ready until closed; port 0 takes a free one.

    `healthy` gives "" or the sentence that says what is wrong; then /health answers 503 with it.
    `ready` does the same for /ready; without it, who is healthy is ready.
    """
    questions = {"/health": ("healthy", healthy), "/ready": ("ready", ready or healthy)}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif path in questions:
                word, ask = questions[path]
                trouble = ask()
                body = json.dumps({word: not trouble, "trouble": trouble}).encode()
                self._answer(503 if trouble else 200, "application/json", body)
            else:
                self._answer(404, "text/plain", b"there are /metrics, /health and /ready\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            log.debug(format, *args)

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise GiveUp(
            f"port {port} for metrics cannot be opened ({error.strerror}); set another metrics_port"
        ) from error
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True).start()
    return Endpoint(server.server_address[1], server)
