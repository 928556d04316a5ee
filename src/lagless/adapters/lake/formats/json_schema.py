"""Columns from JSON Schemas: the fields of an object, and which of them must be there. Pure.

Only what decides a column's type is looked at. What has several types, or none, is kept as its JSON
text, as the format does with everything in a column of type STRING.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lagless.adapters.lake import schemas
from lagless.adapters.lake.formats.avro_types import Unusable

DEEPEST = 32
STEPS = 6
"""References and choices, one in the other, that are followed."""
TEXT = "STRING"
_SIMPLE: Mapping[str, schemas.Kind] = {
    "string": TEXT,
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
}


@dataclass(frozen=True, slots=True)
class Objects:
    """The part of a schema that describes objects."""

    fields: Mapping[str, schemas.Kind]
    required: tuple[str, ...] = ()


def parse(text: str) -> Objects:
    """Return the part of a schema that describes objects; Unusable if there is none."""
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unusable("is not a JSON Schema: it is not JSON") from error
    node = _plain(root, root, 0)
    properties = node.get("properties")
    if not isinstance(properties, Mapping) or node.get("type", "object") != "object":
        raise Unusable("does not describe an object with properties")
    required = node.get("required")
    names = [name for name in _listed(required) if isinstance(name, str)]
    return Objects(_fields(properties, root, 0), tuple(names))


def _fields(properties: Mapping[str, Any], root: Any, depth: int) -> dict[str, schemas.Kind]:
    return {name: _kind(node, root, depth + 1) for name, node in properties.items()}


def _kind(node: Any, root: Any, depth: int) -> schemas.Kind:
    if depth > DEEPEST:
        return TEXT
    plain = _plain(node, root, 0)
    kind = plain.get("type")
    if isinstance(kind, str) and kind in _SIMPLE:
        return _SIMPLE[kind]
    properties, items = plain.get("properties"), plain.get("items")
    if kind == "object" and isinstance(properties, Mapping) and properties:
        return _fields(properties, root, depth)
    if kind == "array" and isinstance(items, Mapping):
        return [_kind(items, root, depth + 1)]
    return TEXT


def _plain(node: Any, root: Any, steps: int) -> Mapping[str, Any]:
    """Return a schema without references and without the choice of null."""
    if not isinstance(node, Mapping) or steps > STEPS:
        return {}
    if isinstance(node.get("$ref"), str):
        return _plain(_at(root, node["$ref"]), root, steps + 1)
    for choice in ("oneOf", "anyOf"):
        branches = _listed(node.get(choice))
        if branches:
            rest = [it for it in branches if _plain(it, root, steps + 1).get("type") != "null"]
            return _plain(rest[0], root, steps + 1) if len(rest) == 1 else {}
    kinds = _listed(node.get("type"))
    if kinds:
        rest = [kind for kind in kinds if kind != "null"]
        return {**node, "type": rest[0] if len(rest) == 1 else None}
    return node


def _at(root: Any, pointer: str) -> Any:
    """Return the place in the same schema that a reference names; None where it is elsewhere."""
    if not pointer.startswith("#"):
        return None
    node = root
    for part in pointer.removeprefix("#").strip("/").split("/") if pointer != "#" else ():
        key = part.replace("~1", "/").replace("~0", "~")
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
