"""Backlogs follow their partitions; without them the model is the paper's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagless.lab.model import latency, queues

MODEL = latency.Model(max_rate=12.0, iteration=30.0, rebalance=5.0)


@st.composite
def groups(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 12))
    speeds = draw(st.lists(st.floats(0, 9), min_size=n, max_size=n))
    consumers = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    moved = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    backlog = draw(st.lists(st.floats(0, 500), min_size=n, max_size=n))
    return np.array(speeds), np.array(consumers), np.array(moved), np.array(backlog)


@given(groups())
def test_without_backlogs_it_is_the_papers_model(
    group: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    speeds, consumers, moved, _ = group
    (written, begins, ends), left = queues.step(
        MODEL, speeds, consumers, moved, np.zeros(len(speeds))
    )
    papers = latency.iterate(MODEL, speeds, consumers, moved, np.zeros(1))
    some = written > 0
    assert np.allclose(written, papers.written)
    assert np.allclose(begins[some], papers.begins[some])
    assert np.allclose(ends[some], papers.ends[some])
    by_consumer = np.bincount(consumers, left, minlength=len(papers.backlog))
    assert np.allclose(by_consumer[1:], papers.backlog[1:], atol=1e-6)


@given(groups())
def test_bytes_are_neither_lost_nor_made(
    group: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    speeds, consumers, moved, backlog = group
    _, left = queues.step(MODEL, speeds, consumers, moved, backlog)
    assert (left >= 0).all()
    assert (left <= backlog + 30 * speeds + 1e-6).all()
    read = np.bincount(consumers, backlog + 30 * speeds - left)
    assert (read <= 12 * 30 + 1e-6).all()


def test_a_backlog_goes_with_its_partition() -> None:
    speeds, moved = np.array([6.0, 6.0, 1.0]), np.array([False, True, False])
    backlog = np.array([0.0, 600.0, 0.0])
    _, left = queues.step(MODEL, speeds, np.array([1, 2, 2]), moved, backlog)
    # Consumer 2 reads 11 B/s of what moved to it, for 25 s.
    assert np.allclose(left, [0, 600 + 6 * 30 - 11 * 25, 0])
