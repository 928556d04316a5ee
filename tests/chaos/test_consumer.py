"""The short version of `python -m tests.chaos consumer`, and its account."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lagless.adapters.lake import store
from tests.chaos import account, consumer

WRONG = ("lost", "duplicated", "out_of_order", "unexpected", "gone_and_landed")


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(1800)
def test_a_consumer_under_faults_loses_and_doubles_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arguments = ["--kills", "10", "--seed", "7", "--report", str(report), "--format", "mixed"]
    status = consumer.main([*arguments, "--data-dir", str(tmp_path / "chaos")])
    found = json.loads(report.read_text())
    assert {name: found[name] for name in WRONG} == dict.fromkeys(WRONG, 0)
    assert status == 0
    assert found["landed"] > 0
    assert found["produced"] == found["landed"] + found["rejected"] + found["gone"]
    assert sum(found["kills"].values()) == 10
    assert found["versions"] >= 2
    assert found["fields_wrong"] == 0
    assert found["compared"] == found["landed"]


def lake(path: Path, offsets: list[list[int]]) -> None:
    for some in offsets:
        rows = [
            {"_partition": 0, "_offset": o, "seq": o, "run": "id", "_timestamp": 1_000_000}
            for o in some
        ]
        table = pa.Table.from_pylist(rows)
        stamps = table["_timestamp"].cast(pa.timestamp("us", "UTC"))
        table = table.set_column(4, "_timestamp", stamps)
        write_deltalake(str(path / "t"), table, mode="append")


@pytest.mark.parametrize(
    ("landed", "wrong"),
    [
        ([[0, 1], [2]], {}),
        ([[0, 1]], {"lost": 1}),
        ([[0, 1], [1, 2]], {"duplicated": 1, "out_of_order": 1}),
        ([[1, 2], [0]], {"out_of_order": 1}),
        ([[0, 1, 2, 9]], {"unexpected": 1}),
    ],
)
def test_the_account_sees_what_is_wrong(
    tmp_path: Path, landed: list[list[int]], wrong: dict[str, int]
) -> None:
    made = account.Account()
    for offset in range(3):
        made.note(("id", 0), offset, offset)
    lake(tmp_path, landed)
    found = account.report(made, store.at(tmp_path), {"t": ["id"]})
    assert {name: found[name] for name in WRONG if found[name]} == wrong
