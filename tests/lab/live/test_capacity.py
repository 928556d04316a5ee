"""The paper's conditions, the density of what was measured, its mode, and what follows."""

from pathlib import Path

import numpy as np
import pytest

from lagless.errors import WrongInput
from lagless.lab.live import capacity
from lagless.settings import parse


def test_conditions_are_the_papers() -> None:
    told = [(one.bytes, one.partitions, one.tables) for one in capacity.CONDITIONS]
    assert told == [(648e6, 32, 1), (100e6, 116, 5), (678e6, 144, 5)]


def test_partitions_are_shared_out_among_the_tables() -> None:
    counts = capacity.CONDITIONS[2].topics("x")
    assert sum(counts.values()) == 144
    assert sorted(counts.values()) == [28, 29, 29, 29, 29]


def test_a_density_integrates_to_one_and_its_mode_is_where_most_are() -> None:
    rng = np.random.default_rng(1)
    rates = [*rng.normal(2.3e6, 1e5, 300), *rng.normal(5e6, 5e5, 60)]
    grid = np.linspace(0, 9e6, 4000)
    assert np.trapezoid(capacity.density(rates, grid), grid) == pytest.approx(1, abs=0.01)
    assert capacity.mode(rates) == pytest.approx(2.3e6, rel=0.03)


def test_a_constant_rate_is_its_own_mode() -> None:
    assert capacity.mode([7.0, 7.0]) == 7.0


def test_max_rate_is_the_least_mode_and_settings_take_it(tmp_path: Path) -> None:
    found = capacity.Capacity({1: [3e6, 3e6, 9e6], 3: [2e6, 2e6, 2e6]}, 30, 5)
    assert found.max_rate == pytest.approx(2e6)
    assert found.capacity == pytest.approx(2e6 * 5 / 6)
    import tomllib

    document = {"group": "g", "topics": ["t"], "lake": {"path": str(tmp_path)}}
    settings = parse({**document, **tomllib.loads(found.settings())})
    assert settings.max_rate == pytest.approx(2e6)
    capacity.draw(found, tmp_path)
    assert (tmp_path / "calibration.svg").stat().st_size > 1000


@pytest.mark.parametrize("text", ["4", "", "a,b"])
def test_wrong_conditions_are_refused(text: str) -> None:
    with pytest.raises(WrongInput):
        capacity.choose(text)
