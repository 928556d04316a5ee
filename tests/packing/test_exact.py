"""The exact solver against brute force, and the known worst cases against the optimum."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ortools")

from lagless import packing
from lagless.errors import WrongInput
from lagless.lab.model import replay, streams
from lagless.packing import exact, scores

CAPACITY = 10.0


def partitions_of(things: list[int]) -> Iterator[list[list[int]]]:
    """Yield every way to put things into groups."""
    if not things:
        yield []
        return
    first, *rest = things
    for groups in partitions_of(rest):
        for i in range(len(groups)):
            yield [*groups[:i], [first, *groups[i]], *groups[i + 1 :]]
        yield [[first], *groups]


def stays(speeds: list[float], previous: list[int], groups: list[list[int]]) -> float:
    """Return the most speed that stays if each group may take any consumer's number."""
    homes = sorted({p for p in previous if p > 0})

    def best(at: int, free: frozenset[int]) -> float:
        if at == len(groups):
            return 0.0
        own = {h: sum(speeds[j] for j in groups[at] if previous[j] == h) for h in free}
        options = [best(at + 1, free)]
        options += [rate + best(at + 1, free - {h}) for h, rate in own.items() if rate]
        return max(options)

    return best(0, frozenset(homes))


def brute(speeds: list[float], previous: list[int], most: int | None) -> tuple[int, float]:
    """Return the consumers and the least moved speed, of the fewest consumers unless given."""
    had = sum(s for s, p in zip(speeds, previous, strict=True) if p > 0)
    found: list[tuple[int, float]] = []
    for groups in partitions_of(list(range(len(speeds)))):
        if all(len(g) == 1 or sum(speeds[j] for j in g) <= CAPACITY for g in groups):
            found.append((len(groups), had - stays(speeds, previous, groups)))
    fewest = min(count for count, _ in found)
    return fewest, min(moved for count, moved in found if count <= (most or fewest))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), min_size=1, max_size=7))
def test_small_cases_agree_with_brute_force(case: list[tuple[int, int]]) -> None:
    speeds, previous = [float(s) for s, _ in case], [p for _, p in case]
    found = exact.solve(np.array(speeds), CAPACITY, np.array(previous, np.int64))
    fewest, moved = brute(speeds, previous, None)
    assert (found.consumers, found.fewest) == (fewest, fewest)
    assert found.moved == pytest.approx(moved, abs=1e-6)
    assert found.proven
    assert found.least == pytest.approx(moved, abs=1e-6)
    more = exact.solve(np.array(speeds), CAPACITY, np.array(previous), consumers=fewest + 1)
    assert more.moved == pytest.approx(brute(speeds, previous, fewest + 1)[1], abs=1e-6)
    assert more.consumers <= fewest + 1


def test_too_few_consumers_are_refused_with_the_number_that_is_needed() -> None:
    with pytest.raises(WrongInput, match="need 2 or more"):
        packing.pack({"a": 6.0, "b": 6.0}, CAPACITY, None, "exact", consumers=1)


@pytest.mark.parametrize(("name", "value"), [("seconds", 0.0), ("consumers", -1)])
def test_a_parameter_that_cannot_be_is_named(name: str, value: float) -> None:
    with pytest.raises(WrongInput, match=name):
        packing.pack({"a": 6.0}, CAPACITY, None, "exact", **{name: value})


def test_thirds_fill_a_consumer() -> None:
    """Rounding the speeds up would need a second consumer."""
    found = packing.packing({"a": 1.0, "b": 1.0, "c": 1.0}, 3.0, None, "exact")
    assert found.consumers == 1


def test_it_uses_fewer_consumers_than_best_fit_decreasing_where_that_fails() -> None:
    speeds = dict(enumerate([4.0, 4.0, 3.0, 3.0, 3.0, 3.0]))
    previous = dict.fromkeys(range(6), 1)
    assert packing.packing(speeds, CAPACITY, previous, "bfd").consumers == 3
    assert packing.packing(speeds, CAPACITY, previous, "exact").consumers == 2


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 10) | st.sampled_from([2, 3, 4, 5]), min_size=1, max_size=16))
def test_known_worst_cases_hold(sizes: list[int]) -> None:
    """Johnson and others: FFD and BFD ≤ 11/9·OPT + 6/9, FF and BF ≤ 1.7·OPT, all others ≤ 2·OPT."""
    speeds = {j: float(size) for j, size in enumerate(sizes)}
    none = np.zeros(len(sizes), np.int64)
    best = exact.solve(np.array(sizes, float), CAPACITY, none)
    assert best.consumers == best.fewest
    bounds = {
        "ffd": 11 / 9 * best.fewest + 6 / 9,
        "bfd": 11 / 9 * best.fewest + 6 / 9,
        "ff": 1.7 * best.fewest,
        "bf": 1.7 * best.fewest,
        "nf": 2.0 * best.fewest,
        "nfd": 2.0 * best.fewest,
        "wf": 2.0 * best.fewest,
        "wfd": 2.0 * best.fewest,
    }
    for name, most in bounds.items():
        assert best.fewest <= packing.packing(speeds, CAPACITY, None, name).consumers <= most + 1e-9


@pytest.mark.parametrize("times", [1, 4])
def test_the_known_worst_lists_reach_the_ratios(times: int) -> None:
    """Johnson's lists: 11/9 of the optimum under FFD and BFD, and nearly 2 under NF."""
    decreasing = {51.0: 6, 27.0: 6, 26.0: 6, 23.0: 12}
    sizes = [size for size, count in decreasing.items() for _ in range(times * count)]
    packed = dict(enumerate(sizes))
    # 51 + 26 + 23 in six consumers, and 27 + 27 + 23 + 23 in three.
    for name in ("ffd", "bfd"):
        assert packing.packing(packed, 100.0, None, name).consumers == 11 * times
    assert sum(sizes) == 9 * times * 100, "so nine are needed, and the lists above fill nine"

    pairs = {j: 0.5 if j % 2 else 50.0 for j in range(80 * times)}
    assert packing.packing(pairs, 100.0, None, "nf").consumers == 20 * times * 2
    assert packing.packing(pairs, 100.0, None, "ffd").consumers == 20 * times + 1


@pytest.mark.slow
@pytest.mark.parametrize("delta", [5.0, 25.0])
def test_sticky_is_within_a_tenth_of_the_optimum_on_24_partitions(delta: float) -> None:
    """Each on its own way through the stream, at Best Fit Decreasing's number of consumers."""
    speeds = streams.speeds("random", delta, 24, 30, 100.0, np.random.default_rng(41))
    ours = replay.run("sticky:slack=0", speeds, 100.0, "fixed", 1)
    previous = np.zeros(24, np.int64)
    moved = 0.0
    for measured, consumers in zip(speeds, ours.consumers, strict=True):
        found = exact.solve(measured, 100.0, previous, consumers=int(consumers), seconds=20.0)
        moved += scores.moved_rate(measured, previous, found.assignment) / 100.0
        previous = found.assignment
    assert math.fsum(ours.rscore) <= 1.1 * moved
