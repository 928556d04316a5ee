"""Where a speed changed: steps are seen, and noise is not."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lagless.model import TopicPartition
from lagless.monitor import changes
from lagless.monitor.window import Window
from lagless.ports import LogSize, Measurement

P = TopicPartition("orders", 0)
WINDOW = 30.0
SCALE = 1_000_000
"""Bytes of an interval at speed 1: whole bytes must not matter."""


def told(sizes: Sequence[float], interval: float, detect: bool = True) -> Iterator[float]:
    """Measure intervals of these sizes; return each speed, in sizes per interval."""
    window, total = Window(WINDOW, detect), 0
    window.add(Measurement(0.0, {P: LogSize(0, 0, 0, "id", 1)}))
    for number, size in enumerate(sizes, 1):
        total += round(size * SCALE)
        window.add(Measurement(number * interval, {P: LogSize(total, 0, total, "id", 1)}))
        yield window.readings()[P].speed * interval / SCALE


def noisy(rng: np.random.Generator, rates: Sequence[float], share: float) -> list[float]:
    return [max(0.0, rate * (1 + share * rng.standard_normal())) for rate in rates]


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    factor=st.floats(1.5, 20),
    down=st.booleans(),
    part=st.floats(0, 1),
    interval=st.sampled_from([1.0, 2.0, 5.0]),
)
def test_a_step_is_told_after_two_whole_intervals(
    seed: int, factor: float, down: bool, part: float, interval: float
) -> None:
    after = 1 / factor if down else factor
    mixed = part + (1 - part) * after
    rates = [1.0] * 60 + [mixed, after, after, after]
    speeds = list(told(noisy(np.random.default_rng(seed), rates, 0.01), interval))
    assert speeds[59] == pytest.approx(1, rel=0.05)
    assert speeds[62:] == pytest.approx([after, after], rel=0.1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 0.25), interval=st.sampled_from([1, 5]))
def test_noise_at_rest_leaves_the_window_as_it_is(seed: int, share: float, interval: int) -> None:
    sizes = noisy(np.random.default_rng(seed), [1.0] * 500, share)
    detected = np.array(list(told(sizes, interval)))
    plain = np.array(list(told(sizes, interval, detect=False)))
    assert np.mean(detected != plain) < 0.1


@pytest.mark.parametrize("mean", [0.3, 2.5, 50])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_bursts_at_random_moments_are_no_changes(mean: float, spread: float) -> None:
    rng = np.random.default_rng(7)
    counts = rng.poisson(mean, 17_280)  # a day of 5 s
    sizes = [float(np.sum(np.exp(spread * rng.standard_normal(n)))) / mean for n in counts]
    detected = np.array(list(told(sizes, 5.0)))
    plain = np.array(list(told(sizes, 5.0, detect=False)))
    # One alarm lets speeds differ for a window.
    assert np.sum(detected != plain) <= 3 * WINDOW / 5
    for share in (0.01, 0.5, 0.99):
        assert np.quantile(detected, share) == pytest.approx(np.quantile(plain, share), rel=0.05)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), burst=st.floats(2, 1000), share=st.floats(0.05, 0.2))
def test_a_single_burst_is_no_new_speed(seed: int, burst: float, share: float) -> None:
    sizes = noisy(np.random.default_rng(seed), [1.0] * 80, share)
    sizes[60] = burst
    plain = list(told(sizes, 5.0, detect=False))
    assert list(told(sizes, 5.0))[60:62] == pytest.approx(plain[60:62])


@given(
    # Bytes are counted: less than one is none, whatever the unit.
    sizes=st.lists(st.just(0.0) | st.floats(1e-3, 100), min_size=4, max_size=30),
    scale=st.floats(1e-3, 1e9),
    later=st.floats(-1e6, 1e6),
)
def test_units_and_the_origin_of_time_do_not_matter(
    sizes: list[float], scale: float, later: float
) -> None:
    noise, scaled = changes.Noise(), changes.Noise()
    totals = np.concatenate([[0.0], np.cumsum(sizes)])
    points = [(5.0 * i, float(total)) for i, total in enumerate(totals)]
    moved = [(round(later) + at, total * scale) for at, total in points]
    for end in range(5, len(points) + 1):
        if points[end - 1][1] > 0:
            noise.learn(points[:end])
            scaled.learn(moved[:end])
    assert scaled.size == pytest.approx(noise.size * scale, rel=1e-6, abs=1e-9 * scale)
    assert scaled.intervals == noise.intervals


@given(sizes=st.lists(st.floats(0, 100), min_size=4, max_size=30))
@example(sizes=[5e-324, 0.0, 0.0, 0.0])
def test_the_burst_size_is_always_a_finite_number(sizes: list[float]) -> None:
    noise = changes.Noise()
    totals = np.concatenate([[0.0], np.cumsum(sizes)])
    points = [(5.0 * i, float(total)) for i, total in enumerate(totals)]
    for end in range(5, len(points) + 1):
        noise.learn(points[:end])
    assert 0.0 <= noise.size < float("inf")


@pytest.mark.parametrize("interval", [1.0, 5.0])
def test_a_new_partition_has_its_speed_after_one_whole_interval(interval: float) -> None:
    speeds = list(told([0.0] * 20 + [0.4, 1.0, 1.0, 1.0], interval))
    assert speeds[21:] == pytest.approx([1.0, 1.0, 1.0])


def test_a_partition_that_is_written_to_now_and_then_keeps_its_mean() -> None:
    sizes = [1.0, 0, 0, 0, 0, 0] * 40
    assert list(told(sizes, 5.0))[6:] == list(told(sizes, 5.0, detect=False))[6:]


def test_a_dead_producer_and_its_return_are_both_seen() -> None:
    rng = np.random.default_rng(1)
    sizes = noisy(rng, [1.0] * 40, 0.05) + [0.0] * 30 + noisy(rng, [1.0] * 10, 0.05)
    speeds = list(told(sizes, 5.0))
    assert speeds[42] == 0.0
    assert speeds[72:] == pytest.approx([1.0] * 8, rel=0.15)


def test_the_less_is_known_of_the_noise_the_higher_the_limit() -> None:
    limits = [changes.limit(n) for n in (4, 8, 16, 32, 60)]
    assert limits == sorted(limits, reverse=True)
    assert limits[-1] > changes.RARE**2


def test_the_error_is_the_speed_until_the_noise_is_known_and_then_what_bursts_make() -> None:
    rng, window, total = np.random.default_rng(3), Window(WINDOW, True), 0
    for number in range(200):
        window.add(Measurement(5.0 * number, {P: LogSize(total, 0, total, "id", 1)}))
        total += int(rng.poisson(20)) * 1000
        reading = window.readings().get(P)
        if reading and number < 5:
            assert reading.error == reading.speed
    # 30 s hold 120 bursts: √120 of 120.
    assert reading is not None
    assert reading.error / reading.speed == pytest.approx(1 / np.sqrt(120), rel=0.4)
