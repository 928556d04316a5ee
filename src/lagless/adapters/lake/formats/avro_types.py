"""Avro's schemas as trees of types, without what a table does not need. Pure.

`parse` reads a schema with the schemas that it refers to: every name is replaced by what it stands
for, so that a tree is whole. Documentation, aliases, defaults and properties that are not Avro's
are left out, and so are logical types that the lake has no type for: those values keep the type
that carries them. `text` writes a tree as a schema again.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})
LOGICAL = frozenset(
    {
        ("int", "date"),
        ("long", "timestamp-millis"),
        ("long", "timestamp-micros"),
        ("long", "local-timestamp-millis"),
        ("long", "local-timestamp-micros"),
    }
)
"""Logical types that the lake knows, besides decimals."""
DIGITS = 38
"""Digits that a decimal of Spark or Delta may have."""
LARGEST = 5000
"""Types in one schema, every name written out."""
DEEPEST = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Unusable(ValueError):
    """A schema that has no columns; the sentence goes on from "schema 7"."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type with everything in it."""

    kind: str
    """A primitive's name, record, enum, fixed, array, map or union."""
    name: str = ""
    """Of a record, an enum or a fixed, without its namespace."""
    inner: tuple["Type", ...] = ()
    """The types of a record's fields, of items, of values, or of a union's branches."""
    labels: tuple[str, ...] = ()
    """The names of a record's fields, or the symbols of an enum."""
    size: int = 0
    """Bytes of a fixed."""
    logical: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def fields(self) -> dict[str, "Type"]:
        """Return a record's fields by name."""
        return dict(zip(self.labels, self.inner, strict=True))

    @property
    def branches(self) -> tuple["Type", ...]:
        """Return the types that a value may have, but for null."""
        branches = self.inner if self.kind == "union" else (self,)
        return tuple(branch for branch in branches if branch.kind != "null")

    def __str__(self) -> str:
        if self.logical == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.kind == "union":
            return f"union of {', '.join(map(str, self.inner))}"
        return self.logical or " ".join(filter(None, (self.kind, self.name)))


NULL = Type("null")


def record(name: str, fields: Mapping[str, Type]) -> Type:
    """Return a record."""
    return Type("record", name, tuple(fields.values()), tuple(fields))


def parse(schema: str, references: tuple[str, ...] = ()) -> Type:
    """Return the type that a schema describes; Unusable if it is not one that a table can hold."""
    names: dict[str, tuple[Mapping[str, Any], str]] = {}
    for text in references:
        _collect(_json(text), "", names)
    whole = _json(schema)
    _collect(whole, "", names)
    return _Parser(names).type(whole, "", ())


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # A registry may keep a primitive type as a bare word.
        if text.strip() in PRIMITIVE:
            return text.strip()
        raise Unusable("is not an Avro schema: it is not JSON") from error


def _collect(
    node: Any, space: str, names: dict[str, tuple[Mapping[str, Any], str]], depth: int = 0
) -> None:
    """Take note of every definition, under its full name, with the namespace inside it."""
    if depth > 4 * DEEPEST:
        raise Unusable(f"is nested more than {DEEPEST} levels deep")
    if isinstance(node, list):
        for branch in node:
            _collect(branch, space, names, depth + 1)
    elif isinstance(node, Mapping):
        kind = node.get("type")
        if isinstance(kind, str) and kind in NAMED:
            full, space = _full(node, space)
            names.setdefault(full, (node, space))
        fields = node.get("fields")
        for inner in fields if isinstance(fields, list) else ():
            _collect(inner, space, names, depth + 1)
        for key in ("type", "items", "values"):
            _collect(node.get(key), space, names, depth + 1)


