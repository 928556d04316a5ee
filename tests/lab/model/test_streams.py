"""Streams: starts, steps, the clamp and the seed."""

import numpy as np
import pytest

from lagless.errors import WrongInput
from lagless.lab.model import streams


def draw(
    start: streams.Start, delta: float, clamp: streams.Clamp = "capacity", seed: int = 1
) -> streams.Floats:
    return streams.speeds(start, delta, 50, 200, 80.0, np.random.default_rng(seed), clamp)


@pytest.mark.parametrize(("start", "value"), [("zero", 0.0), ("half", 40.0), ("full", 80.0)])
def test_a_start_gives_every_partition_its_value(start: streams.Start, value: float) -> None:
    assert (draw(start, 5)[0] == value).all()


def test_the_random_start_spreads_over_the_capacity() -> None:
    first = draw("random", 5)[0]
    assert 0 <= first.min() < 10
    assert 70 < first.max() <= 80
    assert len(set(first)) == 50


@pytest.mark.parametrize("delta", streams.DELTAS)
def test_a_step_is_at_most_delta_percent_of_the_capacity(delta: float) -> None:
    drawn = draw("random", delta)
    steps = np.abs(np.diff(drawn, axis=0))
    assert steps.max() <= delta / 100 * 80 * (1 + 1e-12)
    assert delta == 0 or steps.max() > delta / 100 * 80 * 0.99
    assert drawn.min() >= 0
    assert drawn.max() <= 80


def test_without_the_clamp_speeds_may_pass_the_capacity() -> None:
    drawn = draw("full", 25, clamp="none")
    assert drawn.max() > 80
    assert drawn.min() >= 0


def test_the_seed_decides() -> None:
    assert np.array_equal(draw("random", 5, seed=3), draw("random", 5, seed=3))
    assert not np.array_equal(draw("random", 5, seed=3), draw("random", 5, seed=4))


def test_partitions_are_named() -> None:
    stream = streams.generate("zero", 0, 3, 2, 1.0, np.random.default_rng(0))
    assert stream.partitions == ("p0", "p1", "p2")
    assert stream.measurements == 2


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"delta": -1}, "δ"),
        ({"delta": float("nan")}, "δ"),
        ({"capacity": 0}, "capacity"),
        ({"partitions": 0}, "at least one"),
        ({"measurements": 0}, "at least one"),
        ({"clamp": "both"}, 'clamp "both"'),
        ({"start": "late"}, 'start "late"'),
    ],
)
def test_wrong_input_is_named(changed: dict[str, object], named: str) -> None:
    right = {"start": "zero", "delta": 5, "partitions": 2, "measurements": 2, "capacity": 1.0}
    with pytest.raises(WrongInput, match=named):
        streams.speeds(**{**right, **changed}, rng=np.random.default_rng(0))  # type: ignore[arg-type]  # wrong on purpose
