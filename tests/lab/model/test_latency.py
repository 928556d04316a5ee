"""The latency model: the paper's examples by hand, its rules, and a sample per byte beside it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lagless.errors import WrongInput
from lagless.lab.model import latency

PAPER = latency.Model(max_rate=133.0)


def numbers(*assignments: list[int]) -> list[NDArray[np.int64]]:
    return [np.array(row, dtype=np.int64) for row in assignments]


def run(model: latency.Model, speeds: list[list[float]], *rows: list[int]) -> latency.Latency:
    return latency.run(model, np.array(speeds, dtype=float), numbers(*rows))


def test_the_papers_second_and_third_byte_wait_as_it_says() -> None:
    m = latency.slope(read=10, written=8 + 8)
    assert m * 1 == pytest.approx(0.0375)
    assert m * 2 == pytest.approx(0.075)


def test_two_partitions_of_eight_fall_behind_a_reader_of_ten() -> None:
    found = run(latency.Model(max_rate=10), [[8, 8], [8, 8]], [1, 1], [1, 1])
    assert found.bytes == 480
    assert found.late.total == 480
    assert found.late.max == pytest.approx(0.0375 * 480)
    assert found.late.quantile(0.5) == pytest.approx(0.0375 * 240)


def test_480_bytes_are_read_in_25_seconds() -> None:
    # Read at 480/25 the rebalanced queue is empty exactly when the iteration ends.
    found = run(latency.Model(max_rate=480 / 25), [[8, 8], [8, 8]], [1, 1], [2, 2])
    assert found.late.total == pytest.approx(480)
    assert found.late.max == 5
    assert found.late.below(1e-9) == pytest.approx(0, abs=1e-6)
    assert found.late.quantile(0.5) == pytest.approx(2.5)


def test_the_first_measurement_counts_in_consumers_alone() -> None:
    found = run(PAPER, [[200, 200, 7]], [1, 1, 2])
    assert (found.consumers, found.bytes, found.late.total) == (2.0, 0.0, 0.0)
    assert found.late.quantile(0.9) == 0.0
    assert found.late.max == 0.0


def test_a_rebalanced_queue_counts_until_it_has_caught_up() -> None:
    # W_R = 50, R_R = 133 − 40: latency falls from 5 by 30·(1 − 50/93) and reaches 0 on the way.
    found = run(PAPER, [[40, 50], [40, 50]], [1, 2], [1, 1])
    crossed = 5 / (30 * (1 - 50 / 93))
    assert found.late.total == pytest.approx(30 * 50 * crossed)
    assert found.late.quantile(0.25) == pytest.approx(1.25)


def test_a_fixed_queue_goes_on_where_the_rebalanced_one_ended() -> None:
    model = latency.Model(max_rate=100)
    speeds = [[40.0, 90.0], [40.0, 90.0], [40.0, 90.0]]
    found = run(model, speeds, [1, 2], [1, 1], [1, 1])
    ended = 5 + 30 * (90 / 60 - 1)
    assert found.late.max == pytest.approx(ended + 30 * (130 / 100 - 1))
    # The fixed queue of the second iteration began at 0 and was read as it was written.
    assert found.late.total == pytest.approx(30 * 90 + 30 * 130)


def test_while_a_queue_is_rebalanced_the_fixed_one_keeps_its_latency() -> None:
    model = latency.Model(max_rate=100)
    speeds = [[120.0, 1.0], [120.0, 1.0], [50.0, 1.0]]
    found = run(model, speeds, [1, 2], [1, 2], [1, 1])
    ended = 30 * (120 / 100 - 1)
    # 30·50 bytes wait exactly as long as the last byte of the iteration before.
    assert found.late.below(ended) - found.late.below(ended - 1e-9) == pytest.approx(1500, rel=1e-4)


def test_queues_share_the_rate_when_the_fixed_one_takes_it_all() -> None:
    model = latency.Model(max_rate=100)
    found = run(model, [[100, 50], [100, 50]], [1, 2], [1, 1])
    grown = 30 * (150 / 100 - 1)
    assert found.late.total == 30 * 150
    assert found.late.max == pytest.approx(5 + grown)
    # The fixed third of the time: 0 … 15 s over 3000 bytes; rebalanced: 5 … 20 s over 1500.
    assert found.late.below(5.0) == pytest.approx(3000 / 3)


def test_a_number_that_was_away_keeps_its_latency() -> None:
    model = latency.Model(max_rate=100)
    one = latency.iterate(
        model, np.array([130.0]), np.array([2]), np.array([False]), ended=np.zeros(1)
    )
    assert one.ended[2] == pytest.approx(9)
    away = latency.iterate(model, np.array([10.0]), np.array([1]), np.array([True]), one.ended)
    assert away.ended[2] == pytest.approx(9)
    back = latency.iterate(model, np.array([100.0]), np.array([2]), np.array([False]), away.ended)
    assert back.ended[2] == pytest.approx(9)


def test_a_consumer_without_bytes_keeps_its_latency() -> None:
    one = latency.iterate(
        PAPER, np.array([0.0]), np.array([1]), np.array([False]), ended=np.array([0.0, 7.0])
    )
    assert one.ended[1] == 7
    assert one.written.sum() == 0


def test_backlog_is_what_was_written_and_not_read() -> None:
    model = latency.Model(max_rate=100)
    one = latency.iterate(
        model, np.array([130.0]), np.array([1]), np.array([False]), ended=np.zeros(1)
    )
    assert one.backlog.sum() == pytest.approx(30 * (130 - 100))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"max_rate": 0}, "max rate"),
        ({"max_rate": float("nan")}, "max rate"),
        ({"max_rate": 1, "iteration": -1}, "iteration"),
        ({"max_rate": 1, "rebalance": 31}, "rebalance"),
        ({"max_rate": 1, "rebalance": -1}, "rebalance"),
    ],
)
def test_a_wrong_model_is_named(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(WrongInput, match=named):
        latency.Model(**wrong)


def sampled(
    model: latency.Model, speeds: NDArray[np.float64], rows: list[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """Follow the paper's equations byte by byte, in the plainest way there is."""
    last: dict[int, float] = {}
    samples: list[float] = []
    for k in range(1, len(rows)):
        for c in sorted(set(rows[k].tolist())):
            mine = rows[k] == c
            fixed = float(speeds[k][mine & (rows[k - 1] == c)].sum())
            moved = float(speeds[k][mine & (rows[k - 1] != c)].sum())
            read_fixed = model.max_rate if moved == 0 else min(model.max_rate, fixed)
            read_moved = model.max_rate - read_fixed
            if fixed >= model.max_rate and moved > 0:
                read_fixed = model.max_rate * fixed / (fixed + moved)
                read_moved = model.max_rate * moved / (fixed + moved)
            b = last.get(c, 0.0)
            if fixed > 0:
                m = 1 / read_fixed - 1 / fixed
                total = model.iteration * fixed
                samples += [m * (i + 0.5) + b for i in range(round(total))]
                last[c] = max(m * total + b, 0.0)
            if moved > 0:
                m = 1 / read_moved - 1 / moved
                total = model.iteration * moved
                samples += [m * (i + 0.5) + model.rebalance for i in range(round(total))]
                last[c] = max(m * total + model.rebalance, 0.0)
    found = np.array(samples)
    return found[found > 1e-9]


