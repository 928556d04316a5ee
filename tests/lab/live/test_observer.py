"""What is seen of a controller: Δt2, Δt3 and Δt4 from states and decisions."""

from dataclasses import replace
from typing import Any

import pytest

from lagless.controller import machine
from lagless.controller.state import Request, State
from lagless.lab.live.observer import Observer
from lagless.lab.live.response import once
from lagless.messages import AnyDecision
from lagless.model import Assignment, Phase, Speeds, TopicPartition
from tests import said as log


def said(decision: str, at: float, generation: int = 7, **details: Any) -> AnyDecision:
    if decision == "assignment":
        details.setdefault("assignment", {})
    return log.decision("g", decision, "because", at, "Reassign", generation, **details)


def state(phase: Phase, measured_at: float, waiting: int = 0) -> State:
    begun = machine.begin(None, 0.0)
    requests = {n: Request(0.0) for n in range(waiting)}
    return replace(begun, phase=phase, measured_at=measured_at, requests=requests)


MOVES = [["t", 0, 1, 2], ["t", 1, 1, 3]]


def test_a_reassignment_with_a_new_consumer() -> None:
    now = [100.3]
    observer = Observer(lambda: now[0])
    assignment = said("assignment", 100.0, consumers=3, migrations=MOVES)
    created = said("created", 100.0, consumers=[3])
    observer.saw(state(Phase.MANAGEMENT, 99.8, waiting=1), [assignment, created])
    assert not observer.is_done_with(99.8)
    now[0] = 103.0
    ready = said("timing", 103.0, consumer=3, dt3=3.0)
    observer.saw(state(Phase.MANAGEMENT, 99.8), [ready])
    now[0] = 104.0
    observer.saw(state(Phase.SENTINEL, 99.8), [said("timing", 104.0, dt4=3.9)])
    assert observer.is_done_with(99.8)
    assert not observer.is_done_with(99.9), "a later measurement was not taken in yet"
    (done,), (made,) = observer.take()
    assert done["dt2"] == pytest.approx(0.5), "measurement to the end of the turn"
    assert done["dt4"] == pytest.approx(1.0), "from when the last one was ready"
    assert done["whole"] == 3.9
    assert (done["created"], done["involved"], done["migrations"]) == (1, 3, 2)
    assert (made["consumer"], made["dt3"], made["together"]) == (3, 3.0, 1)
    assert observer.take() == ([], [])


def test_only_the_first_reassignment_after_a_measurement_has_dt2() -> None:
    observer = Observer(lambda: 100.5)
    for generation in (1, 2):
        assignment = said("assignment", 100.0, generation, consumers=1, migrations=MOVES)
        observer.saw(state(Phase.MANAGEMENT, 100.0), [assignment])
        settled = said("timing", 100.2, generation, dt4=0.2)
        observer.saw(state(Phase.SENTINEL, 100.0), [settled])
    done, _ = observer.take()
    assert [one["dt2"] for one in done] == [0.5, None]
    assert [one["dt4"] for one in done] == [pytest.approx(0.2)] * 2


def test_a_group_that_still_starts_someone_is_not_done() -> None:
    observer = Observer()
    observer.saw(state(Phase.SENTINEL, 5.0, waiting=1), [])
    assert not observer.is_done_with(5.0)
    observer.saw(state(Phase.SENTINEL, 5.0), [said("lost", 6.0)])
    assert observer.is_done_with(5.0)
    assert observer.lost == ["because"]


def test_a_measurement_is_packed_once() -> None:
    calls: list[Speeds] = []

    def pack(weights: Speeds, capacity: float, previous: Assignment) -> Assignment:
        calls.append(weights)
        return {partition: len(calls) for partition in weights}

    packed = once(pack)
    p, q = TopicPartition("t", 0), TopicPartition("t", 1)
    first = packed({p: 1.0}, 10.0, {})
    assert packed({p: 1.0}, 10.0, first) == first
    assert len(calls) == 1
    assert packed({p: 2.0}, 10.0, first) != first
    assert packed({p: 2.0, q: 1.0}, 10.0, {p: 2}).keys() == {p, q}, "a newcomer is placed"
    assert len(calls) == 3
