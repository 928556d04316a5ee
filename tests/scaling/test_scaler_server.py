"""The external scaler, asked by a real gRPC client as KEDA asks it."""

import struct
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from lagless.adapters.keda import scaler_messages as messages
from lagless.adapters.keda.hpa import Demand
from lagless.adapters.keda.scaler_server import ScalerServer
from lagless.errors import GiveUp, TryAgain

SERVICE = "/externalscaler.ExternalScaler/"


class Asked:
    """What the server is told by the rest of lagless."""

    def __init__(self) -> None:
        self.demand: Demand | None = Demand(wanted=4, present=2, active=True)

    def __call__(self) -> Demand:
        if self.demand is None:
            raise TryAgain("the newest speeds are too old")
        return self.demand


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def server(asked: Asked) -> Iterator[ScalerServer]:
    running = ScalerServer("127.0.0.1", 0, "orders", asked)
    running.start()
    yield running
    running.close()


@pytest.fixture
def channel(server: ScalerServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        yield opened


def call(channel: grpc.Channel, name: str, request: Any, answer: Any) -> Any:
    method = channel.unary_unary(
        SERVICE + name,
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )
    return method(request, timeout=30)


def reference(**metadata: str) -> Any:
    made = messages.ScaledObjectRef(name="orders-reader", namespace="shop")
    for key, value in {"scalerAddress": "lagless:6000", **metadata}.items():
        made.scalerMetadata.add(key=key, value=value)
    return made


def test_keda_learns_the_metric_its_target_and_how_many_members_are_wanted(
    channel: grpc.Channel, asked: Asked
) -> None:
    (spec,) = call(
        channel, "GetMetricSpec", reference(), messages.GetMetricSpecResponse
    ).metricSpecs
    assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("members", 1, 1.0)
    request = messages.GetMetricsRequest(scaledObjectRef=reference(), metricName="members")
    (metric,) = call(channel, "GetMetrics", request, messages.GetMetricsResponse).metricValues
    assert (metric.metricName, metric.metricValue, metric.metricValueFloat) == ("members", 4, 4.0)
    asked.demand = Demand(wanted=21, present=20, active=True)
    (metric,) = call(channel, "GetMetrics", request, messages.GetMetricsResponse).metricValues
    assert metric.metricValue == 23
    assert metric.metricValueFloat == pytest.approx(22.001)


def test_activity_is_told_and_pushed_when_it_changes(channel: grpc.Channel, asked: Asked) -> None:
    assert call(channel, "IsActive", reference(), messages.IsActiveResponse).result is True
    stream = channel.unary_stream(
        SERVICE + "StreamIsActive",
        request_serializer=messages.ScaledObjectRef.SerializeToString,
        response_deserializer=messages.IsActiveResponse.FromString,
    )(reference(), timeout=60)
    assert next(stream).result is True
    asked.demand = Demand(wanted=1, present=1, active=False)
    assert next(stream).result is False
    stream.cancel()
    assert call(channel, "IsActive", reference(), messages.IsActiveResponse).result is False


def test_what_is_not_known_is_unavailable_instead_of_zero(
    channel: grpc.Channel, asked: Asked
) -> None:
    asked.demand = None
    request = messages.GetMetricsRequest(scaledObjectRef=reference(), metricName="members")
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, "GetMetrics", request, messages.GetMetricsResponse)
    assert code(caught.value) == (grpc.StatusCode.UNAVAILABLE, "the newest speeds are too old")


def test_a_scaled_object_for_another_group_is_refused(channel: grpc.Channel) -> None:
    right = call(channel, "IsActive", reference(group="orders"), messages.IsActiveResponse)
    assert right.result is True
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, "IsActive", reference(group="payments"), messages.IsActiveResponse)
    status, sentence = code(caught.value)
    assert status == grpc.StatusCode.INVALID_ARGUMENT
    assert "'payments'" in sentence
    assert "'orders'" in sentence


def test_a_method_that_keda_may_try_and_this_scaler_lacks_is_unimplemented(
    channel: grpc.Channel,
) -> None:
    stream = channel.unary_stream(SERVICE + "StreamMetricSpec")(b"", timeout=30)
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert code(caught.value)[0] == grpc.StatusCode.UNIMPLEMENTED


def test_a_port_that_is_taken_is_named(server: ScalerServer, asked: Asked) -> None:
    with pytest.raises(GiveUp, match=f"127.0.0.1:{server.port} cannot be listened on"):
        ScalerServer("127.0.0.1", server.port, "orders", asked)


def test_every_field_has_the_number_that_keda_gives_to_it(channel: grpc.Channel) -> None:
    """Speak the wire format by hand, so that both sides cannot be wrong in the same way."""
    pair = field(1, b"group") + field(2, b"orders")
    sent = field(1, b"orders-reader") + field(2, b"shop") + field(3, pair)

    def raw(name: str, body: bytes) -> bytes:
        return bytes(channel.unary_unary(SERVICE + name)(body, timeout=30))

    assert raw("IsActive", sent) == b"\x08\x01"
    one = struct.pack("<d", 1.0)
    assert raw("GetMetricSpec", sent) == field(1, field(1, b"members") + b"\x10\x01\x19" + one)
    four = struct.pack("<d", 4.0)
    wanted = field(1, field(1, b"members") + b"\x10\x04\x19" + four)
    assert raw("GetMetrics", field(1, sent) + field(2, b"members")) == wanted


def field(number: int, body: bytes) -> bytes:
    """Encode a text, bytes or a message under a field number."""
    return bytes([number << 3 | 2, len(body)]) + body


def code(error: grpc.RpcError) -> tuple[Any, str]:
    call: Any = error
    return call.code(), call.details()
