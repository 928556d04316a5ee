"""Short fault runs where Spark is elsewhere: in each consumer, and on a cluster of two workers.

In the first the group is also paused, drained and reset.
"""

import sys
from pathlib import Path

import pytest

from tests.chaos import group

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
]


@pytest.mark.parametrize(("mode", "operate"), [("local", True), ("cluster", False)])
def test_kills_of_every_part_lose_nothing(mode: str, operate: bool, tmp_path: Path) -> None:
    def say(text: str) -> None:
        print(text, file=sys.stderr)

    report = group.run(tmp_path, 0.8, 2, 8, say, spark=mode, operate=operate)
    assert report["produced"] == report["landed"] + report.get("skipped", 0) > 0
    wrong = ("lost", "duplicated", "out_of_order", "holes")
    assert {name: report[name] for name in wrong} == dict.fromkeys(wrong, 0)
    assert sum(report["kills"].values()) + sum(report.get("operations", {}).values()) >= 4
    assert report.get("read_while_paused", 0) == 0
    assert report.get("failed_operations", []) == []
    assert report["left"] == []
    # How soon is a matter of the machine, on which other tests' servers run too.
    assert report["recovered_seconds"] is not None
