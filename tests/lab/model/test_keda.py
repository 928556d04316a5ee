"""KEDA's rule and Kafka's assignors, and what they cost in the latency model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.errors import WrongInput
from lagless.lab.model import keda, latency, streams


@pytest.mark.parametrize(
    ("lag", "current", "wanted"),
    [(0, 4, 1), (1, 1, 1), (100, 1, 1), (109, 1, 1), (120, 1, 2), (380, 4, 4), (1e9, 1, 8)],
)
def test_replicas_follow_lag(lag: float, current: int, wanted: int) -> None:
    assert keda.replicas(lag, 100, current, partitions=8) == wanted


def test_range_gives_runs() -> None:
    assert keda.range_assignment(7, 3).tolist() == [1, 1, 1, 2, 2, 3, 3]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.integers(1, 6))
def test_sticky_levels_counts_and_moves_no_more_than_that_takes(
    before: list[int], consumers: int
) -> None:
    previous = np.array(before, dtype=np.int64)
    consumers = min(consumers, len(before))
    current = keda.sticky_assignment(previous, consumers)
    counts = np.bincount(current, minlength=consumers + 1)[1:]
    assert current.min() >= 1
    assert len(counts) == consumers
    assert counts.max() - counts.min() <= 1
    # The fewest moves: each consumer keeps as many as the level counts allow.
    least, extra = divmod(len(before), consumers)
    had = np.bincount(previous, minlength=7)[1 : consumers + 1]
    kept = np.minimum(had, least).sum() + min(extra, int((had > least).sum()))
    assert int((current == previous).sum()) == kept


def test_a_group_that_keeps_up_stays_at_one() -> None:
    found = keda.run(keda.Keda("range"), latency.Model(133.0), np.full((20, 4), 10.0))
    assert found.latency.consumers == 1
    assert found.rebalances == 0
    assert found.latency.late.total == 0


def test_lag_makes_it_grow_and_the_cooldown_keeps_it_from_shrinking() -> None:
    speeds = np.full((30, 4), 10.0)
    speeds[2:5] = 100.0
    model = latency.Model(133.0)
    short = keda.run(keda.Keda("cooperative", cooldown=30), model, speeds)
    long = keda.run(keda.Keda("cooperative", cooldown=1e6), model, speeds)
    assert short.rebalances >= 2
    assert long.latency.consumers > short.latency.consumers
    assert long.latency.late.total > 0


def test_an_eager_rebalance_stops_every_partition() -> None:
    speeds = np.full((4, 3), 60.0)
    found = keda.run(keda.Keda("range", threshold=5), latency.Model(133.0), speeds)
    # 47 bytes/s too many for 30 s: 1410 bytes of lag, so three consumers, and all stop for 5 s.
    assert found.rebalances == 1
    rows = [np.ones(3, int), np.ones(3, int), np.array([2, 3, 4]), np.array([2, 3, 4])]
    paused = latency.run(latency.Model(133.0), speeds, rows)
    assert found.latency.late.total == pytest.approx(paused.late.total)


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"polling": -1}, {"cooldown": float("nan")}])
def test_a_wrong_scaler_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(WrongInput, match=next(iter(wrong))):
        keda.Keda("range", **wrong)


def test_polling_less_often_reacts_later() -> None:
    speeds = streams.speeds("full", 5, 16, 60, 100.0, np.random.default_rng(2))
    model = latency.Model(133.0)
    often = keda.run(keda.Keda("cooperative"), model, speeds)
    seldom = keda.run(keda.Keda("cooperative", polling=300), model, speeds)
    assert seldom.rebalances < often.rebalances
    assert seldom.latency.consumers < often.latency.consumers
