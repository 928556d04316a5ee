"""Cells of the grid: their rows, and that nothing but their names decides them."""

import numpy as np
import pytest

from lagless.errors import WrongInput
from lagless.lab.model import replay
from lagless.lab.paper import cells, experiments, grid

SETTING = cells.Setting(measurements=12)


def test_a_row_says_all_of_its_cell() -> None:
    batch = cells.work(cells.Cell("kd_<n>:n=3", 5.0, "half", 7, 9), SETTING)
    assert batch.schema == cells.SCHEMA
    rows = batch.to_pylist()
    assert len(rows) == 12
    assert rows[0] | {"seconds": 0.0} == {
        "algorithm": "kd_<n>",
        "parameters": "n=3",
        "delta": 5.0,
        "start": "half",
        "seed": 7,
        "partitions": 9,
        "iteration": 1,
        "consumers": 3,
        "rscore": 0.0,
        "migrations": 0,
        "seconds": 0.0,
    }
    assert [row["iteration"] for row in rows] == list(range(1, 13))
    assert all(row["seconds"] > 0 for row in rows)


def test_rows_are_a_replay_of_the_cells_stream() -> None:
    cell = cells.Cell("nf", 10.0, "random", 1, 20)
    batch = cells.work(cell, SETTING)
    found = replay.run("nf", cells.stream(cell, SETTING), 1.0, "shuffled", cells.seed(cell))
    assert batch.column("rscore").to_pylist() == found.rscore.tolist()
    assert batch.column("consumers").to_pylist() == found.consumers.tolist()


def test_algorithms_share_a_stream_and_nothing_else_does() -> None:
    cell = cells.Cell("nf", 10.0, "random", 1, 20)
    same = cells.Cell("mwf", 10.0, "random", 1, 20)
    assert np.array_equal(cells.stream(cell, SETTING), cells.stream(same, SETTING))
    others = [
        cells.Cell("nf", 5.0, "random", 1, 20),
        cells.Cell("nf", 10.0, "zero", 1, 20),
        cells.Cell("nf", 10.0, "random", 2, 20),
        cells.Cell("nf", 10.0, "random", 1, 21),
    ]
    assert len({cells.seed(one) for one in [cell, *others]}) == 5


def test_the_papers_grid_has_its_cells() -> None:
    assert len(cells.every(experiments.PAPER)) == 12 * 6 * 4
    assert len(set(cells.every(experiments.PAPER, seeds=range(3), partitions=(10, 20)))) == 1728


@pytest.mark.parametrize("text", ["5,x", "", "-1", "nan", "inf"])
def test_wrong_deltas_are_named(text: str) -> None:
    with pytest.raises(WrongInput, match="--deltas"):
        experiments.numbers(text, "--deltas")


def test_lists_are_split() -> None:
    assert experiments.numbers("0, 5,5,2.5", "--deltas") == [0.0, 5.0, 2.5]
    assert experiments.starts("zero, random,zero") == ["zero", "random"]
    with pytest.raises(WrongInput, match="--starts takes random, zero, half, full"):
        experiments.starts("late")


@pytest.mark.parametrize("word", ["spark.executor.cores", "executor.cores=2", "=2", ""])
def test_what_spark_is_told_has_a_key_of_sparks_and_a_value(word: str) -> None:
    with pytest.raises(WrongInput, match=r"--conf takes spark\.KEY=VALUE"):
        grid.settings([word])


def test_a_value_may_have_an_equals_sign_or_nothing() -> None:
    told = grid.settings(["spark.a=-Dx=1", "spark.b="])
    assert told == {"spark.a": "-Dx=1", "spark.b": ""}