@given(st.data())
def test_closed_form_agrees_with_a_sample_per_byte(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5), label="partitions")
    k = data.draw(st.integers(2, 5), label="measurements")
    speeds = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 60), min_size=n, max_size=n), min_size=k,
                           max_size=k), label="speeds"),
        dtype=float,
    )  # fmt: skip
    rows = numbers(
        *data.draw(
            st.lists(st.lists(st.integers(1, 3), min_size=n, max_size=n), min_size=k, max_size=k),
            label="assignments",
        )
    )
    model = latency.Model(
        max_rate=data.draw(st.sampled_from([20.0, 60.0, 100.0])),
        iteration=data.draw(st.sampled_from([10.0, 30.0])),
        rebalance=data.draw(st.sampled_from([0.0, 5.0])),
    )
    found = latency.run(model, speeds, rows)
    samples = sampled(model, speeds, rows)
    assert found.bytes == speeds[1:].sum() * model.iteration
    # One byte per queue and iteration may fall on either side of the crossing.
    assert abs(found.late.total - len(samples)) <= 2 * 3 * k
    if len(samples) > 200:
        step = np.diff(np.sort(samples)).max(initial=0.0)
        for q in (0.1, 0.5, 0.9, 0.99):
            exact = found.late.quantile(q)
            nearby = np.quantile(samples, [max(q - 0.06, 0), min(q + 0.06, 1)], method="nearest")
            assert nearby[0] - step - 0.01 <= exact <= nearby[1] + step + 0.01


def test_quantiles_agree_with_a_sample_per_byte_on_the_papers_stream() -> None:
    rng = np.random.default_rng(7)
    speeds = np.rint(rng.uniform(0, 100, (40, 32)))
    rows = [rng.integers(1, 18, 32) if k % 3 == 0 else np.zeros(0, int) for k in range(40)]
    held = [rows[k - k % 3].astype(np.int64) for k in range(40)]
    found = latency.run(PAPER, speeds, held)
    samples = sampled(PAPER, speeds, held)
    assert found.late.total == pytest.approx(len(samples), rel=1e-3)
    for q in (0.05, 0.5, 0.9, 0.99):
        assert found.late.quantile(q) == pytest.approx(np.quantile(samples, q), rel=1e-3)
    assert found.late.max == pytest.approx(samples.max(), abs=0.1)
    assert found.late.mean == pytest.approx(samples.mean(), rel=1e-3)


def test_real_rates_wait_as_small_ones_do() -> None:
    # Hundreds of partitions at tens of MB/s: nothing but the bytes grows with the rate.
    rng = np.random.default_rng(3)
    speeds = rng.uniform(0, 100, (20, 400))
    rows = [rng.integers(1, 160, 400).astype(np.int64) for _ in range(20)]
    small = latency.run(PAPER, speeds, rows)
    large = latency.run(latency.Model(max_rate=133.0 * 2**19), speeds * 2**19, rows)
    assert large.late.total == pytest.approx(small.late.total * 2**19, rel=1e-12)
    for q in (0.5, 0.9, 0.99, 1.0):
        assert large.late.quantile(q) == pytest.approx(small.late.quantile(q), rel=1e-12)
