"""The demo's load, folder and settings."""

from pathlib import Path

import numpy as np
import pytest

from lagless.adapters.lake import store
from lagless.errors import GiveUp, WrongInput
from lagless.lab import demo, testbed
from lagless.lab.demo import MAX_RATE, TOTAL
from lagless.lab.load.counting import Count
from lagless.lab.parts.object_store import ObjectStore
from lagless.settings import Bucket, load
from tests.lake.files import claimed


def test_the_load_is_skewed_walks_and_spikes() -> None:
    capacity = MAX_RATE * 0.75
    flow = demo.flow(TOTAL, capacity, seed=3)
    assert len(flow.partitions) == 24
    assert {p.topic for p in flow.partitions} == set(demo.TOPICS)
    quiet = flow.at(demo.FIRST_SPIKE - demo.STEP)
    spiked = flow.at(demo.FIRST_SPIKE + demo.STEP)
    assert quiet.sum() == pytest.approx(TOTAL, rel=0.05)
    assert quiet.max() > 4 * quiet.min(), "skewed"
    assert spiked.sum() > 1.3 * quiet.sum()
    assert not np.array_equal(flow.at(0), flow.at(demo.STEP)), "walking"
    assert flow.speeds.max() <= 0.8 * capacity
    assert quiet.sum() > 2 * capacity, "three consumers at least"


def test_the_same_seed_gives_the_same_load() -> None:
    one, other = (demo.flow(TOTAL, 1e6, seed) for seed in (1, 1))
    assert np.array_equal(one.speeds, other.speeds)
    assert not np.array_equal(one.speeds, demo.flow(TOTAL, 1e6, 2).speeds)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(WrongInput, match="has other files in it"):
        demo.prepare(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("lake", "--lake lake should be s3://bucket/prefix; name a folder by --data-dir"),
        ("gs://bucket", "--lake: is 'gs://bucket' and should be a folder or s3://"),
        ("s3://me:secret@bucket", "credentials do not belong in an address"),
    ],
)
def test_a_lake_that_is_no_bucket_is_refused(address: str, said: str) -> None:
    with pytest.raises(WrongInput, match=said):
        demo.bucket(address)
    assert demo.bucket("s3://bucket/a/b") == Bucket("bucket", "a/b")


@pytest.mark.s3
def test_tables_in_a_bucket_are_left_alone(
    s3: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    lake = Bucket(bucket, "a")
    demo.prepare_bucket(lake)
    claimed(store.at(lake).inside("orders"))
    with pytest.raises(WrongInput, match="has tables named orders; name another prefix"):
        demo.prepare_bucket(lake)
    demo.prepare_bucket(lake.inside("demo"))
    with pytest.raises(GiveUp, match="there is no bucket"):
        demo.prepare_bucket(Bucket("no-such-bucket"))


def test_the_settings_of_the_demo_are_settings(tmp_path: Path) -> None:
    folder = demo.prepare(tmp_path / "demo")
    assert folder is not None
    config = folder / "lagless.toml"
    config.write_text(testbed.toml({**demo.tree(8080), "lake": {"path": str(folder / "lake")}}))
    settings = load(config, environ={})
    assert settings.max_rate == MAX_RATE
    assert settings.lake.path == folder / "lake"
    (folder / "lake").mkdir()
    assert demo.prepare(folder) == folder, "an earlier demo's folder"
    assert not (folder / "lake").exists()


def test_each_record_belongs_to_the_start_to_a_spike_or_to_the_steady_load() -> None:
    began = 1e9
    found = demo.phases(began)
    first, second = (begin for _, begin in demo.spikes()[:2])
    over = demo.SPIKE + demo.AFTER
    moments = [0, demo.START, first - 1, first, first + over - 1, first + over, second - 1, second]
    stamps = began + np.array(moments, float)
    spike = [False, False, False, True, True, False, False, True]
    assert found.spike(stamps).tolist() == spike
    assert found.steady(stamps).tolist() == [False, True, True, False, False, True, True, False]


def test_delays_of_chosen_records() -> None:
    count = Count(
        delays=[np.array([1.0, 2.0]), np.array([9.0])],
        stamps=[np.array([5.0, 6.0]), np.array([7.0])],
    )
    assert count.delay(0.5) == 2
    assert count.delay(1.0, lambda stamps: stamps < 7) == 2
    assert count.delay(0.5, lambda stamps: stamps > 8) is None
    assert Count().delay(0.5) is None