def _full(node: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Return the full name of a definition, and the namespace inside it."""
    name, given = node.get("name"), node.get("namespace", space)
    if not isinstance(name, str) or not isinstance(given, str):
        raise Unusable(f"is not an Avro schema: a {node.get('type')} has no name")
    if "." in name:
        return name, name.rpartition(".")[0]
    return (f"{given}.{name}" if given else name), given


@dataclass(slots=True)
class _Parser:
    names: Mapping[str, tuple[Mapping[str, Any], str]]
    count: int = 0

    def type(self, node: Any, space: str, inside: tuple[str, ...], depth: int = 0) -> Type:
        self.count += 1
        if self.count > LARGEST:
            raise Unusable(f"has more than {LARGEST} types with every name written out")
        if depth > DEEPEST:
            raise Unusable(f"is nested more than {DEEPEST} levels deep")
        if isinstance(node, list):
            return self._union([self.type(it, space, inside, depth + 1) for it in node])
        if isinstance(node, str):
            return Type(node) if node in PRIMITIVE else self._named(node, space, inside, depth)
        if not isinstance(node, Mapping):
            raise Unusable(f"is not an Avro schema: {json.dumps(node)[:80]} is not a type")
        kind = node.get("type")
        match kind:
            case "record" | "enum" | "fixed":
                return self._named(_full(node, space)[0], "", inside, depth)
            case "array" | "map":
                key = "items" if kind == "array" else "values"
                if key not in node:
                    raise Unusable(f"is not an Avro schema: a {kind} has no {key}")
                return Type(kind, inner=(self.type(node[key], space, inside, depth + 1),))
            case str() if kind in PRIMITIVE:
                return _logical(Type(kind), node)
            case None:
                raise Unusable("is not an Avro schema: a type is missing")
            case _:
                # {"type": {"type": …}}, or a name.
                return self.type(kind, space, inside, depth + 1)

    def _named(self, name: str, space: str, inside: tuple[str, ...], depth: int) -> Type:
        full = f"{space}.{name}" if space and "." not in name else name
        node, within = self.names.get(full) or self.names.get(name) or (None, "")
        if node is None:
            raise Unusable(f"names the type {name}, which it does not define")
        full, _ = _full(node, within)
        simple = _checked(full.rpartition(".")[2])
        if full in inside:
            raise Unusable(
                f"is recursive: the record {simple} contains itself, which no column can hold"
            )
        if node["type"] == "enum":
            symbols = node.get("symbols")
            if not isinstance(symbols, list) or not symbols:
                raise Unusable(f"is not an Avro schema: the enum {simple} has no symbols")
            return Type("enum", simple, labels=tuple(_checked(symbol) for symbol in symbols))
        if node["type"] == "fixed":
            size = node.get("size")
            if not isinstance(size, int) or size < 0:
                raise Unusable(f"is not an Avro schema: the fixed {simple} has no size")
            return _logical(Type("fixed", simple, size=size), node)
        fields: dict[str, Type] = {}
        listed = node.get("fields")
        for field in listed if isinstance(listed, list) else ():
            label = _checked(field.get("name") if isinstance(field, Mapping) else None)
            if label.lower() in map(str.lower, fields):
                raise Unusable(
                    f"has the field {label} twice in the record {simple}; "
                    "columns do not differ by upper and lower case"
                )
            fields[label] = self.type(field.get("type"), within, (*inside, full), depth + 1)
        return record(simple, fields)

    def _union(self, branches: list[Type]) -> Type:
        if not branches or any(branch.kind == "union" for branch in branches):
            raise Unusable("is not an Avro schema: a union is empty, or directly inside another")
        labels = [label(branch).lower() for branch in branches]
        twice = sorted({it for it in labels if labels.count(it) > 1})
        if twice:
            raise Unusable(f"has a union with two types named {', '.join(twice)}")
        return Type("union", inner=tuple(branches))


def label(branch: Type) -> str:
    """Return what a branch is called among the branches of a union."""
    return branch.name or branch.kind


def _checked(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Unusable(f"is not an Avro schema: {json.dumps(name)[:80]} is not a name")
    return name


def _logical(carrier: Type, node: Mapping[str, Any]) -> Type:
    """Return the type with its logical type, if that is one that the lake knows and is valid."""
    logical = node.get("logicalType")
    if isinstance(logical, str) and (carrier.kind, logical) in LOGICAL:
        return replace(carrier, logical=logical)
    if logical != "decimal" or carrier.kind not in ("bytes", "fixed"):
        return carrier
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return carrier
    if not 0 <= scale <= precision or not 0 < precision <= min(DIGITS, _digits(carrier)):
        return carrier
    return replace(carrier, logical="decimal", precision=precision, scale=scale)


def _digits(carrier: Type) -> int:
    """Return how many decimal digits always fit."""
    if carrier.kind == "bytes":
        return DIGITS
    return len(str(2 ** (8 * min(carrier.size, 64) - 1) - 1)) - 1 if carrier.size else 0


def text(kind: Type) -> str:
    """Return a type as a schema, in which every name is defined once."""
    return json.dumps(written(kind, "lagless"), separators=(",", ":"))


def written(kind: Type, space: str) -> Any:
    """Return a type as JSON, with a namespace of its own for each place in the tree."""
    match kind.kind:
        case "union":
            return [written(branch, space) for branch in kind.inner]
        case "array":
            return {"type": "array", "items": written(kind.inner[0], f"{space}.i")}
        case "map":
            return {"type": "map", "values": written(kind.inner[0], f"{space}.m")}
        case "record":
            return {
                "type": "record",
                "name": kind.name,
                "namespace": space,
                "fields": list(_fields(kind, space)),
            }
    node: dict[str, Any] = {"type": kind.kind}
    if kind.kind in NAMED:
        node |= {"name": kind.name, "namespace": space}
    if kind.kind == "enum":
        node["symbols"] = list(kind.labels)
    if kind.kind == "fixed":
        node["size"] = kind.size
    if kind.logical:
        node["logicalType"] = kind.logical
    if kind.logical == "decimal":
        node |= {"precision": kind.precision, "scale": kind.scale}
    return node if len(node) > 1 else kind.kind


def _fields(kind: Type, space: str) -> Iterator[dict[str, Any]]:
    for name, inner in kind.fields.items():
        field = {"name": name, "type": written(inner, f"{space}.r_{kind.name}.f_{name}")}
        if inner.kind == "union" and inner.inner[0] == NULL:
            # What a writer does not know is null.
            field["default"] = None
        yield field
