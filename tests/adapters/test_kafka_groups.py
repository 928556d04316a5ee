"""Every group of a cluster, on a real broker."""

import json
import subprocess
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lagless.adapters.kafka import group_list, topic_records, topics
from lagless.cli import cluster_views
from lagless.dashboard import group_page
from lagless.messages import ControllerState, Heartbeat, Mode
from lagless.ports import GroupSummary
from lagless.settings import Settings, parse

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

HTML = "<img src=x onerror=alert(1)>"


def test_groups_are_told_by_their_topics() -> None:
    own = [f"{g}.{part}" for g in ("a", "b.c") for part in ("state", "events", "controller")]
    assert group_list.names([*own, "x.controller", "y.state", ".controller", "t"]) == ["a", "b.c"]
    assert group_list.names([]) == []


def test_the_page_escapes_what_it_shows_and_has_no_script() -> None:
    page = group_page.page([GroupSummary("g", trouble=HTML), GroupSummary("h", "paused")], "/x")
    assert HTML not in page
    assert "&lt;img" in page
    assert "<script" not in page
    assert 'href="/x/assets/style.css"' in page
    assert "No group" in group_page.page([], "")


def settings_of(broker: "Broker", group: str, shared: str) -> dict[str, Any]:
    return {
        "group": group,
        "topics": ["orders"],
        "lake": {"path": "lake"},
        "kafka": {"bootstrap": broker.bootstrap},
        "monitor": {"topic": f"{shared}-speeds"},
        "controller": {"metadata_topic": f"{shared}-mail"},
    }


def fill(tree: Settings, consumers: int, mode: Mode) -> None:
    """Write what a controller and its consumers would."""
    topics.ensure(tree)
    state = ControllerState(
        group=tree.group,
        generation=4,
        team=tuple(range(1, consumers + 1)),
        target={"orders": {n: 1 + n % consumers for n in range(5)}},
        mode=mode,
        at=time.time(),
    )
    with closing(topic_records.Writer(tree.kafka)) as writer:
        writer.write(tree.state_topic, 0, state.encode(), "controller")
        for n in range(1, consumers):
            beat = Heartbeat(
                group=tree.group,
                consumer=n,
                incarnation="i",
                highest=4,
                state="ready",
                lag_seconds=n,
                lag_bytes=100,
                at=time.time(),
            )
            writer.write(tree.controller.metadata_topic, 0, beat.encode())


@pytest.mark.kafka
def test_every_group_of_a_cluster_is_listed(broker: "Broker", tmp_path: Path) -> None:
    shared = f"g{uuid.uuid4().hex[:8]}"
    trees = [parse(settings_of(broker, f"{shared}-{name}", shared)) for name in "abc"]
    fill(trees[0], 3, Mode())
    fill(trees[1], 2, Mode(operation="pause", who="ann", at=time.time()))
    topics.ensure(trees[2])
    file = tmp_path / "lagless.toml"
    file.write_text(
        f'group = "{shared}-a"\ntopics = ["orders"]\n[lake]\npath = "lake"\n'
        f'[kafka]\nbootstrap = "{broker.bootstrap}"\n'
        f'[controller]\nmetadata_topic = "{shared}-mail"\n[consumer]\nlost_after = 600\n'
    )
    found = {
        group.group.removeprefix(f"{shared}-"): group
        for group in group_list.summaries(
            trees[0].model_copy(
                update={"consumer": trees[0].consumer.model_copy(update={"lost_after": 600})}
            ),
            time.time(),
        )
        if group.group.startswith(shared)
    }
    assert (found["a"].alive, found["a"].consumers, found["a"].partitions) == (2, 3, 5)
    assert (found["a"].mode, found["a"].lag_seconds, found["a"].lag_bytes) == ("running", 2, 200)
    assert (found["b"].mode, found["b"].alive) == ("paused", 1)
    assert found["c"].trouble == "no controller has led it yet"
    row = cluster_views.row(found["a"])
    assert row == [f"{shared}-a", "running", "2 of 3", "5", "2.0 s", "200 B"]
    command = [sys.executable, "-m", "lagless", "status", "--all", "--config", str(file)]
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\t".join(row) in plain.stdout.splitlines()
    told = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    listed = {group["group"]: group for group in json.loads(told.stdout)["groups"]}
    assert listed[f"{shared}-b"]["mode"] == "paused"
