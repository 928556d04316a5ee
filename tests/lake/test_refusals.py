"""What a plan that Spark refuses calls for."""

import pytest
from pyspark.errors import AnalysisException

from lagless.adapters.lake.tables import refusal
from lagless.errors import GiveUp, LaglessError, TryAgain


@pytest.mark.parametrize(
    ("condition", "named", "kind"),
    [
        # A Connect client repeats what it asked when the connection breaks.
        ("PATH_ALREADY_EXISTS", {"outputPath": "/lake/orders/cycle-1"}, TryAgain),
        ("UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", {"objectName": "price"}, GiveUp),
    ],
)
def test_a_plan_that_was_sent_twice_is_tried_again(
    condition: str, named: dict[str, str], kind: type[LaglessError]
) -> None:
    error = AnalysisException(
        message=f"[{condition}] of {named}", errorClass=condition, messageParameters=named
    )
    found = refusal("orders", error)
    assert isinstance(found, kind)
    assert str(found).startswith("topic orders: Spark")
