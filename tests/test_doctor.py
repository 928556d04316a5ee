"""What the doctor says about a set-up."""

import pytest

from lagless.operations import doctor
from lagless.settings import parse


@pytest.mark.parametrize("count", [0, 1])
def test_up_to_one_table_costs_nothing_more(count: int) -> None:
    assert doctor.cost_of_tables(count, 10e6, False) == f"{count} table{'s' if count == 0 else ''}"


def test_several_tables_cost_more_than_one() -> None:
    by_default = doctor.cost_of_tables(5, 10e6, False)
    assert by_default.startswith("5 tables:")
    assert "set consumer.calibrated_rate" in by_default
    measured = doctor.cost_of_tables(5, 4e6, True)
    assert "4 MB/s should be measured with as many" in measured


def test_tables_are_counted_without_kafka() -> None:
    tree = {
        "group": "orders",
        "topics": ["a", "b", "c"],
        "lake": {"path": "lake"},
        "kafka": {"bootstrap": "127.0.0.1:1"},
        "topic": {"c": {"table": "b"}},
    }
    ((fine, says),) = doctor.CHECKS["tables"](parse(tree))
    assert fine
    assert says.startswith("2 tables:")
