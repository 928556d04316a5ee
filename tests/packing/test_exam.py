"""One exam for every registered algorithm, found through the registry.

The algorithms that `plain` defines have to answer as it does, partition by partition.
"""

import math
from collections.abc import Hashable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless import packing
from lagless.errors import WrongInput
from lagless.packing import inputs, plain

CAPACITY = 10.0
VARIANTS = ["nf:first=lowest", "nfd:first=lowest"]
SPECS = [
    "kd_<n>:n=3" if name == "kd_<n>" else name
    for name, entry in packing.REGISTRY.items()
    if find_spec(f"lagless.packing.{entry.function.partition(':')[0]}")
    and (entry.extra is None or find_spec("ortools"))
] + VARIANTS
ENTRY = {spec: packing.algorithm(spec)[0] for spec in SPECS}
PACKING = [spec for spec in SPECS if ENTRY[spec].family != "count"]
EXAMPLES = {spec: 15 if ENTRY[spec].extra else 60 for spec in SPECS}
TWINS = [*(spec for spec in SPECS if ENTRY[spec].name in plain.ALGORITHMS), "kd_1"]
KINDS = ["floats", "integers", "tenths", "equal", "zeros", "oversize", "close", "tiny"]

Name = TypeVar("Name", bound=Hashable)
Case = tuple[dict[int, float], dict[int, int]]


@st.composite
def cases(draw: st.DrawFn, whole: bool = False) -> Case:
    """Draw speeds and a previous assignment: with departures, arrivals, gaps and high numbers."""
    speed = st.integers(0, 12).map(float)
    if not whole:
        speed |= st.floats(0, 12, allow_subnormal=False)
    speeds = dict(enumerate(draw(st.lists(speed, max_size=12))))
    number = st.integers(1, 8) | st.integers(1, 2**40)
    return speeds, draw(st.dictionaries(st.integers(0, 15), number, max_size=16))


def loads(speeds: dict[int, float], assignment: dict[int, int]) -> dict[int, list[float]]:
    """Return the speeds of each consumer's partitions."""
    held: dict[int, list[float]] = {}
    for partition, consumer in assignment.items():
        held.setdefault(consumer, []).append(speeds[partition])
    return held


@pytest.mark.parametrize("spec", SPECS)
def test_every_partition_is_placed_once(spec: str) -> None:
    @settings(max_examples=EXAMPLES[spec], deadline=None)
    @given(cases())
    def exam(case: Case) -> None:
        speeds, previous = case
        found = packing.pack(speeds, CAPACITY, previous, spec)
        assert list(found) == list(speeds)
        assert all(type(consumer) is int and consumer >= 1 for consumer in found.values())

    exam()


@pytest.mark.parametrize("spec", PACKING)
def test_no_consumer_over_capacity_unless_it_has_one_partition(spec: str) -> None:
    @settings(max_examples=EXAMPLES[spec], deadline=None)
    @given(cases())
    def exam(case: Case) -> None:
        speeds, previous = case
        result = packing.packing(speeds, CAPACITY, previous, spec)
        for held in loads(speeds, result.assignment).values():
            # Sums in another order than that of placement may differ by their rounding.
            assert len(held) == 1 or math.fsum(held) <= CAPACITY * (1 + 1e-12)
            assert len(held) == 1 or max(held) <= CAPACITY
        assert result.oversize == tuple(p for p, speed in speeds.items() if speed > CAPACITY)
        assert result.consumers == len(set(result.assignment.values()))

    exam()


