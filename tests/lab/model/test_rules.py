"""Streams under the controller's rules: what they cost, and that nobody is forgotten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless.errors import WrongInput
from lagless.lab import rehearsals
from lagless.lab.model import kinds, latency, rules
from lagless.lab.model.keda import Keda
from lagless.lab.model.streams import Floats
from lagless.model import TopicPartition
from lagless.settings import Settings, parse

SHAPE = kinds.Shape(partitions=12, hours=0.1, consumers=3.0)


def known(*words: str) -> Settings:
    return parse(
        {"group": "g", "topics": ["t"], "lake": {"path": "."}, "consumer": {"max_rate": 120}},
        overrides=words,
    )


def material(speeds: Floats, step: float = 5.0) -> rehearsals.Material:
    names = [TopicPartition("t", j) for j in range(speeds.shape[1])]
    return rehearsals.Material("made", names, speeds, step)


def test_a_steady_load_costs_its_consumers_and_nothing_else() -> None:
    stream = material(np.tile([60.0, 30.0, 30.0], (121, 1)))
    for way in ("lagless", "0.1.0", "clairvoyant"):
        outcome = rehearsals.follow(way, known(), stream)
        assert (outcome.late.total, outcome.moves, outcome.reassignments) == (0, 0, 0)
        assert outcome.consumer_seconds == 2 * 600
        assert outcome.bytes == 120 * 600


def test_what_exceeds_all_consumers_is_late() -> None:
    stream = material(np.full((121, 1), 150.0))
    outcome = rehearsals.follow("lagless", known(), stream)
    assert outcome.late.total == pytest.approx(outcome.bytes)
    assert outcome.backlog == pytest.approx(30 * 600)
    assert outcome.late.max == pytest.approx(30 * 600 / 120)
    assert outcome.delay(0.5) == pytest.approx(outcome.late.max / 2)


def test_a_step_is_late_only_to_those_who_do_not_know_it() -> None:
    speeds = np.full((121, 4), 20.0)
    speeds[60:] = 45.0
    blind = rehearsals.follow("lagless", known(), material(speeds))
    seeing = rehearsals.follow("clairvoyant", known(), material(speeds))
    assert seeing.late.total < blind.late.total
    assert blind.reassignments >= 1


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(sorted(kinds.KINDS)), st.integers(0, 1000))
def test_every_kind_is_read_in_every_way(kind: str, seed: int) -> None:
    (stream,) = rehearsals.drawn(known(), [kind], SHAPE, seed)
    for way in rehearsals.WAYS:
        outcome = rehearsals.follow(way, known(), stream)
        assert 0 <= outcome.late.total <= outcome.bytes * (1 + 1e-9)
        assert outcome.consumer_seconds >= outcome.seconds
        assert outcome.reassignments <= outcome.moves
        again = rehearsals.follow(way, known(), stream)
        assert rehearsals.figures(again) == rehearsals.figures(outcome)


@pytest.mark.parametrize("kind", sorted(kinds.KINDS))
def test_a_seed_draws_a_stream_of_its_own(kind: str) -> None:
    (speeds, step), (same, _), (other, _) = (kinds.draw(kind, SHAPE, seed) for seed in (7, 7, 8))
    assert np.array_equal(speeds, same)
    assert not np.array_equal(speeds, other)
    assert speeds.shape == (360 / step, 12)
    assert (speeds >= 0).all()
    assert (speeds <= 1).all()


def test_keda_changes_its_size_at_its_own_pace() -> None:
    group = rules.Scaled(Keda("cooperative"), 120.0, 4, 1)
    model = latency.Model(120.0, 5.0, 5.0)
    outcome = rules.follow(group, model, np.full((121, 4), 100.0))
    assert outcome.moves > 0
    assert outcome.reassignments <= outcome.seconds / 30


def test_each_target_is_followed_and_what_is_set_by_hand_stays() -> None:
    (stream,) = rehearsals.drawn(known(), ["steps"], SHAPE, 1)
    rows = rehearsals.targets(known("controller.delay=7", "controller.slack=0.3"), stream)
    assert [row["delay"] for row in rows] == [2, 5, 7, 10, 20, 60, 300]
    assert [row["chosen"] for row in rows] == [False, False, True, False, False, False, False]
    other = rehearsals.with_delay(known("controller.slack=0.3"), 60).controller
    assert (other.slack, other.catch_up, other.shrink_after) == (0.3, 180, 10)


def test_wrong_streams_are_named() -> None:
    with pytest.raises(WrongInput, match="two measurements"):
        rehearsals.follow("lagless", known(), material(np.ones((1, 2))))
    with pytest.raises(WrongInput, match="larger --step"):
        rehearsals.follow("lagless", known(), material(np.ones((9, 2)), 2.0))
    with pytest.raises(WrongInput, match='unknown kind "waves"'):
        kinds.draw("waves", SHAPE, 0)
