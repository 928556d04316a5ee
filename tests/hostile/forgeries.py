"""Messages, and what someone with write rights could put in their place."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from lagless import messages
from lagless.messages import Message
from tests import said
from tests.dashboard import plays

HTML = "<img src=x onerror=alert(1)>"
AT = 1_000_000.0
_STANDING = {"group": plays.GROUP, "consumer": 1, "incarnation": "b1.1", "highest": 3, "at": AT}


def genuine() -> Iterator[Message]:
    """Yield a message of every kind, with every field set."""
    group, at = plays.GROUP, AT
    state = messages.ControllerState(
        group=group,
        generation=3,
        members={1: "b1.1"},
        team=(1, 2),
        ended={"b9.9": 9},
        target={"orders": {0: 1}},
        at=at,
    )
    yield messages.WriteSpeeds(
        group=group,
        at=at,
        window=30,
        speeds={"orders": {0: 1e6, 1: 2e6}},
        stale=(("orders", 1),),
        bytes_per_offset={"orders": {0: 100.0}},
        errors={"orders": {0: 1.0}},
    )
    held = (("orders", 0, 3),)
    yield messages.Heartbeat(
        **_STANDING,
        state="ready",
        revision=2,
        held=held,
        backlog={"orders": {0: 5.0}},
        positions={"orders": {0: 7}},
        trouble="none",
    )
    yield messages.Receipt(
        **_STANDING,
        kind="start",
        generation=3,
        held=held,
        partitions=(("orders", 0),),
        refused=(("orders", 1, "why"),),
    )
    yield messages.Order(
        group=group,
        kind="start",
        consumer=1,
        incarnation="b1.1",
        generation=3,
        partitions=(("orders", 0),),
        at=at,
    )
    yield messages.ConsumerState(**_STANDING, held=held)
    yield state
    yield messages.Echo(group=group, echo="me", at=at)
    until = {"orders": {0: 7}}
    yield messages.Operation(group=group, operation="drain", id="x", who="ann", until=until, at=at)
    yield messages.Began(
        group=group, algorithm="mwf", policy={"capacity": 1.0}, persisted=state, at=at
    )
    yield messages.Told(group=group, events=[{"at": at, "kind": "tick"}], at=at)
    yield messages.Plan(group=group, generation=3, at=at, members={"c-1": {"orders": (0, 1)}})
    member = messages.SeenMember(consumer=1, name="c-1", held={"orders": (0,)}, lag_bytes=1.0)
    yield messages.SeenGroup(group=group, at=at, members=(member,), rate=1.0, wanted=1)
    details: dict[str, dict[str, Any]] = {
        "phase": {"cause": "the interval is up"},
        "assignment": {
            "assignment": {"orders": {0: 1}},
            "migrations": [["orders", 0, 2, 1]],
            "rscore": 0.5,
            "load": {1: 5.0},
        },
        "created": {"consumers": [1]},
        "timing": {"dt3": 2.0, "dt4": 1.0},
        "operation": {"operation": "pause", "state": "paused", "who": "ann", "asked_at": at},
    }
    for kind in ("phase", "assignment", "lost", "created", "deleted", "warning", "timing"):
        yield said.decision(group, kind, "why", at, "Sentinel", 3, **details.get(kind, {}))
    yield said.decision(group, "operation", "why", at, "Sentinel", 3, **details["operation"])


GENUINE = tuple(genuine())
DOCUMENTS: tuple[dict[str, Any], ...] = tuple(json.loads(m.encode()) for m in GENUINE)

HOSTILE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            float("nan"),
            float("inf"),
            float("-inf"),
            1e308,
            -1.0,
            -1,
            0,
            2**31,
            2**62,
            2**63,
            10**400,
            True,
            None,
            "",
            HTML,
            "\x1b[2J\n\x00",
            "9" * 5000,
            "NaN",
            [],
            {},
            [[[[]]]],
            {HTML: {"0": 1e18}},
            {"orders": {"-1": 1}},
            {"orders": {str(2**40): 1}},
        ]
    ),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=5), st.dictionaries(st.text(max_size=3), st.floats())),
)


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a document."""
    inner: Any = ()
    if isinstance(document, dict):
        inner = document.items()
    elif isinstance(document, list):
        inner = enumerate(document)
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def forged(draw: st.DrawFn, document: Any = None) -> Any:
    """Draw a document of which one to three values were replaced or taken out."""
    chosen = deepcopy(document or draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        paths = list(places(chosen))
        if not paths:
            break
        *way, last = draw(st.sampled_from(paths))
        inner = chosen
        for key in way:
            inner = inner[key]
        if isinstance(inner, dict) and draw(st.integers(0, 4)) == 0:
            del inner[last]
        else:
            inner[last] = deepcopy(draw(HOSTILE))  # it may be changed further
    return chosen


def text(document: Any) -> bytes:
    """Write a document as a hostile sender would: with NaN and whatever else."""
    return json.dumps(document, allow_nan=True).encode("utf-8", "surrogatepass")


FORGED = st.one_of(
    forged().map(text), st.binary(max_size=200), st.text(max_size=200).map(str.encode)
)


@st.composite
def believable(draw: st.DrawFn) -> Message:
    """Draw a forged message that passes for one of the group."""
    kind = draw(st.sampled_from(GENUINE))
    fields = kind.model_dump()
    extreme: dict[str, Any] = {
        "at": st.sampled_from([0.0, AT, AT + 1e6, -(2.0**35), 2.0**36]),
        "consumer": st.sampled_from([1, 2, 3, 31, 2**31 - 1]),
        "incarnation": st.sampled_from(["", "b1.1", "b2.1", "b9.9", HTML, "."]),
        "generation": st.sampled_from([0, 3, 4, 2**40, 2**62]),
        "highest": st.sampled_from([0, 3, 4, 2**40 + 3]),
        "revision": st.sampled_from([0, 2, 2**62]),
        "kind": st.sampled_from(["start", "stop", "report", "retire"]),
        "state": st.sampled_from(["starting", "ready", "ending"]),
        "waiting_for": st.sampled_from(["", "spark", "kafka"]),
        "held": st.sampled_from(
            [(), (("orders", 0, 3),), (("orders", 1, 2**62), (HTML, 0, 0), ("orders", 0, 9))]
        ),
        "speeds": st.sampled_from(
            [{}, {"orders": {0: 1e18, 1: 0.0}}, {HTML: {2**31 - 1: 5.0}}, {"orders": {5: 1e-300}}]
        ),
        "backlog": st.sampled_from([{}, {"orders": {0: 1e18}}, {HTML: {9: 1.0}}]),
        "positions": st.sampled_from([{}, {"orders": {0: 2**62}}]),
        "until": st.sampled_from([{}, {HTML: {0: 2**62}}, {"orders": {0: 0, 1: 2**62}}]),
        "operation": st.sampled_from(["pause", "resume", "drain"]),
        "id": st.sampled_from(["", "a", "b", HTML]),
        "trouble": st.just(HTML),
        "reason": st.just(HTML),
        "lag_seconds": st.sampled_from([-1e12, 0.0, 1e12]),
        "cycle_age": st.sampled_from([-1e12, 0.0, 1e12]),
        "bytes_per_second": st.sampled_from([0.0, 1e18]),
    }
    changed = draw(st.lists(st.sampled_from(sorted(extreme.keys() & fields.keys())), unique=True))
    for name in changed:
        if name == "state" and "who" in fields:
            continue
        fields[name] = draw(extreme[name])
    return type(kind).model_validate(fields)