@pytest.mark.parametrize("spec", SPECS)
def test_the_answer_depends_on_nothing_but_speeds_and_previous(spec: str) -> None:
    @settings(max_examples=EXAMPLES[spec], deadline=None)
    @given(cases(), st.permutations(range(16)))
    def exam(case: Case, names: list[int]) -> None:
        speeds, previous = case
        found = packing.pack(speeds, CAPACITY, previous, spec)
        assert packing.pack(speeds, CAPACITY, previous, spec) == found
        renamed = packing.pack(
            {("topic", names[p]): speed for p, speed in speeds.items()},
            CAPACITY,
            {("topic", names[p]): consumer for p, consumer in previous.items()},
            spec,
        )
        assert list(renamed.values()) == list(found.values())
        there = {p: consumer for p, consumer in previous.items() if p in speeds}
        assert packing.pack(speeds, CAPACITY, there, spec) == found

    exam()


@pytest.mark.parametrize("spec", [s for s in SPECS if ENTRY[s].family == "any fit"])
def test_no_consumer_is_opened_for_what_fits_an_open_one(spec: str) -> None:
    @settings(max_examples=EXAMPLES[spec], deadline=None)
    @given(cases())
    def exam(case: Case) -> None:
        speeds, previous = case
        found = packing.pack(speeds, CAPACITY, previous, spec)
        order = (
            list(speeds) if ENTRY[spec].online else plain.decreasing(list(speeds.values()), speeds)
        )
        load: dict[int, float] = {}
        for partition in order:
            consumer, speed = found[partition], speeds[partition]
            if consumer not in load:
                assert all(held + speed > CAPACITY for held in load.values())
            load[consumer] = load.get(consumer, 0.0) + speed

    exam()


@pytest.mark.parametrize("spec", [s for s in SPECS if ENTRY[s].family == "modified"])
def test_the_same_speeds_again_need_no_more_consumers(spec: str) -> None:
    # Whole numbers, whose sums are the same in any order.
    @settings(max_examples=200, deadline=None)
    @given(cases(whole=True))
    def exam(case: Case) -> None:
        speeds, previous = case
        once = packing.packing(speeds, CAPACITY, previous, spec)
        again = packing.packing(speeds, CAPACITY, once.assignment, spec)
        assert again.consumers <= once.consumers

    exam()


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_one_and_only_zeros(spec: str) -> None:
    assert packing.pack({}, CAPACITY, {"gone": 3}, spec) == {}
    assert packing.packing({}, CAPACITY, None, spec) == packing.Packing({}, 0, (), 0.0, 0)
    assert packing.pack({"a": 4.0}, CAPACITY, None, spec) == {"a": 1}
    if ENTRY[spec].family != "count":
        assert packing.packing(dict.fromkeys("abcde", 0.0), CAPACITY, {}, spec).consumers == 1


@pytest.mark.parametrize("spec", SPECS)
def test_a_previous_that_is_empty_is_none(spec: str) -> None:
    speeds = {"a": 4.0, "b": 7.0, "c": 3.0, "d": 0.0, "e": 11.0}
    assert packing.pack(speeds, CAPACITY, {}, spec) == packing.pack(speeds, CAPACITY, None, spec)


def plainly(
    speeds: Mapping[Name, float], capacity: float, previous: Mapping[Name, int], spec: str
) -> dict[Name, int]:
    """Pack by the plain definition."""
    entry, parameters = packing.algorithm(spec)
    own: dict[str, Any] = parameters
    twin: packing.Packer = partial(plain.pack, algorithm=entry.name, **own)
    answer = twin(*inputs.arrays(speeds, capacity, previous))
    return dict(zip(speeds, answer.tolist(), strict=True))


def test_all_algorithms_of_the_paper_are_defined_plainly() -> None:
    assert len(plain.PAPER) == 12
    assert {*plain.PAPER, "kd_<n>", "ezzeddine"} == set(plain.ALGORITHMS) <= set(packing.REGISTRY)
    with pytest.raises(WrongInput, match="'sticky' has no plain definition; nf, nfd"):
        plain.pack(np.zeros(0), CAPACITY, np.zeros(0, np.int64), algorithm="sticky")


