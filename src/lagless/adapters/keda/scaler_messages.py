"""The messages of KEDA's external scalers, as its documentation describes them.

    IsActive(ScaledObjectRef) → IsActiveResponse
    StreamIsActive(ScaledObjectRef) → stream of IsActiveResponse
    GetMetricSpec(ScaledObjectRef) → GetMetricSpecResponse
    GetMetrics(GetMetricsRequest) → GetMetricsResponse

They are few, so they are described here instead of in code that a compiler generates.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "externalscaler"
SERVICE = f"{PACKAGE}.ExternalScaler"
_Field = descriptor_pb2.FieldDescriptorProto
_PLAIN = {
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
    "int64": _Field.TYPE_INT64,
    "double": _Field.TYPE_DOUBLE,
}
_MESSAGES: dict[str, tuple[tuple[str, str], ...]] = {
    "MetadataEntry": (("key", "string"), ("value", "string")),
    "ScaledObjectRef": (
        ("name", "string"),
        ("namespace", "string"),
        ("scalerMetadata", "*MetadataEntry"),
    ),
    "IsActiveResponse": (("result", "bool"),),
    "MetricSpec": (
        ("metricName", "string"),
        ("targetSize", "int64"),
        ("targetSizeFloat", "double"),
    ),
    "GetMetricSpecResponse": (("metricSpecs", "*MetricSpec"),),
    "GetMetricsRequest": (("scaledObjectRef", "ScaledObjectRef"), ("metricName", "string")),
    "MetricValue": (
        ("metricName", "string"),
        ("metricValue", "int64"),
        ("metricValueFloat", "double"),
    ),
    "GetMetricsResponse": (("metricValues", "*MetricValue"),),
}
"""Fields with their types, numbered from 1; "*" repeats. A map is a repeated pair on the wire."""


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="lagless/externalscaler.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            plain = kind.lstrip("*")
            added = message.field.add(name=field, number=number)
            added.label = _Field.LABEL_REPEATED if kind[0] == "*" else _Field.LABEL_OPTIONAL
            if plain in _PLAIN:
                added.type = _PLAIN[plain]
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{plain}"
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


ScaledObjectRef = _class("ScaledObjectRef")
IsActiveResponse = _class("IsActiveResponse")
MetricSpec = _class("MetricSpec")
GetMetricSpecResponse = _class("GetMetricSpecResponse")
GetMetricsRequest = _class("GetMetricsRequest")
MetricValue = _class("MetricValue")
GetMetricsResponse = _class("GetMetricsResponse")


def metadata(reference: Any) -> dict[str, str]:
    """Return the trigger's metadata of a ScaledObject."""
    return {entry.key: entry.value for entry in reference.scalerMetadata}
