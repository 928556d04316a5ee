"""`lagless rejects`: reasons, records, and reading them again, each exactly once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lagless.adapters.lake import compaction, data_files, retry_plans, schemas, store
from lagless.adapters.lake.table import Table
from lagless.cli.app import gather
from lagless.errors import GiveUp, TryAgain, WrongInput
from lagless.model import TopicPartition
from tests.lake.files import TOPIC, claimed

if TYPE_CHECKING:
    from tests.lake.bench import Bench
    from tests.lake.conftest import Send

MODULE = "tests.lake.transforms"
VALUES = ['{"a": 1}', '{"a": 13}', "no object", '{"a": 2}', '{"a": 13}']


def rejected_at(path: Path) -> Table:
    return Table(store.at(path), "group", TOPIC, schemas.REJECTED)


def rejects(path: Path, offsets: list[int]) -> Table:
    """Return a table with rejects of partition 0."""
    table = rejected_at(path)
    rows: list[dict[str, object]] = [
        {"_partition": 0, "_offset": offset, "_reason": "bad", "_topic_id": TOPIC.id}
        for offset in offsets
    ]
    table.store.prepare()
    file = data_files.write_rows(rows, schemas.REJECTED, table.store)
    table.handle.write([file], {})
    return table


def left(table: Table) -> list[int]:
    return sorted(table.store.table().to_pyarrow_table()["_offset"].to_pylist())


def test_what_has_landed_is_deleted_once_whoever_does_it(tmp_path: Path) -> None:
    main = claimed(tmp_path / "orders")
    rejected = rejects(tmp_path / "orders_rejected", [3, 5, 8])
    retry_plans.write(rejected, 17, {(0, 3), (0, 8)})
    retry_plans.complete(main, rejected)
    assert left(rejected) == [3, 5, 8], "nothing has landed yet"
    main.handle.update()
    main.handle.write([], {retry_plans.retry_id(main): 17})
    another = rejected_at(tmp_path / "orders_rejected")
    another.handle.open()
    main.handle.update()
    retry_plans.complete(main, rejected)
    assert left(rejected) == [5]
    # A reject of the same offset that came later is another one.
    rejects(tmp_path / "orders_rejected", [3])
    retry_plans.complete(main, another)
    assert left(rejected) == [3, 5]
    assert rejected.store.inside(retry_plans.PLANS).files() == []


def test_plans_outlive_a_vacuum(tmp_path: Path) -> None:
    claimed(tmp_path / "orders")
    rejected = rejects(tmp_path / "orders_rejected", [3])
    retry_plans.write(rejected, 17, {(0, 3)})
    place = rejected.store
    place.table().vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    compaction.compact(place)
    assert [file.name for file in place.inside(retry_plans.PLANS).files()] == ["17.json"]


def test_a_retry_without_a_topic_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "lagless.toml"
    config.write_text(f'group = "g"\ntopics = ["orders"]\nlake.path = "{tmp_path}"\n')
    for words, sentence in ((["--retry"], "needs a topic"), (["t", "--retry", "--show"], "all")):
        ended = CliRunner().invoke(gather(), ["rejects", "-c", str(config), *words])
        assert isinstance(ended.exception, WrongInput)
        assert sentence in str(ended.exception)
    ended = CliRunner().invoke(gather(), ["rejects", "-c", str(config)])
    assert ended.stdout == "no records were rejected\n"


def test_people_see_reasons_and_records(tmp_path: Path) -> None:
    rejects(tmp_path / "orders_rejected", [3, 5])
    config = tmp_path / "lagless.toml"
    config.write_text(f'group = "g"\ntopics = ["orders"]\nlake.path = "{tmp_path}"\n')

    def said(*words: str) -> list[str]:
        ended = CliRunner().invoke(gather(), ["rejects", "-c", str(config), *words])
        assert ended.exit_code == 0, ended.output
        return ended.stdout.splitlines()

    assert said() == said("orders") == ["orders\t2\tbad"]
    assert said("orders", "--show", "--limit", "1", "--reason", "ba") == [
        "orders:0 offset 3, None: bad",
        "  value None",
    ]
    assert said("--show", "--reason", "good") == ["no such records were rejected"]
    assert said("payments") == ["no records were rejected"]


# ---------------------------------------------------------------------- with Kafka and Spark


def command(one: "Bench", folder: Path, transform: str, *words: str) -> dict[str, Any]:
    """Run the command and return its JSON."""
    config = folder / "lagless.toml"
    settings = one.settings
    config.write_text(
        f'group = "{settings.group}"\ntopics = ["{one.topic}"]\n'
        f'[kafka]\nbootstrap = "{settings.kafka.bootstrap}"\n'
        f'[spark]\nurl = "{settings.spark.url}"\n[lake]\npath = "{settings.lake.path}"\n'
        f'[topic."{one.topic}"]\nformat = "json"\nschema = "a BIGINT"\n'
        f'transform = "{MODULE}:{transform}"\n'
    )
    words = ("rejects", "--config", str(config), "--json", *words)
    ended = CliRunner().invoke(gather(), words)
    if ended.exception is not None:
        raise ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def numbers(one: "Bench", suffix: str = "") -> list[int]:
    return [row["_offset"] for row in one.rows(suffix)]


@pytest.mark.kafka
@pytest.mark.spark
def test_rejects_are_listed_shown_and_read_again_after_a_fix(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    send(name, VALUES, key="k")
    one = bench(name, format="json", schema="a BIGINT", transform=f"{MODULE}:picky")
    one.drain()
    assert (numbers(one), numbers(one, "_rejected")) == ([0, 3], [1, 2, 4])
    reasons = command(one, tmp_path, "picky")["tables"][name]
    assert sorted(reasons.values()) == [1, 2]
    shown = command(one, tmp_path, "picky", name, "--show", "--reason", "unlucky")
    assert [(row["offset"], row["value"], row["key"]) for row in shown["tables"][name]] == [
        (1, '{"a": 13}', "k"),
        (4, '{"a": 13}', "k"),
    ]
    # Without a fix nothing changes.
    told = command(one, tmp_path, "picky", name, "--retry")
    assert (told["read"], told["landed"], sum(told["still"].values())) == (3, 0, 3)
    assert (numbers(one), numbers(one, "_rejected")) == ([0, 3], [1, 2, 4])
    told = command(one, tmp_path, "mended", name, "--retry")
    assert (told["read"], told["landed"], told["rows"], told["already"]) == (3, 2, 2, 0)
    assert told["still"] == {"no JSON object that fits the schema": 1}
    assert (numbers(one), numbers(one, "_rejected")) == ([0, 1, 3, 4], [2])
    assert [row["a"] for row in one.rows()] == [1, 13, 2, 13]
    assert [row["_key"] for row in one.rows()] == [b"k"] * 4
    told = command(one, tmp_path, "mended", name, "--retry")
    assert (told["read"], told["landed"]) == (1, 0)
    # The consumer goes on where it was.
    send(name, ['{"a": 5}'])
    one.drain()
    assert numbers(one) == [0, 1, 3, 4, 5]
    assert one.strays() == []


class KilledError(Exception):
    """The process ends here."""


@pytest.mark.kafka
@pytest.mark.spark
def test_a_retry_that_is_killed_or_overtaken_leaves_each_record_once(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    name = topic()
    send(name, VALUES)
    picky = bench(name, format="json", schema="a BIGINT", transform=f"{MODULE}:picky")
    picky.drain()

    def mended() -> "Bench":
        return bench(name, format="json", schema="a BIGINT", transform=f"{MODULE}:mended")

    known = picky.offsets.topics([name])[name][0]
    p = TopicPartition(name, 0)
    marks = iter(range(1, 100))

    def retry(at: str = "", act: Callable[[], object] = lambda: None) -> int:
        def between(step: str) -> None:
            if step == at:
                act()

        return mended().lake.retry(known, lambda: next(marks), between).landed

    def killed() -> None:
        raise KilledError

    # Rejects in front of the position belong to a cycle that has not landed yet.
    rejected = picky.lake._pipeline(known).rejected.table
    early = [{"_partition": 0, "_offset": 9, "_value": b'{"a": 9}', "_topic_id": known.id}]
    file = data_files.write_rows(list(map(dict, early)), schemas.REJECTED, rejected.store)
    rejected.handle.update()
    rejected.handle.write([file], {})

    with pytest.raises(KilledError):
        retry("planned", killed)
    assert (numbers(picky), numbers(picky, "_rejected")) == ([0, 3], [1, 2, 4, 9])
    # A reset to where it is changes no row, and takes the partition from its reader.
    with pytest.raises(TryAgain, match="a reset or another retry came between"):
        retry("planned", lambda: mended().lake.reset(known, {p: 5}, False, 77))
    assert (numbers(picky), numbers(picky, "_rejected")) == ([0, 3], [1, 2, 4, 9])
    # Another retry is faster.
    with pytest.raises(TryAgain, match="a reset or another retry came between"):
        retry("planned", lambda: _first(retry, killed))
    assert numbers(picky) == [0, 1, 3, 4], "the first has landed"
    assert numbers(picky, "_rejected") == [1, 2, 4, 9], "and was killed before it deleted them"
    follower = mended()
    follower.claim(9)
    assert numbers(picky, "_rejected") == [2, 9]
    assert retry() == 0
    assert (numbers(picky), numbers(picky, "_rejected")) == ([0, 1, 3, 4], [2, 9])
    assert follower.strays() == []


def _first(retry: Callable[..., int], killed: Callable[[], None]) -> None:
    with pytest.raises(KilledError):
        retry("landed", killed)


@pytest.mark.kafka
@pytest.mark.spark
def test_a_table_of_two_topics_keeps_its_rejects(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> None:
    first, second = topic(), topic()
    for name in (first, second):
        send(name, [b"\xff"])
        one = bench(name, format="text", table="both")
        one.drain()
    known = one.offsets.topics([second])[second][0]
    with pytest.raises(GiveUp, match="rejects that have landed cannot be told from those"):
        one.lake.retry(known, lambda: 5)


def test_spans_of_a_plan_are_of_one_partition_each() -> None:
    from lagless.adapters.lake import retries

    places = [(n // 5000, n % 5000) for n in range(10_000)]
    portions = list(retries._portions(places))
    assert [place for portion in portions for place in portion] == places
    assert all(len({number for number, _ in portion}) == 1 for portion in portions)
    assert max(map(len, portions)) == retries.PORTION
