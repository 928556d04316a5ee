"""The machine step by step: events in, lists of instructions out."""

from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from docs import diagrams

from lagless import messages
from lagless.controller import event_log, machine
from lagless.controller.events import (
    Create,
    Delete,
    Event,
    Instruction,
    Listed,
    Mail,
    Measured,
    NotCreated,
    Persist,
    Provisioned,
    Tick,
)
from lagless.controller.state import State
from lagless.errors import GiveUp
from lagless.messages import ControllerState, Decision, Heartbeat, Held, Message, Order, WriteSpeeds
from lagless.model import Cause, Phase
from lagless.ports import Instance
from tests import policies
from tests.controller import guards, histories

POLICY = policies.policy(histories.pack, catch_up=0)


def measured(at: float, *speeds: float) -> Measured:
    numbers = {"t": dict(enumerate(speeds))}
    return Measured(at, WriteSpeeds(group="g", at=at, window=30, speeds=numbers))


def beat(
    at: float,
    consumer: int,
    held: tuple[Held, ...] = (),
    highest: int = 0,
    revision: int = 0,
    ready: bool = True,
    incarnation: str = "",
) -> Mail:
    message = Heartbeat(
        group="g",
        consumer=consumer,
        incarnation=incarnation or f"b{consumer}.1",
        highest=highest,
        revision=revision,
        state="ready" if ready else "starting",
        held=held,
        at=at,
    )
    return Mail(at, (message,))


def running(at: float, *consumers: int) -> Provisioned:
    return Provisioned(at, tuple(Instance(n, "running", 0, birth=f"b{n}") for n in consumers))


def tell(state: State, *events: Event) -> tuple[State, list[Instruction]]:
    given: list[Instruction] = []
    for event in events:
        state, more = machine.step(state, event, POLICY)
        given += more
    return state, given


def orders(given: list[Instruction]) -> list[tuple[str, int, int, tuple[int, ...]]]:
    return [
        (one.kind, one.consumer, one.generation, tuple(k for _, k in one.partitions))
        for one in given
        if isinstance(one, Order)
    ]


def group(*speeds: float) -> tuple[State, list[Instruction]]:
    """Return a controller that has just asked for its first consumers."""
    pairs = tuple(("t", i) for i in range(len(speeds)))
    return tell(machine.begin(None, 0), Listed(0, pairs), running(0), measured(0, *speeds))


def settled() -> State:
    """Return a group of two consumers that hold a partition each."""
    state, _ = group(80, 80)
    state, _ = tell(
        state,
        running(1, 1, 2),
        beat(2, 1),
        beat(2, 2),
        beat(3, 1, (("t", 0, 2),), 2, 1),
        beat(3, 2, (("t", 1, 2),), 2, 1),
    )
    assert state.phase is Phase.SENTINEL
    return state


def test_the_first_measurement_creates_all_consumers_at_once() -> None:
    state, given = group(80, 80, 80)
    assert state.phase is Phase.MANAGEMENT
    assert [one for one in given if isinstance(one, Create)] == [Create((1, 2, 3))]
    assert orders(given) == []
    kept = [one.state for one in given if isinstance(one, Persist)][-1]
    assert (kept.generation, kept.team) == (2, (1, 2, 3))


def test_what_keeps_a_consumer_from_starting_is_told_once() -> None:
    state, _ = group(60)
    waits = Instance(1, "starting", 0, "no node has room for the pod", "b1")
    state, given = tell(state, Provisioned(2, (waits,)), Provisioned(4, (waits,)))
    told = [one for one in given if isinstance(one, Decision) and one.decision == "warning"]
    assert [(one.consumer, one.reason) for one in told] == [
        (1, "consumer 1 does not start: no node has room for the pod")
    ]


def test_partitions_start_when_their_consumer_is_ready_and_not_before() -> None:
    state, _ = group(80, 80)
    state, given = tell(state, running(1, 1, 2), beat(2, 1, ready=False))
    assert orders(given) == []
    state, given = tell(state, beat(3, 1))
    assert orders(given) == [("start", 1, 2, (0,))]
    state, given = tell(state, beat(4, 2))
    assert orders(given) == [("start", 2, 2, (1,))]


