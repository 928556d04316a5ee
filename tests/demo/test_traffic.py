"""The demo's load and its ground."""

from pathlib import Path

import numpy as np
import pytest

from lagless.demo import traffic
from lagless.demo.ground import MAX_RATE, TOTAL, Ground
from lagless.errors import WrongInput


def test_the_load_is_skewed_walks_and_spikes() -> None:
    capacity = MAX_RATE * 0.75
    flow = traffic.flow(TOTAL, capacity, seed=3)
    assert len(flow.partitions) == 24
    assert {p.topic for p in flow.partitions} == set(traffic.TOPICS)
    quiet = flow.at(traffic.FIRST_SPIKE - traffic.STEP)
    spiked = flow.at(traffic.FIRST_SPIKE + traffic.STEP)
    assert quiet.sum() == pytest.approx(TOTAL, rel=0.05)
    assert quiet.max() > 4 * quiet.min(), "skewed"
    assert spiked.sum() > 1.3 * quiet.sum()
    assert not np.array_equal(flow.at(0), flow.at(traffic.STEP)), "walking"
    assert flow.speeds.max() <= 0.8 * capacity
    assert quiet.sum() > 2 * capacity, "three consumers at least"


def test_the_same_seed_gives_the_same_load() -> None:
    one, other = (traffic.flow(TOTAL, 1e6, seed) for seed in (1, 1))
    assert np.array_equal(one.speeds, other.speeds)
    assert not np.array_equal(one.speeds, traffic.flow(TOTAL, 1e6, 2).speeds)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(WrongInput, match="has other files in it"):
        Ground.prepare(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_the_settings_of_the_demo_are_settings(tmp_path: Path) -> None:
    ground = Ground.prepare(tmp_path / "demo")
    settings = ground.settle("127.0.0.1:9092", "sc://127.0.0.1:15002", 8080)
    assert settings.max_rate == MAX_RATE
    assert settings.lake.path == ground.lake
    assert Ground.prepare(tmp_path / "demo").folder == ground.folder, "an earlier demo's folder"
