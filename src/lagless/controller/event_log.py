"""The event log: record what the machine is given, and give it to the machine again.

The machine has no clock and no randomness, so its events are enough to make every decision again.
The log holds, in order, the beginning of each controller with its policy, the events, and the
decisions that followed from them. A replay compares each decision of the log with the one that this
version makes. Old logs stay comparable: a reason is prose, whose wording may change, so only its
figures count; and where 0.1.0 wrote as Rscore the weight that moved, that is what is compared.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import isclose
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lagless.controller import machine
from lagless.controller.events import Event
from lagless.controller.state import Pack, Policy
from lagless.errors import WrongInput
from lagless.messages import AnyDecision, Assigned, Began, ControllerState, Message, Told

_EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
_NUMBERS = tuple(f.name for f in fields(Policy) if f.name not in ("pack", "group"))
_FIGURES = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A decision of the log, and the one that the machine makes now."""

    logged: AnyDecision | None
    remade: AnyDecision | None

    @property
    def agrees(self) -> bool:
        """Return whether both are the same, whatever the wording of their reasons."""
        logged, remade = self.logged, self.remade
        if logged is None or remade is None:
            return False
        if isinstance(logged, Assigned) and isinstance(remade, Assigned):
            remade = _in_terms_of(logged, remade)
        if _FIGURES.findall(logged.reason) != _FIGURES.findall(remade.reason):
            return False
        return logged.model_copy(update={"reason": remade.reason}) == remade


def _in_terms_of(logged: Assigned, remade: Assigned) -> Assigned:
    """Return the new assignment as a log of 0.1.0 would have it, if the logged one is of 0.1.0."""
    old, new = logged.details, remade.details
    if old.weight_moved is not None or new.weight_moved is None:
        return remade
    if old.rscore is None or new.rscore is None:
        return remade
    if not isclose(old.rscore, new.weight_moved, rel_tol=1e-9, abs_tol=1e-9):
        return remade
    figures = f"Rscore {new.rscore:.2f}", f"Rscore {old.rscore:.2f}"
    details = new.model_copy(update={"rscore": old.rscore, "weight_moved": None})
    return remade.model_copy(update={"details": details, "reason": remade.reason.replace(*figures)})


def began(policy: Policy, algorithm: str, persisted: ControllerState | None, at: float) -> Began:
    """Record that a controller begins to lead."""
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
    """Give the machine the events of a log again, and compare each decision with the log's.

    A controller's decisions stand in the log after the events that they follow from.
    """
    state, policy = None, None
    remade: list[AnyDecision] = []
    for message in log:
        if isinstance(message, Began):
            yield from (Comparison(None, decision) for decision in remade)
            remade = []
            state = machine.begin(message.persisted, message.at)
            policy = _policy(message, pack_by, group)
        elif isinstance(message, Told) and state is not None and policy is not None:
            for event in message.events:
                state, out = machine.step(state, _event(event, message.at), policy)
                remade += [decision for decision in out if isinstance(decision, AnyDecision)]
        elif isinstance(message, AnyDecision) and state is not None:
            yield Comparison(message, remade.pop(0) if remade else None)


def _policy(began: Began, pack_by: Callable[[str], Pack], group: str) -> Policy:
    numbers: dict[str, Any] = {
        name: int(x) if name.endswith("_consumers") else x
        for name, x in began.policy.items()
        if name in _NUMBERS
    }
    try:
        return Policy(group=group, pack=pack_by(began.algorithm), **numbers)
    except TypeError as error:
        raise WrongInput(
            f"the event log cannot be replayed: the policy recorded at {began.at:.3f} is not one "
            f"of lagless ({error})"
        ) from error


def _event(document: dict[str, Any], at: float) -> Event:
    try:
        return _EVENTS.validate_python(document)
    except ValidationError as error:
        raise WrongInput(
            f"the event log cannot be replayed: of the events recorded at {at:.3f} one is not "
            f"known: {error.errors()[0]['msg']}"
        ) from error
