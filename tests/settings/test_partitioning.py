"""What `partition_by` may say, and the sentences where it is wrong."""

from typing import Any

import pytest

from lagless import settings
from lagless.errors import WrongSettings
from lagless.settings.partitioning import PartitionColumn

DDL = "at TIMESTAMP, `the day` DATE, country STRING NOT NULL, s STRUCT<a: INT, b: STRING>, x DOUBLE"


def columns(*entries: str, **topic: Any) -> tuple[PartitionColumn, ...]:
    document = {
        "group": "g",
        "topics": ["orders"],
        "lake": {"path": "lake"},
        "topic": {"orders": {"partition_by": list(entries), **topic}},
    }
    return settings.parse(document, "lagless.toml").of_topic("orders").partition_columns


def test_dates_hours_and_columns_of_the_schema_have_names_and_types() -> None:
    found = columns(
        "date(_timestamp)", "hour( at )", "country", "_partition", format="json", schema=DDL
    )
    assert [(c.name, c.kind) for c in found] == [
        ("_timestamp_date", "DATE"),
        ("at_hour", "INT"),
        ("country", "STRING"),
        ("_partition", "INT"),
    ]
    assert list(map(str, found)) == ["date(_timestamp)", "hour(at)", "country", "_partition"]


def test_a_date_of_an_inferred_field_needs_no_schema_and_text_is_a_list() -> None:
    assert [c.name for c in columns("date(at)", format="json")] == ["at_date"]
    document = {"group": "g", "topics": ["o"], "lake": {"path": "lake"}}
    tree = settings.parse(document, overrides=["topic.o.partition_by=date(_timestamp),_partition"])
    names = [column.name for column in tree.of_topic("o").partition_columns]
    assert names == ["_timestamp_date", "_partition"]
    assert settings.parse(document).of_topic("o").partition_columns == ()


@pytest.mark.parametrize(
    ("entry", "topic", "sentence"),
    [
        ("day(at)", {}, "'day(at)' should be a column, date(column) or hour(column)"),
        ("country", {"format": "json"}, "'country': its type must be known when the table is"),
        ("x", {"format": "json", "schema": DDL}, "'x' is DOUBLE; a partition column should be"),
        ("s", {"format": "json", "schema": DDL}, "'s' is STRUCT<A: INT, B: STRING>; a partition"),
        ("date(x)", {"format": "json", "schema": DDL}, "'date(x)': x is DOUBLE and should be"),
        ("date(at)", {}, "'date(at)': records have no field at; _timestamp is in every record"),
        ("date(b)", {"format": "json", "schema": DDL}, "'date(b)': records have no field b"),
        ("date(at)", {"format": "json", "schema": "at DATE, at_date INT"}, "'date(at)' makes a"),
        ("_timestamp", {}, "'_timestamp' is TIMESTAMP; a partition column should be a string"),
    ],
)
def test_a_wrong_column_is_named_with_what_would_be_right(
    entry: str, topic: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(WrongSettings) as caught:
        columns(entry, **topic)
    assert str(caught.value).startswith(f"lagless.toml: topic.orders: partition_by: {sentence}")
    assert "\n" not in str(caught.value)


def test_a_column_may_not_be_there_twice() -> None:
    with pytest.raises(WrongSettings, match="is there twice"):
        columns("date(_timestamp)", "date(_timestamp)")
