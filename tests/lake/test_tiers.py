"""Which files are merged: the rules, and an hour of a fast table under them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.adapters.lake import tiers
from lagless.adapters.lake.tiers import Listed
from lagless.settings import CompactionSettings

TARGET = CompactionSettings().target
DAYS = [{"day": day} for day in ("2026-05-30", "2026-05-31", None)]

sizes = st.lists(
    st.tuples(st.integers(1, 2 * TARGET), st.integers(0, 9), st.sampled_from(DAYS)), max_size=120
)


def listed(drawn: list[tuple[int, int, dict[str, str | None]]]) -> list[Listed]:
    return [Listed(str(n), size, first, day) for n, (size, first, day) in enumerate(drawn)]


@given(sizes)
def test_merges_are_of_small_files_of_one_place_and_each_file_is_in_one(
    drawn: list[tuple[int, int, dict[str, str | None]]],
) -> None:
    files = listed(drawn)
    for merges in (tiers.at_once(files, TARGET), tiers.due(files, TARGET)):
        merged = [file.path for group in merges for file in group]
        assert len(merged) == len(set(merged))
        for group in merges:
            assert len(group) >= 2
            assert len({file.place for file in group}) == 1
            assert tiers.size(group) <= TARGET
            assert all(file.size < TARGET // 2 for file in group)


@given(sizes)
def test_no_tier_of_a_place_keeps_many_files(
    drawn: list[tuple[int, int, dict[str, str | None]]],
) -> None:
    files = listed(drawn)
    while merges := tiers.due(files, TARGET):
        for group in merges:
            left = [file for file in files if file not in group]
            merged = Listed("+".join(f.path for f in group), tiers.size(group), 0, group[0].values)
            assert len({file.tier for file in group}) == 1
            files = [*left, merged]
    for place in {file.place for file in files}:
        small = [file.tier for file in files if file.place == place and file.size < TARGET // 2]
        # What cannot be merged without passing the target stays: pairs are half of it at least.
        lower = [tier for tier in small if 2 * 8 ** (tier + 1) <= TARGET]
        assert all(lower.count(tier) < tiers.ENOUGH for tier in lower)


def test_groups_are_filled_up_to_the_target() -> None:
    files = [Listed(str(n), 30, n) for n in range(7)]
    files.append(Listed("large", 80, 3))
    found = [[file.path for file in group] for group in tiers.at_once(files, 100)]
    assert found == [["0", "1", "2"], ["3", "4", "5"]]


def test_fifteen_files_of_a_size_wait_for_the_sixteenth() -> None:
    files = [Listed(str(n), 1000 + n, n) for n in range(16)]
    assert tiers.due(files[:15], TARGET) == []
    assert tiers.due(files, TARGET) == [files]


def test_a_merge_waits_until_the_budget_has_paid_for_the_last() -> None:
    pace = tiers.Pace(100.0)
    assert pace.wait(50.0) == 0
    pace.spend(200, 50.0)
    assert pace.wait(50.5) == pytest.approx(1.5)
    assert pace.wait(60.0) == 0
    pace.spend(100, 60.0)  # the idle time is not saved up
    assert pace.wait(60.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("writers", "bytes_per_second", "days"), [(1, 100e3, 1), (4, 2e6, 1), (10, 5e6, 2)]
)
def test_a_table_of_an_hour_at_a_second_of_freshness_ends_with_few_files(
    writers: int, bytes_per_second: float, days: int
) -> None:
    """Each writer commits a file every second; the watcher has the default budget."""
    settings = CompactionSettings()
    pace = tiers.Pace(settings.budget)
    random = np.random.default_rng(7)
    files: dict[str, Listed] = {}
    written = rewritten = most = 0
    look = 0.0
    for second in range(3600):
        for writer in range(writers):
            size = int(random.lognormal(np.log(bytes_per_second / writers), 0.7)) + 1
            day = {"day": str(second * days // 3600)}
            files[f"{second}/{writer}"] = Listed(f"{second}/{writer}", size, second, day)
            written += size
        most = max(most, len(files))
        if second < look:
            continue
        busy = float(second)
        for group in tiers.due(files.values(), settings.target):
            busy += pace.wait(busy)
            pace.spend(tiers.size(group), busy)
            for file in group:
                del files[file.path]
            merged = f"merged {len(files)} {busy} {group[0].path}"
            files[merged] = Listed(merged, tiers.size(group), group[0].first, group[0].values)
            rewritten += tiers.size(group)
        look = busy + settings.interval
    assert len(files) <= 500
    assert sum(file.size for file in files.values()) == written
    assert rewritten <= 6 * written
    assert most <= 2500