def test_a_partition_moves_by_stop_receipt_start_receipt() -> None:
    state = settled()
    state, given = tell(
        state,
        measured(20, 60, 10),
        running(40, 1, 2),
        beat(40, 1),
        beat(40, 2),
        measured(40, 60, 10),
    )
    assert orders(given) == [("stop", 2, 3, (1,))]
    state, given = tell(state, beat(41, 2, (("t", 1, 2),), 2, 1))
    assert orders(given) == [], "an older word is no receipt"
    state, given = tell(state, beat(42, 2, (), 3, 2))
    assert orders(given) == [("start", 1, 3, (1,))]
    assert [one for one in given if isinstance(one, Delete)] == [Delete({2: "b2.1"})]
    assert state.ended.keys() == {"b2.1"}
    state, given = tell(state, beat(43, 1, (("t", 0, 2), ("t", 1, 3)), 3, 2))
    assert state.phase is Phase.SENTINEL


def test_an_order_without_receipt_is_sent_again_in_the_same_generation() -> None:
    state, _ = group(80)
    state, _ = tell(state, running(1, 1), beat(2, 1))
    state, given = tell(state, beat(5, 1), Tick(6.9))
    assert orders(given) == []
    state, given = tell(state, beat(7, 1), Tick(7))
    assert orders(given) == [("start", 1, 2, (0,))]


def test_a_silent_consumer_is_lost_and_deleted_and_replaced() -> None:
    state = settled()
    given: list[Instruction] = []
    for at in range(4, 30):
        state, more = tell(state, beat(at, 1, (("t", 0, 2),), 2, 1), running(at, 1, 2), Tick(at))
        given += more
    assert [
        one.reason for one in given if isinstance(one, Decision) and one.decision == "lost"
    ] == ["consumer 2 is lost: silent for 21 s"]
    assert Delete({2: "b2.1"}) in given
    assert Create((3,)) in given, "its number is taken until it is gone"


def test_a_process_that_is_gone_is_lost_at_once() -> None:
    _, given = tell(settled(), running(4, 1))
    assert "consumer 2 is lost: its instance is gone" in [
        one.reason for one in given if isinstance(one, Decision)
    ]
    assert Create((2,)) in given


def test_an_incarnation_that_is_over_is_told_to_end() -> None:
    state, _ = tell(settled(), running(4, 1))
    state, given = tell(state, beat(5, 2, (("t", 1, 2),), 2, 1))
    (order,) = [one for one in given if isinstance(one, Order)]
    assert (order.kind, order.consumer, order.incarnation) == ("retire", 2, "b2.1")
    assert 2 not in state.members


def test_who_is_over_and_knows_a_later_generation_is_told_to_end_under_a_later_one() -> None:
    state, _ = tell(settled(), running(4, 1))
    state, given = tell(state, beat(5, 2, (("t", 1, 900),), 900, 1))
    assert state.generation > 900
    retired = [one for one in given if isinstance(one, Order) and one.kind == "retire"]
    assert [one.generation for one in retired] == [state.generation]
    _, given = tell(state, beat(6, 2, (("t", 1, 900),), 900, 2))
    assert not [one for one in given if isinstance(one, Decision) and one.decision == "phase"]


def test_a_restart_asks_for_reports_and_moves_nothing_before_they_are_there() -> None:
    kept = ControllerState(
        group="g", generation=7, members={1: "b1.1", 2: "b2.1"}, team=(1, 2), at=0
    )
    state, given = tell(
        machine.begin(kept, 0),
        Listed(0, (("t", 0), ("t", 1), ("t", 2))),
        running(0, 1, 2),
        measured(0, 80, 10, 5),
    )
    assert orders(given) == [("report", 1, 8, ()), ("report", 2, 8, ())]
    state, given = tell(state, beat(1, 1, (("t", 0, 5),), 8, 4))
    assert state.phase is Phase.SYNCHRONIZE
    assert orders(given) == []
    state, given = tell(state, beat(1, 2, (("t", 1, 6),), 8, 4), Tick(1.5))
    assert state.phase is Phase.MANAGEMENT
    assert [kind for kind, *_ in orders(given)] == ["start"]


