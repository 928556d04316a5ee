"""The grid on Spark: the same rows everywhere, kept whole, and gone on with after a stop."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lagless.errors import WrongInput
from lagless.lab.paper import cells, experiments, gaps, grid, spread
from tests.lab.paper import alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = alone.SETTING
WANTED = cells.every(
    ["nf", "bfd", "mwf", "kd_<n>:n=4"], (5.0, 25.0), ("random", "zero"), (0, 1), (9,)
)


def plain(wanted: Sequence[cells.Cell], setting: cells.Setting = SETTING) -> Any:
    """Work through the cells in this process, one after the other."""
    table = pa.Table.from_batches([cells.work(cell, setting) for cell in wanted])
    keys = ["algorithm", "parameters", "delta", "start", "seed", "partitions", "iteration"]
    return table.sort_by([(key, "ascending") for key in keys])


def same(one: Any, other: Any) -> bool:
    """Compare rows; how long a packing took is never the same."""
    return bool(one.drop_columns(["seconds"]).equals(other.drop_columns(["seconds"])))


def kept(folder: Path, wanted: Sequence[cells.Cell]) -> None:
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    grid.keep(folder, wanted, plain(wanted))


def test_kept_rows_are_found_again(tmp_path: Path) -> None:
    kept(tmp_path, WANTED[:5])
    kept(tmp_path, WANTED[5:])
    assert set(grid.done(tmp_path)) == set(WANTED)
    assert same(grid.rows(tmp_path, WANTED), plain(WANTED))
    assert same(grid.rows(tmp_path, WANTED[3:7]), plain(WANTED[3:7]))


def test_a_file_that_was_not_finished_does_not_count(tmp_path: Path) -> None:
    kept(tmp_path, WANTED[:5])
    (tmp_path / "rows" / "x.unfinished").write_bytes(b"PAR1 and then nothing")
    assert set(grid.done(tmp_path)) == set(WANTED[:5])


def test_rows_get_their_cells_names_back() -> None:
    places = [place for place, _ in enumerate(WANTED[:3]) for _ in range(6)]
    whole = pa.Table.from_batches([cells.work(cell, SETTING) for cell in WANTED[:3]])
    sent = whole.select(["iteration", "consumers", "rscore", "migrations", "seconds"])
    sent = sent.append_column("cell", pa.array(places)).take(list(reversed(range(18))))
    back = grid.named(WANTED[:3], sent)
    assert back.schema == cells.SCHEMA
    assert back.to_pylist() == list(reversed(whole.to_pylist()))


def test_no_cells_give_no_rows(tmp_path: Path) -> None:
    kept(tmp_path, WANTED[:5])
    assert grid.rows(tmp_path, []).num_rows == 0


def test_chunks_have_a_cell_for_each_core_and_hold_all() -> None:
    large = cells.every(["nf"], (5.0,), ("zero",), range(5), (10**6,))
    assert [len(chunk) for chunk in grid.chunks(large, cells.Setting(20), cores=1)] == [1] * 5
    assert [len(chunk) for chunk in grid.chunks(large, cells.Setting(20), cores=2)] == [2, 2, 1]
    assert list(itertools.chain(*grid.chunks(WANTED, SETTING, cores=2))) == WANTED


@pytest.mark.spark
def test_connect_gives_the_rows_of_one_process(spark: "SparkSession", tmp_path: Path) -> None:
    seen: list[grid.Progress] = []
    rows = grid.run(spark, WANTED, SETTING, tmp_path, seen.append)
    assert same(rows, plain(WANTED))
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (0, len(WANTED), len(WANTED))
    columns = pq.read_schema(next((tmp_path / "rows").glob("*.parquet"))).names
    assert columns == cells.SCHEMA.names


@pytest.mark.spark
def test_latency_and_gaps_are_the_same_on_connect_and_in_one_process(spark: "SparkSession") -> None:
    names = ["kd_15", "mwf", "sticky", "keda_range"]
    seen: list[grid.Progress] = []
    assert spread.waits(spark, 3, names, seen.append) == experiments.over(range(3), names)
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (0, 3, 3)
    few = cells.every(["nf", "bfd", "sticky:slack=0"], (25.0,), ("random",), (0, 1), (8,))
    short = cells.Setting(measurements=3)
    assert spread.apart(spark, few, short, 5.0, seen.append) == gaps.over(few, short, 5.0)
    assert spread.apart(spark, [], short, 5.0, seen.append) == []


@pytest.mark.spark
def test_an_interrupted_run_goes_on_where_it_stopped(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "CHUNK_WORK", 9 * 6 * 4)

    def stop(progress: grid.Progress) -> None:
        if progress.done >= 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grid.run(spark, WANTED, SETTING, tmp_path, stop)
    before = grid.done(tmp_path)
    assert 8 <= len(before) < len(WANTED)
    worked: list[cells.Cell] = []
    collect = grid.collect

    def watched(spark: Any, chunk: list[cells.Cell], setting: cells.Setting) -> Any:
        worked.extend(chunk)
        return collect(spark, chunk, setting)

    monkeypatch.setattr(grid, "collect", watched)
    rows = grid.run(spark, WANTED, SETTING, tmp_path)
    assert set(worked) == set(WANTED) - set(before)
    assert same(rows, plain(WANTED))


@pytest.mark.spark
def test_rows_of_other_settings_are_not_mixed(spark: "SparkSession", tmp_path: Path) -> None:
    grid.run(spark, WANTED[:2], SETTING, tmp_path)
    with pytest.raises(WrongInput, match=r"other settings .*measurements 6"):
        grid.run(spark, WANTED[:2], cells.Setting(measurements=7), tmp_path)


def evaluate(words: Sequence[str], **environment: str) -> str:
    """Run Python on some words; a JVM of its own must not stay in the tests' process."""
    # A Connect session in this process leaves variables that would turn a child's into one too.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        timeout=900,
        env=clean | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def paper(master: str, out: Path, *conf: str) -> int:
    """Run the whole command on `alone.WANTED` as a user does, and give the rows it tells."""
    command = ["lagless", "evaluate", "paper", "--json", f"--master={master}", f"--out={out}"]
    command += ["--partitions=9", "--measurements=6", "--deltas=5,25", "--starts=random,zero"]
    command += ["--seeds=2", "--algorithms=ezzeddine", *(f"--conf={word}" for word in conf)]
    return int(json.loads(evaluate(command))["rows"])


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_of_two_workers_gives_the_rows_of_one_core(tmp_path: Path) -> None:
    from lagless.lab.parts.cluster import Cluster

    whole, one = tmp_path / "whole", tmp_path / "one"
    events = tmp_path / "events"
    events.mkdir()
    with Cluster(workers=2) as cluster:
        told = ("spark.eventLog.enabled=true", f"spark.eventLog.dir={events.as_uri()}")
        assert paper(cluster.url, whole, *told) == len(alone.WANTED) * 6
    assert list(events.iterdir()), "Spark was not told what --conf says"
    evaluate(["tests.lab.paper.alone", "local[1]", str(one)])
    rows = [grid.rows(folder, alone.WANTED) for folder in (whole / "grid", one)]
    assert same(rows[0], rows[1])
    assert same(rows[0], plain(alone.WANTED))
    assert (whole / "report.html").stat().st_size > 100_000
    lines = (whole / "tables" / "latency.csv").read_text().splitlines()
    assert [line for line in lines if line.startswith("0,mwf,")] == [
        ",".join(map(str, astuple(row))) for row in experiments.over([0], ["mwf"])
    ]
