"""One exam for every registered algorithm, found through the registry."""

import math
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless import packing
from tests.packing import reference

CAPACITY = 10.0
SPECS = [
    "kd_<n>:n=3" if name == "kd_<n>" else name
    for name, entry in packing.REGISTRY.items()
    if find_spec(f"lagless.packing.{entry.function.partition(':')[0]}")
    and (entry.extra is None or find_spec("ortools"))
]
ENTRY = {spec: packing.algorithm(spec)[0] for spec in SPECS}
PACKING = [spec for spec in SPECS if ENTRY[spec].family != "count"]
EXAMPLES = {spec: 15 if ENTRY[spec].extra else 60 for spec in SPECS}

Case = tuple[dict[int, float], dict[int, int]]


@st.composite
def cases(draw: st.DrawFn, whole: bool = False) -> Case:
    """Draw speeds and a previous assignment, of which some has gone and some is yet to come."""
    speed = st.integers(0, 12).map(float)
    if not whole:
        speed |= st.floats(0, 12, allow_subnormal=False)
    speeds = dict(enumerate(draw(st.lists(speed, max_size=12))))
    number = st.integers(1, 8) | st.integers(1, 2**40)
    return speeds, draw(st.dictionaries(st.integers(0, 15), number, max_size=16))


def loads(speeds: dict[int, float], assignment: dict[int, int]) -> dict[int, list[float]]:
    """Return the speeds that each consumer has."""
    found: dict[int, list[float]] = {}
    for partition, consumer in assignment.items():
        found.setdefault(consumer, []).append(speeds[partition])
    return found


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
        order = list(speeds) if ENTRY[spec].online else reference.decreasing(speeds, list(speeds))
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