def test_a_restart_does_not_wait_for_who_is_still_starting() -> None:
    kept = ControllerState(
        group="g", generation=7, members={1: "b1.1", 2: "b2.1"}, team=(1, 2), at=0
    )
    state, _ = tell(
        machine.begin(kept, 5),
        Listed(5, (("t", 0), ("t", 1))),
        running(5, 1, 2),
        beat(6, 1, (("t", 0, 5),), 8, 4),
        beat(4, 2, ready=False),
    )
    assert state.phase is Phase.SYNCHRONIZE, "what was said before may have been overtaken"
    state, _ = tell(state, beat(7, 2, ready=False), Tick(7))
    assert state.phase is Phase.SENTINEL


def test_a_consumer_that_knows_more_is_believed() -> None:
    state, given = tell(settled(), beat(4, 1, (), 9, 2))
    assert state.phase is Phase.SYNCHRONIZE
    assert state.generation == 10
    assert {kind for kind, *_ in orders(given)} == {"report"}


def test_a_consumer_that_cannot_be_created_is_tried_later() -> None:
    state, _ = group(80)
    state, given = tell(state, NotCreated(1, {1: "no room"}))
    assert "consumer 1 could not be started: no room" in state.lost or any(
        isinstance(one, Decision) and "no room" in one.reason for one in given
    )
    assert state.no_creation_until > 1
    given = []
    for at in range(2, 8):
        state, more = tell(state, running(at), Tick(at))
        given += more
    assert Create((1,)) in given


def test_the_same_events_give_the_same_instructions() -> None:
    assert group(80, 30, 60) == group(80, 30, 60)


def test_a_cause_that_is_not_in_the_table_is_a_mistake_with_its_story() -> None:
    with pytest.raises(GiveUp, match="cannot leave Sentinel because 'everyone holds"):
        machine.move(settled(), Cause.SETTLED)


def test_every_transition_of_the_table_can_be_reached_from_synchronize() -> None:
    reached = {Phase.SYNCHRONIZE}
    for _ in Phase:
        reached |= {after for (phase, _), after in machine.TRANSITIONS.items() if phase in reached}
    assert reached == set(Phase)


def test_the_docs_draw_this_machine() -> None:
    assert "](img/phases.svg)" in Path("docs/controller.md").read_text()
    drawn = diagrams.PICTURES["phases"]().svg()
    for (phase, cause), after in machine.TRANSITIONS.items():
        assert (phase, after) in diagrams.ROUTES
        for words in (phase, cause, after):
            assert f">{escape(words.value)}<" in drawn


def test_the_docs_list_the_guards() -> None:
    text = Path("docs/controller.md").read_text()
    for guard in guards.GUARDS:
        assert guard.name in text


def test_a_record_makes_the_same_decisions_again() -> None:
    events: list[Event] = [
        Listed(0, (("t", 0), ("t", 1))),
        running(0),
        measured(0, 80, 80),
        running(1, 1, 2),
        beat(2, 1),
        beat(2, 2),
        beat(3, 1, (("t", 0, 2),), 2, 1),
    ]
    state = machine.begin(None, 0)
    log: list[Message] = [event_log.began(POLICY, "x", None, 0)]
    for event in events:
        state, given = machine.step(state, event, POLICY)
        log.append(event_log.told("g", [event]))
        log += [one for one in given if isinstance(one, Decision)]
    decoded = [one for message in log if (one := messages.read(message.encode()))]
    found = list(event_log.replay(decoded, lambda _: histories.pack, "g"))
    assert len(found) > 3
    assert all(one.agrees for one in found)
    changed = replace(found[0], remade=None)
    assert not changed.agrees
