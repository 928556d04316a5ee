"""Consumers in several processes that take one partition from each other: each offset once."""

import multiprocessing
import random
import time
from pathlib import Path

import pytest

from lagless.errors import ClaimLost, TryAgain
from lagless.ports import Span
from tests.lake.files import P, claimed, offsets, table, written


def fight(path: str, seed: int, seconds: float) -> None:
    """Claim, read and commit, and be late now and then, until the time is over."""
    chance = random.Random(seed)
    lake = Path(path)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        one = table(lake)
        try:
            mine = one.claim([P[0]], None, dict, {P[0]: 0})
            for _ in range(chance.randint(1, 5)):
                at = one.look([P[0]])[P[0]]
                if at.owner != mine[P[0]]:
                    break
                end = at.offset + chance.randint(1, 4)
                file = written(lake, 0, at.offset, end)
                if chance.random() < 0.3:
                    time.sleep(chance.uniform(0, 0.1))
                if chance.random() < 0.2:
                    one.handle.update()
                one.commit([file], {P[0]: Span(at.offset, end)}, mine)
        except (ClaimLost, TryAgain):
            continue


@pytest.mark.slow
def test_whoever_wins_each_offset_lands_once(tmp_path: Path) -> None:
    claimed(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    fighters = [spawn.Process(target=fight, args=(str(tmp_path), n, 6.0)) for n in range(4)]
    for fighter in fighters:
        fighter.start()
    for fighter in fighters:
        fighter.join()
    assert [fighter.exitcode for fighter in fighters] == [0] * 4
    end = table(tmp_path).look([P[0]])[P[0]].offset
    assert end > 0
    assert offsets(tmp_path) == list(range(end))


def test_two_that_create_the_table_at_once_share_it(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    path = tmp_path / "table"
    makers = [spawn.Process(target=fight, args=(str(path), n, 1.0)) for n in range(2)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert [maker.exitcode for maker in makers] == [0, 0]
    end = table(path).look([P[0]])[P[0]].offset
    assert offsets(path) == list(range(end))
