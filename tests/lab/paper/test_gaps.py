"""The gap of each algorithm to what the exact solver proves."""

import pytest

from lagless.errors import WrongInput
from lagless.lab.paper import cells, experiments, gaps

ALGORITHMS = ("nf", "bfd", "mwf", "sticky:slack=0", "exact")


@pytest.fixture(scope="module")
def apart() -> list[gaps.Gap]:
    grid = cells.every(ALGORITHMS, (25,), ("random",), (0, 1), (10,))
    return gaps.over(grid, cells.Setting(measurements=6), 2.0)


def test_no_algorithm_is_below_the_bounds(apart: list[gaps.Gap]) -> None:
    assert len(apart) == 2 * len(ALGORITHMS)
    for gap in apart:
        assert gap.consumers >= gap.fewest > 0
        assert gap.rscore >= gap.least >= 0


def test_exact_is_at_the_bounds_and_the_others_are_told_apart(apart: list[gaps.Gap]) -> None:
    for gap in apart:
        if gap.algorithm == "exact":
            assert gap.surplus == 0
            assert gap.rscore == pytest.approx(gap.least, abs=1e-6)
    wasteful = [gap for gap in apart if gap.algorithm == "nf"]
    assert all(gap.surplus > 0 and gap.rscore > gap.least for gap in wasteful)


def test_tables_have_a_row_for_each_algorithm_and_a_column_for_each_delta(
    apart: list[gaps.Gap],
) -> None:
    consumers, moved = gaps.tables(apart)
    assert [row[0] for row in consumers.rows] == list(ALGORITHMS)
    assert list(moved.header) == ["algorithm", "25"]
    assert gaps.tables([]) == []


def test_a_plan_compares_only_where_exact_takes_part() -> None:
    assert experiments.Plan(partitions=10).compared == []
    plan = experiments.Plan(partitions=10, deltas=(5.0,), algorithms=("bfd", "exact:seconds=2"))
    assert [cell.algorithm for cell in plan.compared] == ["bfd", "exact:seconds=2"]
    assert plan.exact_seconds == 2.0
    with pytest.raises(WrongInput, match="exact works to 40 partitions, not 200"):
        _ = experiments.Plan(algorithms=("exact",)).compared
