"""/metrics for Prometheus, and /health and /ready for whatever restarts or waits for a role."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from threading import Thread
from typing import Generic

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from lagless.errors import GiveUp
from lagless.metrics import Distribution, Metric, Role

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Reader(Collector, Generic[Role]):
    metrics: Iterable[Metric[Role]]
    role: Callable[[], Role | None]
    now: Callable[[], float]

    def collect(self) -> Iterator[Family]:
        role, now = self.role(), self.now()
        if role is None:
            return
        for metric in self.metrics:
            value = metric.read(role, now)
            if isinstance(value, Distribution):
                yield _histogram(metric, value)
            elif value is not None:
                yield _numbers(metric, value)

    def describe(self) -> Iterator[Family]:
        yield from ()


def _histogram(metric: Metric[Role], value: Distribution) -> Family:
    bounds = [*map(floatToGoString, value.bounds), "+Inf"]
    family = HistogramMetricFamily(metric.name, metric.help)
    counts = zip(bounds, accumulate(value.counts), strict=True)
    family.add_metric([], list(counts), value.total)
    return family


def _numbers(metric: Metric[Role], value: float | Mapping[tuple[str, ...], float]) -> Family:
    kind = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    values = value if isinstance(value, Mapping) else {(): value}
    for labels, number in values.items():
        family.add_metric(list(labels), number)
    return family


def registry(
    metrics: Iterable[Metric[Role]], role: Callable[[], Role | None], now: Callable[[], float]
) -> CollectorRegistry:
    """Return a registry that reads the role's metrics at each scrape; none without a role."""
    answering = CollectorRegistry()
    answering.register(_Reader(metrics, role, now))
    return answering


def exposed(registry: CollectorRegistry) -> tuple[bytes, str]:
    """Return the answer to a scrape, and its content type."""
    return generate_latest(registry), CONTENT_TYPE_LATEST


@dataclass(slots=True)
class Endpoint:
    """A running endpoint, or none at all."""

    port: int | None = None
    _server: ThreadingHTTPServer | None = field(default=None, repr=False)

    def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def serve(
    port: int | None,
    registry: CollectorRegistry,
    healthy: Callable[[], str],
    host: str = "0.0.0.0",  # nosec B104  # probes come from other machines
    ready: Callable[[], str] | None = None,
    tell: Callable[[str], None] = log.debug,
) -> Endpoint:
    """Answer /metrics, /health and /ready until closed; port 0 takes a free one, None answers none.

    `healthy` returns "" or what is wrong; in that case /health answers 503 with it. `ready` does
    the same for /ready; without it, a healthy role counts as ready.
    """
    if port is None:
        return Endpoint()
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
                self._answer(404, "text/plain", b"not found; try /metrics, /health or /ready\n")

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
            f"port {port} for metrics is not available ({error.strerror}); set another metrics_port"
        ) from error
    Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True).start()
    endpoint = Endpoint(server.server_address[1], server)
    tell(f"metrics and health on port {endpoint.port}")
    return endpoint
