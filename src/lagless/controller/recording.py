"""The record of what the machine was told, so that its decisions can be made again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from pydantic import TypeAdapter

from lagless.controller import machine
from lagless.controller.events import Event
from lagless.controller.facts import Pack, Policy
from lagless.messages import ControllerState, Decision, Message

_EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
_NUMBERS = tuple(f.name for f in fields(Policy) if f.name not in ("pack", "group"))


class Began(Message):
    """A controller began to lead, with this policy and what was persisted."""

    record: Literal["began"] = "began"
    algorithm: str
    policy: dict[str, float]
    persisted: ControllerState | None
    at: float


class Told(Message):
    """The machine was told events, in this order."""

    record: Literal["told"] = "told"
    events: list[dict[str, Any]]
    at: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A decision of the log, and whether the machine makes it again."""

    logged: Decision | None
    made: Decision | None

    @property
    def agrees(self) -> bool:
        """Say whether both are the same."""
        return self.logged == self.made


def began(policy: Policy, algorithm: str, persisted: ControllerState | None, at: float) -> Began:
    """Record the beginning."""
    numbers = {name: float(getattr(policy, name)) for name in _NUMBERS}
    return Began(
        group=policy.group, algorithm=algorithm, policy=numbers, persisted=persisted, at=at
    )


def told(group: str, events: Sequence[Event]) -> Told:
    """Record events."""
    dumped = [_EVENTS.dump_python(event, mode="json") for event in events]
    return Told(group=group, events=dumped, at=events[-1].at)


def replay(
    log: Iterable[Message], pack_by: Callable[[str], Pack], group: str
) -> Iterator[Comparison]:
    """Tell the machine again what it was told; give each decision beside the one in the log.

    A controller's decisions stand in the log after the events that they follow from.
    """
    state, policy = None, None
    made: list[Decision] = []
    for message in log:
        if isinstance(message, Began):
            yield from (Comparison(None, decision) for decision in made)
            made = []
            state = machine.begin(message.persisted, message.at)
            numbers: dict[str, Any] = {
                name: int(x) if name.endswith("_consumers") else x
                for name, x in message.policy.items()
                if name in _NUMBERS
            }
            policy = Policy(group=group, pack=pack_by(message.algorithm), **numbers)
        elif isinstance(message, Told) and state is not None and policy is not None:
            for event in message.events:
                state, given = machine.step(state, _EVENTS.validate_python(event), policy)
                made += [one for one in given if isinstance(one, Decision)]
        elif isinstance(message, Decision) and state is not None:
            again = made.pop(0) if made else None
            if again is not None:
                again = Decision.model_validate_json(again.encode())
            yield Comparison(message, again)
