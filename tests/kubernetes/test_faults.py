"""The whole system with consumers as pods: it grows, suffers each fault once, and shrinks."""

import sys
from pathlib import Path

import pytest

from tests.chaos import pods
from tests.kubernetes.hosted import Stage

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def test_pods_that_fail_lose_nothing(stage: Stage, tmp_path: Path) -> None:
    report = pods.run_on(stage, tmp_path, 0.5, 1, 8, lambda text: print(text, file=sys.stderr))
    assert report["produced"] == report["landed"] > 0
    assert report["duplicated"] == report["out_of_order"] == 0
    assert set(report["kills"]) == set(pods.FAULTS)
    assert report["grown"]
    assert report["shrunk"]
    assert report["left"] == []
