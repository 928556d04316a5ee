"""Forged messages that pass for the group's own: the roles go on, and claims stay bounded."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless import messages
from lagless.adapters import endpoints
from lagless.controller import events, machine
from lagless.controller import metrics as of_controller
from lagless.controller.state import Policy
from lagless.dashboard import markup, snapshot
from lagless.dashboard import metrics as of_page
from lagless.dashboard.observations import MemorySource
from lagless.dashboard.view import Feed
from lagless.errors import WrongInput
from lagless.history import History
from lagless.messages import AnyDecision, Heartbeat, Message, Operation, Receipt, WriteSpeeds
from lagless.wiring import controller as wiring
from tests.dashboard import plays
from tests.hostile import forgeries
from tests.hostile.forgeries import AT, HTML

OFTEN = settings(max_examples=60, deadline=None)
SETTINGS = plays.settings()
POLICY: Policy = wiring.policy(SETTINGS)


class Noon:
    """A clock that stands still."""

    def now(self) -> float:
        return AT + 5

    def sleep(self, seconds: float) -> None:
        pass


def event(at: float, message: Message) -> events.Event:
    if isinstance(message, Receipt | Heartbeat):
        return events.Mail(at, (message,))
    if isinstance(message, WriteSpeeds):
        return events.Measured(at, message)
    if isinstance(message, Operation):
        return events.Operated(at, message)
    return events.Tick(at)


@OFTEN
@given(st.lists(forgeries.believable(), max_size=25))
def test_a_controller_goes_on_and_what_it_writes_can_be_read(log: Sequence[Message]) -> None:
    state = machine.begin(None, AT)
    record = of_controller.Record(POLICY)
    registry = endpoints.registry(of_controller.METRICS, lambda: record, lambda: AT)
    listed = tuple(("orders", n) for n in range(4))
    for second, message in enumerate(log):
        at = AT + second
        happened: list[events.Event] = [
            event(at, message),
            events.Listed(at, listed),
            events.Provisioned(at, ()),
            events.Tick(at + 0.5),
        ]
        decisions: list[AnyDecision] = []
        for step in happened:
            state, out = machine.step(state, step, POLICY)
            for instruction in out:
                sent = instruction.state if isinstance(instruction, events.Persist) else instruction
                if isinstance(sent, Message):
                    assert messages.read(sent.encode(), group=POLICY.group) is not None
                if isinstance(instruction, AnyDecision):
                    decisions.append(instruction)
        record.saw(state, decisions)
    assert endpoints.exposed(registry)


@OFTEN
@given(st.lists(forgeries.believable(), max_size=25))
def test_the_dashboard_shows_something_and_escapes_what_it_shows(log: Sequence[Message]) -> None:
    feed = Feed(MemorySource(log), SETTINGS, Noon())
    shown = snapshot.document(feed.snapshot)
    assert shown["group"] == plays.GROUP
    for table in (markup.partitions, markup.consumers, markup.notices, markup.legend):
        assert HTML not in table(feed.snapshot)
    for timed in (markup.log, markup.speeds, markup.reassignments, markup.counts):
        assert HTML not in timed(feed.snapshot, 0)
    registry = endpoints.registry(of_page.METRICS, lambda: feed, lambda: AT)
    assert endpoints.exposed(registry)


@OFTEN
@given(st.lists(forgeries.believable(), max_size=25))
def test_a_history_takes_any_decision(log: Sequence[Message]) -> None:
    history = History(log)
    assert len(history.decisions) == sum(isinstance(message, AnyDecision) for message in log)
    assert len(history.timed([AT])) == len(history.reassignments)


def test_a_message_cannot_name_a_time_that_cannot_be_shown() -> None:
    for at in (float("inf"), float("nan"), 1e18):
        order = next(document for document in forgeries.DOCUMENTS if document["message"] == "order")
        with pytest.raises(WrongInput, match=r"not JSON|not a valid Order: at"):
            messages.read(forgeries.text({**order, "at": at}))
