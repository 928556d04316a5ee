"""The messages between processes: JSON with a version, the group it belongs to, and its kind.

`read` is the one place that decides which message a text is. Every message names its kind in the
field `message`. Version 0.1.0 wrote no such field; its messages are told apart by fields that only
one kind has. (The field is not called `kind`: orders and receipts have a field of that name, and
0.1.0 takes whatever contains `"kind":` for a receipt.)

Unknown fields are ignored, so that a newer sender can speak to an older reader. Messages of other
groups are dropped before anything else is looked at.
"""

from typing import Any, TypeVar, get_args, overload

import pydantic_core
from pydantic import ValidationError

from lagless.decision_kinds import (
    AnyDecision,
    Assigned,
    AssignmentDetails,
    Created,
    CreatedDetails,
    Decision,
    Deleted,
    Details,
    Learned,
    LearnedDetails,
    Lost,
    Operated,
    OperatedDetails,
    PhaseChanged,
    PhaseDetails,
    Regrouped,
    Scaled,
    ScaledDetails,
    Timed,
    TimingDetails,
    Warned,
)
from lagless.errors import WrongInput
from lagless.message_kinds import (
    FARTHEST,
    Began,
    ConsumerState,
    ControllerState,
    Echo,
    Heartbeat,
    Held,
    Message,
    Mode,
    Operation,
    OperationKind,
    Order,
    OrderKind,
    PerPartition,
    Plan,
    Receipt,
    SeenGroup,
    SeenMember,
    Standing,
    Told,
    WriteSpeeds,
    birth,
    flatten,
    incarnation,
    nest,
    unnest,
)

__all__ = [
    "FARTHEST",
    "AnyDecision",
    "Assigned",
    "AssignmentDetails",
    "Began",
    "ConsumerState",
    "ControllerState",
    "Created",
    "CreatedDetails",
    "Decision",
    "Deleted",
    "Details",
    "Echo",
    "Heartbeat",
    "Held",
    "Learned",
    "LearnedDetails",
    "Lost",
    "Message",
    "Mode",
    "Operated",
    "OperatedDetails",
    "Operation",
    "OperationKind",
    "Order",
    "OrderKind",
    "PerPartition",
    "PhaseChanged",
    "PhaseDetails",
    "Plan",
    "Receipt",
    "Regrouped",
    "Scaled",
    "ScaledDetails",
    "SeenGroup",
    "SeenMember",
    "Standing",
    "Timed",
    "TimingDetails",
    "Told",
    "Warned",
    "WriteSpeeds",
    "birth",
    "flatten",
    "incarnation",
    "nest",
    "read",
    "unnest",
]

M = TypeVar("M", bound=Message)
SHOWN = 300
"""Characters of a sentence that quotes a message."""

_Mail = Order | Receipt | Heartbeat | Echo | Operation
_Others = WriteSpeeds | ConsumerState | ControllerState | Began | Told | Plan | SeenGroup
_KINDS: dict[str, type[Message]] = {
    kind.model_fields["message"].default: kind for kind in get_args(_Mail | _Others)
}
_DECISIONS: dict[str, type[AnyDecision]] = {
    kind.model_fields["decision"].default: kind for kind in get_args(AnyDecision)
}
_UNTAGGED: tuple[tuple[set[str], str], ...] = (
    ({"decision"}, "decision"),
    ({"record", "events"}, "told"),
    ({"record"}, "began"),
    ({"echo"}, "echo"),
    ({"speeds"}, "speeds"),
    ({"kind", "highest"}, "receipt"),
    ({"kind"}, "order"),
    ({"state"}, "heartbeat"),
    ({"team"}, "controller"),
    ({"held"}, "consumer"),
)
"""Fields by which a message of 0.1.0 is recognised; the first that match decide."""


@overload
def read(data: bytes | str, *, group: str | None = None) -> Message | None: ...
@overload
def read(data: bytes | str, kind: type[M], *, group: str | None = None) -> M | None: ...
def read(
    data: bytes | str, kind: type[Message] = Message, *, group: str | None = None
) -> Message | None:
    """Return the message that a text is, of whichever kind it says.

    None if it is not of `kind`, if it belongs to another group than `group`, or if only a newer
    version knows it. Raise WrongInput if it is a message of the group and does not fit.
    """
    try:
        document = pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise WrongInput(_plain(f"not JSON: {error}")) from error
    if not isinstance(document, dict):
        raise WrongInput("not a JSON object")
    if group is not None and isinstance(document.get("group"), str) and document["group"] != group:
        return None
    model = _model(document)
    if model is None or not issubclass(model, kind):
        return None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        sentence = f"not a valid {model.__name__}: {field}: {first['msg']}"
        raise WrongInput(_plain(sentence)) from error


def _plain(sentence: str) -> str:
    """Return what quotes a message in one line, and not too long, so that it can be logged."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence[:SHOWN])
    return shown + ("…" if len(sentence) > SHOWN else "")


def _model(document: dict[str, Any]) -> type[Message] | None:
    """Return the model of a document, or None if only a newer version knows it."""
    tag = document.get("message")
    if tag is None:
        tag = next((name for fields, name in _UNTAGGED if fields <= document.keys()), None)
        if tag is None:
            raise WrongInput("not a message: no field names its kind")
    if tag == "decision":
        return _DECISIONS.get(str(document.get("decision")))
    return _KINDS.get(str(tag))
