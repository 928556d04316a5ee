"""`lagless reset` on the real broker and Spark: a dry run, then records are read again or not."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lagless.cli.app import gather
from lagless.errors import ClaimLost, WrongInput
from tests.lake.bench import Bench
from tests.lake.conftest import Send
from tests.lake.files import offsets

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def reset(bench: Bench, folder: Path, *options: str) -> dict[str, Any]:
    """Run the command and return its JSON."""
    config = folder / "lagless.toml"
    settings = bench.settings
    config.write_text(
        f'group = "{settings.group}"\ntopics = ["{bench.topic}"]\n'
        f'[kafka]\nbootstrap = "{settings.kafka.bootstrap}"\n'
        f'[spark]\nurl = "{settings.spark.url}"\n[lake]\npath = "{settings.lake.path}"\n'
        f'[topic."{bench.topic}"]\nformat = "json"\nschema = "n BIGINT"\n'
    )
    words = ["reset", "--config", str(config), "--topic", bench.topic, "--json", *options]
    ended = CliRunner().invoke(gather(), words)
    if ended.exception is not None:
        raise ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def forget(bench: Bench) -> None:
    """Let the consumer lose its partitions, and claim them again."""
    bench.held = {}
    bench.cycle.positions.clear()


def read_all(bench: Bench, until: int) -> None:
    """Run cycles until the table has read so far in partition 0."""
    ends = time.monotonic() + 120
    while True:
        report = bench.run()
        if report.troubles:
            raise next(iter(report.troubles.values()))
        if all(at >= until for p, at in bench.cycle.positions.items() if p.partition == 0):
            return
        assert time.monotonic() < ends


def test_a_reset_reads_again_what_it_said(
    bench: Callable[..., Bench], topic: Callable[..., str], send: Send, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    line = bench(name, format="json", schema="n BIGINT")
    send(name, [f'{{"n": {n}}}' for n in range(4)] + ["broken"], 0)
    send(name, ['{"n": 1}'], 1)
    line.claim()
    read_all(line, 5)
    assert offsets(line.path) == [0, 1, 2, 3]

    planned = reset(line, tmp_path, "--to", "earliest", "--dry-run")
    assert (planned["again"], planned["skipped"], planned["rows_there"]) == (6, 0, 5)
    with pytest.raises(WrongInput, match="choose --rows keep"):
        reset(line, tmp_path, "--to", "earliest")
    with pytest.raises(WrongInput, match="has the offsets 0 to 1"):
        reset(line, tmp_path, "--to", "3")
    read_all(line, 5)  # nothing of this took anything from the consumer

    done = reset(line, tmp_path, "--to", "2", "--partitions", "0", "--rows", "remove")
    assert done["partitions"] == {"0": {"before": 5, "to": 2, "again": 3, "skipped": 0, "rows": 2}}
    assert (done["rows_removed"], offsets(line.path)) == (2, [0, 1])
    assert offsets(line.path.with_name(f"{name}_rejected")) == []
    send(name, ['{"n": 5}'], 0)
    with pytest.raises(ClaimLost):
        read_all(line, 6)
    forget(line)
    read_all(line, 6)
    assert offsets(line.path) == [0, 1, 2, 3, 5]
    assert offsets(line.path.with_name(f"{name}_rejected")) == [4]
    assert offsets(line.path, 1) == [0]

    kept = reset(line, tmp_path, "--to", "1970-01-01T00:00:00Z", "--rows", "keep")
    assert (kept["again"], kept["rows_removed"]) == (7, 0)
    forget(line)
    read_all(line, 6)
    assert offsets(line.path) == sorted([0, 1, 2, 3, 5] * 2)
    assert offsets(line.path.with_name(f"{name}_rejected")) == [4]

    send(name, ['{"n": 6}'] * 3, 0)
    skipped = reset(line, tmp_path, "--to", "latest", "--partitions", "0")
    assert (skipped["again"], skipped["skipped"]) == (0, 3)
    send(name, ['{"n": 9}'], 0)
    forget(line)
    read_all(line, 10)
    assert offsets(line.path)[-1:] == [9]
    assert len(offsets(line.path)) == 11
