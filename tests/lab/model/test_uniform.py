"""Kafka's `uniform`: the rule is Kafka's, counts are level, and hot partitions may meet."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless.adapters.spark import jars, java
from lagless.lab.model import uniform
from lagless.lab.model.uniform import Held

Step = tuple[int, list[int]]
"""A number of partitions, and the members in the assignor's order."""


def history(rng: np.random.Generator) -> list[Step]:
    """Let members join, leave and join again, and partitions be added."""
    partitions, ranks = int(rng.integers(1, 70)), rng.permutation(14)
    present: set[int] = set()
    steps = []
    for _ in range(12):
        changed = int(rng.integers(14))
        present = present ^ {changed} or {changed}
        partitions += int(rng.integers(0, 3)) * (rng.random() < 0.2)
        steps.append((partitions, sorted(present, key=lambda name: ranks[name])))
    return steps


def kafkas(histories: Sequence[list[Step]]) -> list[list[Held]]:
    """Return what Kafka's own class gives."""
    lines = []
    for steps in histories:
        lines += ["new", *(" ".join(map(str, [count, *order])) for count, order in steps)]
    program = str(Path(__file__).with_name("KafkasUniform.java"))
    command = [str(java.find().path), "-cp", jars.classpath("broker"), program]
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, timeout=300, check=True
    )
    said = iter(done.stdout.splitlines())
    return [[_read(order, next(said)) for _, order in steps] for steps in histories]


def _read(order: list[int], line: str) -> Held:
    cells = line.split(" ")
    return {
        name: [int(number) for number in cell.split(",") if number]
        for name, cell in zip(order, cells, strict=True)
    }


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK to compile the comparison")
def test_the_rule_is_that_of_kafkas_own_class() -> None:
    rng = np.random.default_rng(0)
    histories = [history(rng) for _ in range(150)]
    for steps, expected in zip(histories, kafkas(histories), strict=True):
        held: Held = {}
        for (partitions, order), wanted in zip(steps, expected, strict=True):
            held = uniform.assign(partitions, order, held)
            assert {name: sorted(them) for name, them in held.items()} == wanted, steps


@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 2**32))
def test_counts_are_level_and_every_partition_has_one_reader(
    partitions: int, members: int, seed: int
) -> None:
    held = uniform.joined(partitions, members, np.random.default_rng(seed))
    counts = [len(them) for them in held.values()]
    assert len(held) == members
    assert max(counts) - min(counts) <= 1
    assert sorted(p for them in held.values() for p in them) == list(range(partitions))


def test_members_keep_what_they_have_as_far_as_their_count_allows() -> None:
    before = {0: [0, 1, 2, 3], 1: [4, 5]}
    assert uniform.assign(6, [0, 1], before) == {0: [0, 1, 2], 1: [3, 4, 5]}
    assert uniform.assign(6, [1, 0], {0: [0, 1], 1: []}) == {1: [2, 3, 4], 0: [0, 1, 5]}
    assert uniform.assign(3, [0, 1], {1: [0, 2]}) == {0: [1], 1: [0, 2]}


def test_ids_decide_what_meets_only_where_counts_differ() -> None:
    def together(members: int) -> set[frozenset[frozenset[int]]]:
        draws = (uniform.joined(32, members, np.random.default_rng(seed)) for seed in range(40))
        return {frozenset(map(frozenset, held.values())) for held in draws}

    assert len(together(4)) == 1, "a run that is repeated with new ids repeats its placement"
    assert len(together(5)) > 1
    assert together(5) == together(5)


def test_equal_speeds_never_overload_and_two_hot_partitions_sometimes_do() -> None:
    rng = np.random.default_rng(0)
    even = uniform.odds(np.full(8, 10.0), 4, 25.0, 50, rng)
    assert (even.overloaded, even.p10, even.p90) == (0.0, 0.8, 0.8)
    hot = np.array([20.0, 20.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    odds = uniform.odds(hot, 4, 25.0, 700, rng)
    assert 0.1 < odds.overloaded < 0.2, "the two meet on one of four members in 1 of 7 draws"
    assert (odds.p10, odds.p50, odds.p90) == (21 / 25, 21 / 25, 40 / 25)
    assert uniform.odds(hot, 4, 40.0, 50, rng).overloaded == 0.0


def test_enough_members_are_those_with_which_an_overload_is_rare() -> None:
    rng = np.random.default_rng(0)
    assert uniform.needed(np.full(8, 10.0), 25.0, 0.0, 50, rng) == 4
    hot = np.array([20.0, 20.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert uniform.needed(hot, 25.0, 0.2, 700, rng) == 4
    assert uniform.needed(hot, 25.0, 0.05, 700, rng) == 7
    assert uniform.needed(hot, 10.0, 0.0, 50, rng) == 8, "one for each partition, at most"
