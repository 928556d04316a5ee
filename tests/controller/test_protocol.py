"""The consumer's end of the protocol, rule by rule."""

from lagless.consumer import order_machine
from lagless.consumer.order_machine import State
from lagless.messages import ConsumerState, Order, OrderKind
from lagless.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def order(
    kind: OrderKind, generation: int, *partitions: TopicPartition, incarnation: str = "b.1"
) -> Order:
    return Order(
        group="g",
        kind=kind,
        consumer=3,
        incarnation=incarnation,
        generation=generation,
        partitions=tuple((p.topic, p.partition) for p in partitions),
        at=0,
    )


def fresh() -> State:
    return order_machine.begin("g", 3, "b.1")


def holding(generation: int, *partitions: TopicPartition) -> State:
    state = order_machine.receive(fresh(), [order("start", generation, *partitions)])
    return order_machine.settle(order_machine.claimed(state, partitions), 0)[0]


def test_a_partition_is_held_when_it_is_claimed_and_not_before() -> None:
    state = order_machine.receive(fresh(), [order("start", 5, A)])
    assert order_machine.to_claim(state) == {5: {A}}
    assert state.held == {}
    assert order_machine.settle(state, 0)[1] == (), "no receipt before the claim"
    state = order_machine.claimed(state, [A])
    state, (receipt,) = order_machine.settle(state, 1)
    assert receipt.partitions == (("t", 0),)
    assert receipt.held == (("t", 0, 5),)
    assert (receipt.generation, receipt.highest) == (5, 5)
    assert state.owed == ()


def test_orders_for_others_are_ignored() -> None:
    state = fresh()
    assert order_machine.receive(state, [order("start", 5, A, incarnation="b.0")]) == state
    assert order_machine.receive(state, [order("start", 5, A, incarnation="")]) == state
    stranger = order("start", 5, A).model_copy(update={"consumer": 4})
    other_group = order("start", 5, A).model_copy(update={"group": "h"})
    assert order_machine.receive(state, [stranger, other_group]) == state


def test_a_report_for_whoever_is_there_is_answered() -> None:
    state = order_machine.receive(holding(5, A), [order("report", 4, incarnation="")])
    _, (receipt,) = order_machine.settle(state, 0)
    assert receipt.kind == "report"
    assert (receipt.highest, receipt.held) == (5, (("t", 0, 5),))


def test_an_older_order_is_ignored() -> None:
    state = order_machine.receive(holding(5, A), [order("stop", 4, A), order("start", 4, B)])
    assert state.held == {A: 5}
    assert state.wanted == {}


def test_a_newer_order_drops_what_older_ones_wanted() -> None:
    state = order_machine.receive(fresh(), [order("start", 5, A), order("start", 6, B)])
    assert state.wanted == {B: 6}, "A may be another's by now"
    state = order_machine.claimed(state, [A, B])
    assert state.held == {B: 6}


def test_a_report_of_a_newer_generation_drops_what_older_orders_wanted() -> None:
    state = order_machine.receive(fresh(), [order("start", 5, A), order("report", 6)])
    assert (state.wanted, state.highest) == ({}, 6)


def test_the_same_order_twice_changes_nothing_and_is_answered_twice() -> None:
    once = holding(5, A)
    twice = order_machine.receive(once, [order("start", 5, A)])
    assert (twice.held, twice.wanted, twice.revision) == (once.held, {}, once.revision)
    assert len(order_machine.settle(twice, 0)[1]) == 1


def test_a_stop_lets_go_at_once() -> None:
    state, (receipt,) = order_machine.settle(
        order_machine.receive(holding(5, A, B), [order("stop", 6, A)]), 0
    )
    assert state.held == {B: 5}
    assert receipt.partitions == (("t", 0),)


def test_a_newer_start_of_what_is_held_claims_it_again() -> None:
    state = order_machine.receive(holding(5, A), [order("start", 6, A)])
    assert state.held == {A: 5}, "it is read meanwhile"
    assert order_machine.claimed(state, [A]).held == {A: 6}


def test_a_refused_claim_is_told_with_its_reason_and_raises_the_generation() -> None:
    state = order_machine.receive(fresh(), [order("start", 5, A)])
    state = order_machine.refused(state, {A: "owned under 9"}, owner=9)
    _, (receipt,) = order_machine.settle(state, 0)
    assert receipt.refused == (("t", 0, "owned under 9"),)
    assert receipt.highest == 9


def test_a_claim_found_lost_is_dropped() -> None:
    state = order_machine.lost(holding(5, A, B), [A], owner=7)
    assert (state.held, state.highest) == ({B: 5}, 7)


def test_retired_it_holds_nothing_and_ends() -> None:
    state, (receipt,) = order_machine.settle(
        order_machine.receive(holding(5, A), [order("retire", 5)]), 0
    )
    assert state.ending
    assert receipt.held == ()
    assert order_machine.receive(state, [order("start", 6, B)]).wanted == {}


def test_what_others_have_to_know_is_a_new_revision() -> None:
    state = fresh()
    revisions = [state.revision]
    state = order_machine.receive(state, [order("start", 5, A)])
    revisions.append(state.revision)
    state = order_machine.claimed(state, [A])
    revisions.append(state.revision)
    state = order_machine.receive(state, [order("report", 5)])
    revisions.append(state.revision)
    assert revisions == [0, 1, 2, 2]
    assert order_machine.persisted(state, 0).revision == 2
    assert order_machine.heartbeat(state, 0, ready=True).revision == 2


def test_a_new_incarnation_knows_the_generation_and_holds_nothing() -> None:
    recalled = ConsumerState(
        group="g", consumer=3, incarnation="b.0", highest=8, held=(("t", 0, 8),), at=0
    )
    state = order_machine.begin("g", 3, "b.1", recalled)
    assert (state.highest, state.held) == (8, {})
