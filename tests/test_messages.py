"""Which message a text is, and the history that decisions make."""

import json
from typing import get_args

import pytest

from lagless import messages
from lagless.errors import WrongInput
from lagless.history import History
from lagless.messages import AnyDecision, Heartbeat, Lost, Message, Order, Receipt, Timed, Warned
from lagless.model import Cause, Phase
from tests import said

TROUBLE = (
    'a record is not JSON: {"kind": "start", "echo": "x", "record": "told", "decision": "lost"}'
)
BEAT = Heartbeat(
    group="g", consumer=1, incarnation="i", highest=3, state="ready", trouble=TROUBLE, at=1
)
ORDER = Order(group="g", kind="start", consumer=1, incarnation="i", generation=3, at=1)


def untagged(message: Message) -> str:
    """Write a message as 0.1.0 did."""
    return message.model_dump_json(exclude={"message"})


def test_a_heartbeat_is_one_whatever_its_trouble_quotes() -> None:
    assert messages.read(BEAT.encode()) == BEAT
    assert messages.read(untagged(BEAT)) == BEAT


def test_version_0_1_0_takes_no_new_message_for_another() -> None:
    calm = BEAT.model_copy(update={"trouble": ""}).encode()
    assert b'"kind":' not in calm
    assert b'"echo":' not in calm
    assert b'"record"' not in calm
    began = messages.Told(group="g", events=[], at=1).encode()
    assert b'"record":"told"' in began[:400]


def test_orders_and_receipts_are_told_apart_without_a_tag() -> None:
    receipt = Receipt(**ORDER.model_dump(exclude={"message"}), highest=3)
    assert messages.read(untagged(ORDER)) == ORDER
    assert messages.read(untagged(receipt)) == receipt


def test_another_group_another_kind_and_a_newer_version_are_passed_over() -> None:
    assert messages.read(ORDER.encode(), group="h") is None
    assert messages.read(ORDER.encode(), Receipt) is None
    assert messages.read('{"version": 9, "group": "h"}', group="g") is None
    assert messages.read('{"group": "g", "message": "weather"}') is None
    assert messages.read('{"group": "g", "message": "decision", "decision": "slept"}') is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"group": "g"}', "no field names its kind"),
        ('{"group": "g", "state": "ready"}', "not a valid Heartbeat: consumer: Field required"),
        (ORDER.model_dump_json().replace('"version":1', '"version":2'), "version"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        messages.read(text, group="g")


def test_every_kind_of_decision_has_its_own_name() -> None:
    names = {kind.model_fields["decision"].default for kind in get_args(AnyDecision)}
    plain = {"phase", "assignment", "lost", "created", "deleted", "warning", "timing"}
    assert names == plain | {"operation", "members", "scale", "rate"}


def test_a_timing_writes_only_what_was_measured() -> None:
    ready = said.decision("g", "timing", "ready", 1, "Sentinel", 4, dt3=2.0)
    assert json.loads(ready.encode())["details"] == {"dt3": 2.0}


def test_a_history_keeps_phase_target_reassignments_and_times() -> None:
    history = History(
        [
            said.decision("g", "phase", "t:0 alone", 10, "Reassign", 1, cause=Cause.UNREAD),
            said.decision("g", "assignment", "2 on 1", 10, "Reassign", 2, assignment={"t": {0: 1}},
                          consumers=1, migrations=[["t", 1, 2, 1]], rscore=0.5),
            said.decision("g", "created", "1 is missing", 10, "Group Management", 2),
            said.decision("g", "timing", "ready", 13, "Group Management", 2, dt3=3.0),
            said.decision("g", "timing", "ready", 12, "Group Management", 2, dt3=2.0),
            said.decision("g", "timing", "receipt", 14, "Group Management", 2, dt4=1.0),
            said.decision("g", "phase", "calm", 14, "Sentinel", 2, cause=Cause.SETTLED),
            said.decision("g", "assignment", "again", 40, "Reassign", 3, assignment={"t": {0: 2}}),
            said.decision("g", "lost", "consumer 2", 41, "Sentinel", 3),
            said.decision("g", "deleted", "no work", 42, "Sentinel", 3, consumer=1),
        ]
    )  # fmt: skip
    first, second = history.timed([8.0, 9.5, 11.0])
    assert (first.reason, first.dt2, first.dt3, first.dt4) == ("t:0 alone", 0.5, 3.0, 1.0)
    assert (first.rscore, first.migrations, first.consumers) == (0.5, 1, 1)
    assert (second.reason, second.dt2) == (Cause.INTERVAL.value, None)
    assert list(history.target.values()) == [2]
    assert (history.phase, history.heard_at, history.deleted_at) == (Phase.SENTINEL, 42, {1: 42})
    assert (history.reassigned, history.migrated, history.lost) == (2, 1, 1)
    latest = history.latest(Lost, Warned)
    assert latest is not None
    assert latest.reason == "consumer 2"
    assert history.latest(Timed) is history.decisions[5]


def test_plans_and_what_was_seen_of_a_group_are_read_back() -> None:
    plan = messages.Plan(group="g", generation=3, at=1, members={"c-1": {"orders": (0, 2)}})
    assert messages.read(plan.encode()) == plan
    member = messages.SeenMember(consumer=1, name="c-1", held={"orders": (0, 2)})
    seen = messages.SeenGroup(group="g", at=1, members=(member,))
    assert messages.read(seen.encode(), messages.SeenGroup) == seen
    assert seen.members[0].lag_bytes is None
