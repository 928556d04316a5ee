"""Replays: scores against mappings and plain Python, and the order rule."""

import numpy as np
import pytest

import lagless
from lagless.errors import WrongInput
from lagless.lab.model import replay, streams
from lagless.packing import scores

SPEEDS = streams.speeds("random", 10, 24, 30, 100.0, np.random.default_rng(5))


@pytest.mark.parametrize("name", ["nf", "bfd", "mwf", "mbfp", "kd_7", "ezzeddine"])
def test_a_replay_is_pack_called_again_and_again(name: str) -> None:
    found = replay.run(name, SPEEDS, 100.0, "fixed", seed=0)
    previous: dict[int, int] = {}
    for k, row in enumerate(SPEEDS.tolist()):
        speeds = dict(enumerate(row))
        current = lagless.pack(speeds, 100.0, previous, name)
        assert found.consumers[k] == len(set(current.values()))
        assert found.migrations[k] == len(scores.migrations(previous, current))
        assert found.rscore[k] == pytest.approx(lagless.rscore(speeds, 100.0, previous, current))
        previous = current


def test_the_first_measurement_moves_nothing() -> None:
    found = replay.run("nf", SPEEDS, 100.0, "shuffled", seed=0)
    assert (found.rscore[0], found.migrations[0]) == (0.0, 0)
    assert found.rscore[1:].min() > 0


def first_fit(speeds: list[float], order: list[int], previous: list[int]) -> list[int]:
    loads: dict[int, float] = {}
    current = [0] * len(speeds)
    for j in order:
        fitting = [c for c in sorted(loads) if loads[c] + speeds[j] <= 100.0]
        unused = previous[j] if previous[j] and previous[j] not in loads else 0
        lowest = next(c for c in range(1, len(speeds) + 2) if c not in loads)
        c = fitting[0] if fitting else unused or lowest
        loads[c] = loads.get(c, 0.0) + speeds[j]
        current[j] = c
    return current


def test_online_algorithms_are_shuffled_again_at_each_iteration() -> None:
    rng = np.random.default_rng(9)
    previous = [0] * SPEEDS.shape[1]
    for k, current in enumerate(replay.assignments("ff", SPEEDS, 100.0, "shuffled", seed=9)):
        order = rng.permutation(SPEEDS.shape[1]).tolist()
        previous = first_fit(SPEEDS[k].tolist(), order, previous)
        assert current.tolist() == previous


@pytest.mark.parametrize("name", [name for name in lagless.algorithms() if name != "exact"])
def test_only_the_online_algorithms_are_shuffled(name: str) -> None:
    fixed = replay.run(name, SPEEDS, 100.0, "fixed", seed=1)
    shuffled = replay.run(name, SPEEDS, 100.0, "shuffled", seed=1)
    assert np.array_equal(fixed.rscore, shuffled.rscore) == (name not in ("nf", "ff", "bf", "wf"))


def test_the_seed_decides_the_orders() -> None:
    one, again, other = (replay.run("nf", SPEEDS, 100.0, "shuffled", seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.rscore, again.rscore)
    assert not np.array_equal(one.rscore, other.rscore)


def test_wrong_input_is_named() -> None:
    with pytest.raises(WrongInput, match="capacity"):
        replay.run("nf", SPEEDS, 0.0, "fixed", seed=0)
    with pytest.raises(WrongInput, match='order "sorted"'):
        replay.run("nf", SPEEDS, 1.0, "sorted", seed=0)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(WrongInput, match="unknown algorithm 'nn'"):
        replay.run("nn", SPEEDS, 1.0, "fixed", seed=0)
