"""The gRPC server that KEDA asks."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, NoReturn

import grpc

from lagless.adapters.keda import hpa, scaler_messages
from lagless.adapters.keda.hpa import Demand
from lagless.errors import GiveUp, TryAgain

METRIC = "members"
PUSH = 1.0
"""Seconds between two checks for clients that subscribed to changes."""
WORKERS = 16
LAST_WORDS = 1.0


class ScalerServer:
    """Answer KEDA with what `demand` returns; while it raises TryAgain, with UNAVAILABLE.

    KEDA then uses the ScaledObject's fallback, if there is one; the autoscaler changes nothing.
    """

    def __init__(self, host: str, port: int, group: str, demand: Callable[[], Demand]) -> None:
        self._group = group
        self._demand = demand
        self._ending = Event()
        self._server = grpc.server(
            ThreadPoolExecutor(WORKERS, "keda"), options=[("grpc.so_reuseport", 0)]
        )
        messages = scaler_messages
        single = {
            "IsActive": (self._is_active, messages.ScaledObjectRef),
            "GetMetricSpec": (self._metric_spec, messages.ScaledObjectRef),
            "GetMetrics": (self._metrics, messages.GetMetricsRequest),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                call, request_deserializer=kind.FromString, response_serializer=_bytes
            )
            for name, (call, kind) in single.items()
        }
        handlers["StreamIsActive"] = grpc.unary_stream_rpc_method_handler(
            self._stream_is_active,
            request_deserializer=messages.ScaledObjectRef.FromString,
            response_serializer=_bytes,
        )
        handler = grpc.method_handlers_generic_handler(messages.SERVICE, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        try:
            self.port = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise GiveUp(f"{host}:{port} cannot be listened on; choose a free --port") from error
        """The port that was taken; a free one for port 0."""

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()

    def close(self) -> None:
        """End; calls under way get a second."""
        self._ending.set()
        self._server.stop(LAST_WORDS).wait()

    def _is_active(self, reference: Any, context: grpc.ServicerContext) -> Any:
        return scaler_messages.IsActiveResponse(result=self._asked(reference, context).active)

    def _stream_is_active(self, reference: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        told = None
        while context.is_active() and not self._ending.is_set():
            active = self._asked(reference, context).active
            if active != told:
                told = active
                yield scaler_messages.IsActiveResponse(result=active)
            self._ending.wait(PUSH)

    def _metric_spec(self, reference: Any, context: grpc.ServicerContext) -> Any:
        self._check(reference, context)
        spec = scaler_messages.MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1.0)
        return scaler_messages.GetMetricSpecResponse(metricSpecs=[spec])

    def _metrics(self, request: Any, context: grpc.ServicerContext) -> Any:
        value = hpa.value(self._asked(request.scaledObjectRef, context))
        metric = scaler_messages.MetricValue(
            metricName=request.metricName or METRIC,
            metricValue=math.ceil(value),
            metricValueFloat=value,
        )
        return scaler_messages.GetMetricsResponse(metricValues=[metric])

    def _asked(self, reference: Any, context: grpc.ServicerContext) -> Demand:
        self._check(reference, context)
        try:
            return self._demand()
        except TryAgain as error:
            _abort(context, grpc.StatusCode.UNAVAILABLE, str(error))

    def _check(self, reference: Any, context: grpc.ServicerContext) -> None:
        """Refuse a ScaledObject that is meant for another group."""
        meant = scaler_messages.metadata(reference).get("group", self._group)
        if meant != self._group:
            _abort(
                context,
                grpc.StatusCode.INVALID_ARGUMENT,
                f"metadata.group is {meant!r}, and this scaler is for group {self._group!r}",
            )


def _abort(context: grpc.ServicerContext, code: grpc.StatusCode, sentence: str) -> NoReturn:
    context.abort(code, sentence)
    raise AssertionError("abort raises")


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializeToString())
