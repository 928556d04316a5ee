"""`lagless compact --watch`: beside writers, beside a second one, and killed at any moment."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from deltalake import DeltaTable

from lagless.adapters.lake import tiers
from lagless.errors import WrongSettings
from lagless.operations.background_compaction import Watcher
from lagless.settings import Settings, parse
from lagless.wiring import compacting
from tests.lake.files import P, claimed, offsets, table
from tests.lake.test_compaction import fill
from tests.waiting import until

LEAST = {"group": "group", "topics": ["orders"]}


def settings(lake: Path, **compaction: object) -> Settings:
    return parse({**LEAST, "lake": {"path": str(lake)}, "compaction": compaction})


def files(path: Path) -> int:
    return len(DeltaTable(str(path)).file_uris())


@contextmanager
def watching(lake: Path, output: Path) -> Iterator["subprocess.Popen[str]"]:
    config = lake / "lagless.toml"
    config.write_text(
        f'group = "group"\ntopics = ["orders"]\nlake.path = "{lake}"\n'
        'compaction.interval = 0.2\ncompaction.budget = "1 GB/s"\n'
    )
    words = [*compacting.command(config, ()), "--json"]
    with output.open("w") as sink, subprocess.Popen(words, stdout=sink, text=True) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()


def test_two_watchers_beside_writers_and_a_kill_leave_every_row_once(tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    claimed(orders, 1, (0, 1))
    writers = [threading.Thread(target=fill, args=(orders, 30, p)) for p in range(2)]
    with (
        watching(tmp_path, tmp_path / "first") as first,
        watching(tmp_path, tmp_path / "second") as second,
    ):
        for thread in writers:
            thread.start()
        until(lambda: sum(1 for _ in orders.glob("*.parquet")) > files(orders), "a merge")
        first.send_signal(signal.SIGKILL)
        for thread in writers:
            thread.join()
        until(lambda: files(orders) <= 2 * tiers.ENOUGH, "few files")
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    for partition in range(2):
        assert offsets(orders, partition) == list(range(90))
    # The consumers' places are as they were.
    assert {at.offset for at in table(orders).look(P[:2]).values()} == {90}
    told = json.loads((tmp_path / "second").read_text())
    assert told["merges"] > 0
    assert told["files"] >= tiers.ENOUGH * told["merges"] / 2


def test_the_budget_holds_merges_back_and_the_end_does_not_wait_for_it(tmp_path: Path) -> None:
    for name in ("orders", "payments"):
        claimed(tmp_path / name)
        fill(tmp_path / name, 16)
    ending = Event()
    watcher = Watcher(settings(tmp_path, budget=0.001), (), 128_000_000, ending)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    until(lambda: watcher.done.merges == 1, "the first merge")
    ending.set()
    thread.join(60)
    assert not thread.is_alive()
    assert sorted(files(tmp_path / name) for name in ("orders", "payments")) == [1, 16]


def test_a_table_that_cannot_be_read_does_not_keep_the_others_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("orders", "payments"):
        claimed(tmp_path / name)
        fill(tmp_path / name, 16)
    next((tmp_path / "orders").glob("*.parquet")).write_bytes(b"torn")
    watcher = Watcher(settings(tmp_path), (), 128_000_000, Event())
    watcher.round()
    assert (files(tmp_path / "orders"), files(tmp_path / "payments")) == (16, 1)
    assert watcher.done.troubles == 1
    assert "orders cannot be compacted" in caplog.text


def test_it_runs_beside_the_controller_and_ends_with_it(tmp_path: Path) -> None:
    seconds = "import time, sys; print('up', flush=True); time.sleep(600)"
    output = tmp_path / "consumers" / "compact.log"
    with compacting.beside([sys.executable, "-c", seconds], output):
        until(lambda: output.exists() and "up" in output.read_text(), "the child")
        began = time.monotonic()
    assert time.monotonic() - began < 60
    assert output.read_text() == "up\n"


def test_a_group_on_kubernetes_is_told_to_run_it_elsewhere(tmp_path: Path) -> None:
    document = {**LEAST, "lake": {"path": str(tmp_path)}, "compaction": {"watch": True}}
    assert parse(document).compaction.watch
    with pytest.raises(WrongSettings, match="as a Deployment of its own"):
        parse({**document, "provisioner": {"kind": "kubernetes"}})