@pytest.mark.parametrize("spec", TWINS)
def test_the_kernels_answer_as_the_plain_definition(spec: str) -> None:
    @settings(max_examples=200, deadline=None)
    @given(cases())
    def exam(case: Case) -> None:
        speeds, previous = case
        expected = plainly(speeds, CAPACITY, previous, spec)
        assert packing.pack(speeds, CAPACITY, previous, spec) == expected

    exam()


def draw_speeds(rng: np.random.Generator, kind: str, n: int) -> tuple[list[float], float]:
    """Draw speeds of a kind that is hard in its own way, and a capacity."""
    if kind == "floats":
        return rng.uniform(0, 1, n).tolist(), 1.0
    if kind == "integers":
        return rng.integers(0, 8, n).astype(float).tolist(), 10.0
    if kind == "tenths":  # 0.1 + 0.2 > 0.3: sums whose rounding decides
        return (rng.integers(0, 8, n) / 10).tolist(), float(rng.integers(3, 12)) / 10
    if kind == "equal":
        return [float(rng.uniform(0, 1))] * n, 1.0
    if kind == "zeros":
        return np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0, 1.2, n)).tolist(), 1.0
    if kind == "oversize":
        return (rng.integers(0, 30, n) / 10).tolist(), 1.0
    if kind == "close":  # loads that differ by a rounding
        return (0.25 + rng.integers(0, 4, n) * 2.0**-54).tolist(), 1.0
    return (rng.integers(0, 8, n) * 5e-324).tolist(), 10 * 5e-324


def draw_previous(rng: np.random.Generator, n: int) -> dict[str, int]:
    """Draw a previous assignment: none, dense, with gaps, or with huge numbers."""
    most = int(rng.choice([1, 3, max(1, n // 2), 3 * n + 1, 2**40, 2**63 - 1]))
    share = rng.choice([0.0, 0.7, 1.0])
    return {
        f"p{j}": int(rng.integers(1, most, endpoint=True)) for j in range(n) if rng.random() < share
    }


@pytest.mark.parametrize("spec", TWINS)
@pytest.mark.parametrize("kind", KINDS)
def test_both_give_every_partition_the_same_consumer(spec: str, kind: str) -> None:
    rng = np.random.default_rng([KINDS.index(kind), TWINS.index(spec)])
    for _ in range(120):
        n = int(rng.choice([0, 1, 2, 5, 12, 30]))
        rates, capacity = draw_speeds(rng, kind, n)
        speeds = {f"p{j}": speed for j, speed in enumerate(rates)}
        previous = draw_previous(rng, n)
        expected = plainly(speeds, capacity, previous, spec)
        assert packing.pack(speeds, capacity, previous, spec) == expected


@pytest.mark.parametrize("spec", TWINS)
def test_both_agree_along_a_stream_with_arrivals_and_departures(spec: str) -> None:
    rng = np.random.default_rng(TWINS.index(spec))
    for size, grain in ((150, 0), (60, 20)):
        current: dict[str, int] = {}
        speed = rng.uniform(0, 1, size)
        for _ in range(25):
            speed = np.clip(speed + rng.uniform(-0.15, 0.15, size), 0, 1.1)
            present = rng.permutation(size)[: int(size * 0.9)]
            rates = np.round(speed * grain) / grain if grain else speed
            speeds = {f"p{j}": float(rates[j]) for j in present}
            expected = plainly(speeds, 1.0, current, spec)
            current = packing.pack(speeds, 1.0, current, spec)
            assert current == expected


@pytest.mark.slow
@pytest.mark.parametrize("spec", plain.PAPER)
def test_both_agree_on_a_thousand_partitions(spec: str) -> None:
    # Enough consumers for several levels of each structure.
    rng = np.random.default_rng(7)
    for scale in (1.0, 0.5, 0.01):
        speeds = {j: float(s) for j, s in enumerate(rng.uniform(0, scale, 1000))}
        previous = {j: int(rng.integers(1, 900)) for j in range(0, 1000, 2)}
        expected = plainly(speeds, 1.0, previous, spec)
        assert packing.pack(speeds, 1.0, previous, spec) == expected
