"""The whole system for two minutes, while something is killed every 7 seconds of one of them."""

import sys
from pathlib import Path

import pytest

from tests.chaos import group


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_minute_of_kills_loses_nothing(tmp_path: Path) -> None:
    report = group.run(tmp_path, 0.7, 1, 7, lambda text: print(text, file=sys.stderr))
    assert report["produced"] == report["landed"] > 0
    assert report["duplicated"] == report["out_of_order"] == 0
    assert sum(report["kills"].values()) >= 5
    assert report["left"] == []
    # How soon is a matter of the machine, on which other tests' servers run too.
    assert report["recovered_seconds"] is not None
