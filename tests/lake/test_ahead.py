"""Files that are written before their cycle: used as they are, or deleted, and never twice."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lagless.adapters.lake import ingestion, store
from lagless.adapters.lake.drafts import Ahead, Draft
from lagless.adapters.lake.formats.json_format import JsonFormat
from lagless.errors import ClaimLost
from lagless.model import TopicPartition
from lagless.ports import Span
from tests.waiting import until

if TYPE_CHECKING:
    from lagless.consumer.cycle import Report
    from tests.lake.bench import Bench
    from tests.lake.conftest import Send

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
RECORD = 100
BATCH = 40 * RECORD + 1
"""Bytes of a cycle: forty records, and one byte against rounding."""
COUNT = 200
SCHEMA = "n BIGINT, pad STRING"


@pytest.fixture
def behind(
    bench: "Callable[..., Bench]", send: "Send", topic: Callable[..., str]
) -> "Iterator[Callable[..., Bench]]":
    """Return a function that makes a consumer with two partitions and a backlog of five cycles."""
    made: list[Bench] = []

    def make(**settings: Any) -> "Bench":
        name = topic(partitions=2)
        for p in range(2):
            texts = [f'{{"n": {number}, "pad": ""}}' for number in range(COUNT // 2)]
            send(name, [f"{x[:-2]}{'x' * (RECORD - len(x))}{x[-2:]}" for x in texts], partition=p)
        one = bench(name, **{"format": "json", "schema": SCHEMA, **settings})
        # How large a record is, as a monitor would have said: nothing is probed.
        one.claim()
        one.cycle.weights.monitored = dict.fromkeys(one.held, float(RECORD))
        made.append(one)
        return one

    yield make
    for one in made:
        one.lake.close()


@pytest.fixture
def drafts(monkeypatch: pytest.MonkeyPatch) -> list[Draft]:
    """Every draft that is made, by a cycle or ahead of it."""
    made: list[Draft] = []
    original = ingestion.draft

    def noted(*given: Any) -> Draft:
        made.append(original(*given))
        return made[-1]

    monkeypatch.setattr(ingestion, "draft", noted)
    return made


@pytest.fixture
def begun(behind: "Callable[..., Bench]", drafts: list[Draft]) -> "Bench":
    """Return a consumer after its first cycle, with the files of the second one written."""
    one = behind()
    landed(one.run(BATCH))
    until(lambda: len(drafts) == 2, "the next cycle's files")
    return one


@pytest.fixture
def other(begun: "Bench", bench: "Callable[..., Bench]") -> "Bench":
    """Return another consumer of the same group that has claimed the same partitions since."""
    one = bench(begun.topic, format="json", schema=SCHEMA)
    one.claim()
    return one


def offsets(one: "Bench") -> list[list[int]]:
    """Return the offsets of each partition, as they stand in the table."""
    rows = one.rows()
    return [[row["_offset"] for row in rows if row["_partition"] == p] for p in range(2)]


def landed(report: "Report") -> int:
    """Return the records of a cycle."""
    assert not report.troubles, report.troubles
    return sum(taken.intake.records for taken in report.taken.values())


def everything(one: "Bench") -> bool:
    """Return whether each record is in the table once, and no file is there for nothing."""
    whole = list(range(COUNT // 2))
    return offsets(one) == [whole, whole] and not one.strays()


def test_who_is_behind_has_each_file_written_once_and_before_its_cycle(
    behind: "Callable[..., Bench]", drafts: list[Draft]
) -> None:
    one = behind()
    assert [landed(one.run(BATCH)) for _ in range(5)] == [40] * 5
    assert everything(one)
    assert one.files() == len(drafts) == 5
    assert not one.cycle.gather(one.held).spans


def test_the_last_batch_is_not_begun_before_it_is_full(
    behind: "Callable[..., Bench]", drafts: list[Draft]
) -> None:
    one = behind()
    landed(one.run(4 * BATCH))
    assert len(drafts) == 1
    one.drain()
    assert everything(one)


def test_files_of_a_partition_that_has_moved_are_deleted(begun: "Bench", other: "Bench") -> None:
    (trouble,) = begun.run(BATCH).troubles.values()
    assert isinstance(trouble, ClaimLost)
    other.drain()
    # It comes back, and finds its files of no use: the table is elsewhere.
    begun.claim()
    begun.run(BATCH)
    begun.lake.close()
    assert everything(begun)


def test_files_that_another_read_meanwhile_are_not_added(begun: "Bench", other: "Bench") -> None:
    other.cycle.weights.monitored = begun.cycle.weights.monitored
    other.cycle.ahead = False
    landed(other.run(BATCH / 2))
    begun.claim()
    begun.drain()
    assert everything(begun)


def test_the_same_files_serve_if_a_partition_comes_back_where_it_was(
    begun: "Bench", other: "Bench"
) -> None:
    (written,) = begun.strays()
    assert other.held
    begun.claim()
    assert landed(begun.run(BATCH)) == 40
    assert (begun.path / written).exists()
    begun.drain()
    assert everything(begun)


def test_files_that_are_old_are_never_added(
    begun: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = begun.strays()
    now = time.monotonic

    class Later:
        """A clock after a long sleep."""

        @staticmethod
        def monotonic() -> float:
            return now() + begun.settings.consumer.cycle_deadline

    monkeypatch.setattr("lagless.adapters.lake.drafts.time", Later)
    assert landed(begun.run(BATCH)) == 40
    assert not (begun.path / old).exists()
    monkeypatch.undo()
    begun.drain()
    assert everything(begun)


def test_what_cannot_be_written_ahead_is_written_by_its_cycle(
    behind: "Callable[..., Bench]", monkeypatch: pytest.MonkeyPatch
) -> None:
    one = behind()
    original = ingestion.draft
    failed: list[Span] = []

    def fails_ahead(pipeline: Any, work: Any, *more: Any) -> Draft:
        if threading.current_thread().name == "ahead":
            failed.append(work.spans[min(work.spans)])
            raise OSError("no space left on device")
        return original(pipeline, work, *more)

    monkeypatch.setattr(ingestion, "draft", fails_ahead)
    assert [landed(one.run(BATCH)) for _ in range(5)] == [40] * 5
    assert failed == [Span(20, 40), Span(40, 60), Span(60, 80)]
    assert everything(one)


def test_at_the_end_nothing_stays_of_what_was_begun(behind: "Callable[..., Bench]") -> None:
    one = behind()
    landed(one.run(BATCH))
    one.lake.close()
    assert one.strays() == []
    assert offsets(one) == [list(range(20)), list(range(20))]


def test_a_cycle_past_its_deadline_leaves_nothing_begun(behind: "Callable[..., Bench]") -> None:
    one = behind()
    landed(one.run(BATCH))
    topic = one.claims.topics[one.topic]
    assert one.lake.begun(topic)
    one.lake.interrupt()
    assert not one.lake.begun(topic)
    until(lambda: not one.strays(), "the end of what was begun")
    one.drain()
    assert everything(one)


def test_a_draft_is_for_its_spans_and_its_format_alone(tmp_path: Path) -> None:
    lake = store.at(tmp_path)
    p = TopicPartition("t", 0)
    spans, form = {p: Span(5, 9)}, JsonFormat("n BIGINT")
    one = Ahead(spans, form, lambda: Draft(lake, None, [], {}, 0.0))  # type: ignore[arg-type]  # no frame
    assert one.usable(form, 60) == {p: Span(5, 9)}
    assert one.usable(form, 60) != {p: Span(5, 8)}
    assert one.usable(form, 60) != {p: Span(5, 9), TopicPartition("t", 1): Span(0, 1)}
    assert not one.usable(JsonFormat("n BIGINT, more STRING"), 60)
    assert not one.usable(form, 0)


def test_a_new_field_makes_what_was_begun_useless(behind: "Callable[..., Bench]") -> None:
    one = behind(schema="n BIGINT", evolve=True)
    for _ in range(7):
        report = one.run(BATCH)
        assert not report.troubles, report.troubles
    assert everything(one)
    assert all(row["pad"] and row["n"] is not None for row in one.rows())
