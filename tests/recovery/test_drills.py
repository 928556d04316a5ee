"""Each recovery of docs/guides/recover.md, by the commands of the page, with the promised counts.

The group and its table are the same throughout: each recovery begins where the last one ended.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lagless.lab.parts.broker import Broker
from tests.recovery import page
from tests.recovery.group import Group

if TYPE_CHECKING:
    from lagless.lab.parts.connect import ConnectServer

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(900),
]
SOME = 20
COMMANDS = page.commands()


@pytest.fixture(scope="module")
def group(
    tmp_path_factory: pytest.TempPathFactory, broker: Broker, connect: "ConnectServer"
) -> Iterator[Group]:
    folder = tmp_path_factory.mktemp("recovery")
    with Broker(folder / "kafka-1", settings={"log.retention.ms": "-1"}) as first:
        made = Group(folder, {"kafka-1:9092": first, "kafka-2:9092": broker}, connect.url)
        made.shell(
            "kafka-topics.sh --bootstrap-server kafka-1:9092 --create --topic orders --partitions 2"
        )
        made.start()
        try:
            made.produce(SOME)
            made.landed()
            yield made
        finally:
            made.stop()


def recover(group: Group, name: str, **said: str) -> None:
    """Run the page's commands while records wait, with what the page leaves to its reader."""
    group.produce(SOME)
    text = COMMANDS[name]
    for words in said.items():
        text = text.replace(*words)
    group.shell(text)


def once(group: Group) -> None:
    """Find each record in the table once, those that are produced now included."""
    group.produce(SOME)
    assert group.landed() == Counter(group.produced)


def test_every_recovery_has_a_test() -> None:
    wanted = {re.sub(r"[ .]", "_", name.lower().replace("'", "")) for name in COMMANDS}
    assert {f"test_{name}" for name in wanted} <= set(globals())


def test_the_lake_is_lost(group: Group) -> None:
    shutil.rmtree(group.lake / group.topic)
    recover(group, "The lake is lost")
    once(group)


def test_the_lake_is_restored_from_a_backup(group: Group) -> None:
    shutil.copytree(group.lake, group.folder / "srv" / "backup" / "lake")
    group.produce(SOME)
    group.landed()
    recover(group, "The lake is restored from a backup")
    once(group)


def test_data_files_of_a_table_are_lost(group: Group) -> None:
    table = group.lake / group.topic
    before = set(DeltaTable(str(table)).file_uris())
    then = datetime.now(UTC).isoformat(timespec="milliseconds")
    group.produce(SOME)
    group.landed()
    lost = set(DeltaTable(str(table)).file_uris()) - before
    for file in lost:
        Path(file).unlink()
    with pytest.raises(OSError, match=r"No such file|not found"):
        group.rows()
    recover(group, "Data files of a table are lost", **{"2026-05-31T06:00:00Z": then})
    once(group)


def test_the_topic_group_state_was_deleted(group: Group) -> None:
    group.delete_topics(group.settings.state_topic)
    recover(group, "The topic GROUP.state was deleted")
    once(group)


def test_the_topic_consumer_metadata_was_deleted(group: Group) -> None:
    group.delete_topics(group.settings.controller.metadata_topic)
    recover(group, "The topic consumer.metadata was deleted")
    once(group)
    # Mail reaches every consumer again.
    group.shell("lagless pause --wait 120\nlagless resume")


def test_the_brokers_disk_is_lost(group: Group) -> None:
    read = list(group.produced)
    first = group.brokers["kafka-1:9092"]
    first.stop()
    shutil.rmtree(first.data_dir / "data")
    first.start()
    group.shell(COMMANDS["The broker's disk is lost"])
    group.produce(SOME)
    assert group.landed() == Counter(group.produced)
    gone = DeltaTable(str(group.lake / f"{group.topic}_gone")).to_pyarrow_table().to_pylist()
    assert sorted((row["_partition"], row["first"], row["until"]) for row in gone) == [
        (0, len(read) // 2, None),
        (1, len(read) // 2, None),
    ]


def test_the_group_moves_to_another_cluster(group: Group) -> None:
    recover(group, "The group moves to another cluster")
    group.produce(SOME, "kafka-2:9092")
    assert group.landed() == Counter(group.produced)
