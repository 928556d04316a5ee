"""Pause, drain and resume: commands to the controller, and what has become of them."""

import getpass
import socket
import time
import uuid
from contextlib import closing

from lagless import extras, messages
from lagless.errors import GiveUp, TryAgain
from lagless.messages import Mode, Operation, OperationKind
from lagless.operations import status
from lagless.settings import Settings

with extras.needed("kafka"):
    from lagless.adapters.kafka import contact, mail
    from lagless.adapters.kafka.offsets import Offsets

PATIENCE = 20.0
"""Seconds for a controller to take a command: longer than it takes another one to lead."""
LOOK = 1.0


def ask(settings: Settings, kind: OperationKind) -> Mode:
    """Send a command until the controller has persisted it, and return the mode that follows."""
    contact.reach(settings.kafka)
    until = _ends(settings) if kind == "drain" else {}
    if kind == "drain" and not until:
        raise GiveUp(f"group {settings.group} has no topic to drain: see the setting `topics`")
    operation = Operation(
        group=settings.group,
        operation=kind,
        id=uuid.uuid4().hex,
        who=f"{getpass.getuser()}@{socket.gethostname()}",
        until=until,
        at=time.time(),
    )
    return mail.operate(settings, operation, PATIENCE).mode


def wait(settings: Settings, seconds: float) -> Mode:
    """Wait until no consumer reads anything any more, and return the mode; TryAgain if too long."""
    ends = time.monotonic() + seconds
    while True:
        state, _ = status.known(settings)
        held = state.holders()
        if state.mode.name in ("running", "paused", "drained") and not held:
            return state.mode
        if time.monotonic() >= ends:
            raise TryAgain(
                f"group {settings.group} is {state.mode.name}, and {len(held)} partitions are "
                f"still read after {seconds:g} s; it goes on: see `lagless status`"
            )
        time.sleep(LOOK)


def _ends(settings: Settings) -> dict[str, dict[int, int]]:
    """Return where the logs of the group's topics end now."""
    with closing(Offsets(settings)) as offsets:
        bounds = offsets.bounds(offsets.partitions(settings.of_interest))
        return messages.nest({p: bound.end for p, bound in bounds.items()})
