"""Quantiles in closed form, with atoms, gaps and crossings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.lab.model import distribution


def pieces(*lines: tuple[float, float, float]) -> distribution.Distribution:
    size, begin, end = (np.array(column, dtype=float) for column in zip(*lines, strict=True))
    return distribution.gather([(size, begin, end)])


def test_no_late_byte_gives_zeros() -> None:
    nothing = pieces((100, 0, 0), (50, 0, -3), (0, 5, 5))
    assert (nothing.total, nothing.max, nothing.mean, nothing.quantile(0.5)) == (0, 0, 0, 0)


def test_an_atom_holds_its_quantiles() -> None:
    found = pieces((60, 4, 4), (40, 8, 10))
    assert found.quantile(0.3) == 4
    assert found.quantile(0.6) == 4
    assert found.quantile(0.8) == pytest.approx(9)
    assert found.below(3.999) == 0
    assert found.below(4) == 60


def test_an_atom_inside_a_piece_is_a_step() -> None:
    found = pieces((100, 0, 10), (100, 5, 5))
    assert found.quantile(0.2) == pytest.approx(4)
    assert found.quantile(0.3) == 5
    assert found.quantile(0.7) == 5
    assert found.quantile(0.9) == pytest.approx(8)


def test_only_bytes_before_the_crossing_are_late() -> None:
    found = pieces((100, 5, -5))
    assert found.total == 50
    assert found.quantile(0.5) == pytest.approx(2.5)


def test_a_line_that_rises_from_zero_is_late_throughout() -> None:
    assert pieces((100, 0, 2)).total == 100


def test_a_nearly_flat_piece_does_not_blur_the_others() -> None:
    found = pieces((1e9, 3, 3 + 1e-12), (1e9, 0, 1), (1e-3, 50, 60))
    assert found.quantile(0.25) == pytest.approx(0.5)
    assert found.quantile(0.75) == pytest.approx(3)
    assert found.max == 60


line = st.tuples(st.floats(0.001, 1e9), st.floats(-50, 500), st.floats(-50, 500))


@given(st.lists(line, min_size=1, max_size=12), st.floats(0.001, 0.999))
def test_a_quantile_has_its_share_at_or_below(
    lines: list[tuple[float, float, float]], q: float
) -> None:
    found = pieces(*lines)
    x = found.quantile(q)
    if found.total > 0:
        assert found.below(x * (1 + 1e-9) + 1e-12) >= q * found.total * (1 - 1e-9)
        assert found.below(x * (1 - 1e-9) - 1e-12) <= q * found.total * (1 + 1e-9)
        assert found.low.min() <= x <= found.max
