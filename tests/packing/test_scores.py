"""Loads, migrations, Rscore, CBS, E(Rscore) and the Pareto front."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lagless
from lagless.errors import WrongInput
from lagless.packing import scores

SPEEDS = {"a": 4.0, "b": 6.0, "c": 10.0, "d": 1.0}


def test_arrivals_and_departures_are_not_migrations() -> None:
    previous = {"a": 1, "b": 2, "gone": 3}
    current = {"a": 2, "b": 2, "c": 1, "d": 2}
    assert scores.migrations(previous, current) == ["a"]
    assert lagless.rscore(SPEEDS, 8, previous, current) == 0.5


def test_the_first_assignment_costs_nothing() -> None:
    current = dict.fromkeys(SPEEDS, 1)
    assert lagless.rscore(SPEEDS, 8, None, current) == 0
    assert lagless.rscore(SPEEDS, 8, {}, current) == 0


def test_a_move_whose_speed_is_unknown_is_named() -> None:
    with pytest.raises(WrongInput, match="'x' migrated"):
        lagless.rscore(SPEEDS, 8, {"x": 1}, {"x": 2})


@pytest.mark.parametrize(
    ("capacity", "previous", "current", "match"),
    [
        (0, {}, {}, "capacity"),
        (1, {"a": 0}, {"a": 1}, "previous consumer of 'a'"),
        (1, {"a": 1}, {"a": -2}, "current consumer of 'a'"),
    ],
)
def test_wrong_input_is_named(
    capacity: float, previous: dict[str, int], current: dict[str, int], match: str
) -> None:
    with pytest.raises(WrongInput, match=match):
        lagless.rscore(SPEEDS, capacity, previous, current)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_arrays_and_mappings_score_the_same(rows: list[tuple[float, int, int]]) -> None:
    speeds = {j: row[0] for j, row in enumerate(rows)}
    previous = {j: row[1] for j, row in enumerate(rows) if row[1]}
    current = {j: row[2] for j, row in enumerate(rows) if row[2]}
    rates = np.array([row[0] for row in rows])
    before = np.array([row[1] for row in rows], np.int64)
    after = np.array([row[2] for row in rows], np.int64)
    assert scores.moved(before, after).sum() == len(scores.migrations(previous, current))
    assert scores.moved_rate(rates, before, after) / 7 == scores.rscore(
        speeds, 7, previous, current
    )
    if current.keys() == speeds.keys() != set():
        consumers, rate, migrations = scores.tally(rates, before, after)
        assert consumers == len(set(current.values()))
        assert rate / 7 == scores.rscore(speeds, 7, previous, current)
        assert migrations == len(scores.migrations(previous, current))


def test_loads_sum_what_each_consumer_reads() -> None:
    assert scores.loads(SPEEDS, {"a": 2, "b": 1, "c": 2, "unmeasured": 3}) == {1: 6, 2: 14, 3: 0}
    assert scores.loads(SPEEDS, {}) == {}


def test_cbs_is_relative_to_the_fewest_of_each_iteration() -> None:
    found = scores.cbs({"one": [10, 4, 5], "two": [8, 5, 5]})
    assert found == {"one": (2 / 8) / 3, "two": (1 / 4) / 3}


def test_cbs_of_nothing_to_read_and_of_no_iterations() -> None:
    assert scores.cbs({"one": [0, 2], "two": [0, 1]}) == {"one": 0.5, "two": 0.0}
    assert scores.cbs({"one": [], "two": []}) == {"one": 0.0, "two": 0.0}
    assert scores.cbs({}) == {}


def test_cbs_wants_as_many_iterations_of_each() -> None:
    with pytest.raises(WrongInput, match=r"\[1, 2\]"):
        scores.cbs({"one": [1], "two": [1, 2]})


def test_expected_rscore_counts_the_first_iteration() -> None:
    assert scores.expected_rscore([0.0, 3.0, 1.5]) == 1.5
    assert scores.expected_rscore([]) == 0.0


def test_front_keeps_equals_and_drops_what_is_beaten_in_one() -> None:
    points = {
        "cheap": (0.0, 9.0),
        "beaten in one": (0.0, 9.5),
        "twin": (1.0, 4.0),
        "other twin": (1.0, 4.0),
        "beaten by a twin": (2.0, 4.0),
        "calm": (3.0, 1.0),
        "beaten in both": (4.0, 2.0),
    }
    assert scores.pareto_front(points) == ["cheap", "twin", "other twin", "calm"]
    assert scores.pareto_front({}) == []
    assert scores.pareto_front({"alone": (float("inf"), float("inf"))}) == ["alone"]


def test_front_refuses_what_is_not_a_number() -> None:
    with pytest.raises(WrongInput, match="'odd'"):
        scores.pareto_front({"odd": (float("nan"), 1.0)})


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_front_is_what_nothing_dominates(values: list[tuple[int, int]]) -> None:
    points = {j: (float(x), float(y)) for j, (x, y) in enumerate(values)}
    expected = [
        j
        for j, p in points.items()
        if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points.values())
    ]
    assert scores.pareto_front(points) == expected
