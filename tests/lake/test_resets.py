"""Reset: the table is either before or after, whatever fails, and rejects follow it."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st

from lagless.adapters.lake import data_files, resets, schemas, store
from lagless.adapters.lake.table import Table
from lagless.errors import ClaimLost, GiveUp, TryAgain
from lagless.model import TopicPartition
from lagless.ports import Position, Span, Topic
from tests.lake.files import SCHEMA, TOPIC, P, claimed, offsets, table, written


def rejects(path: Path) -> Table:
    """Return a new handle on the table of rejects."""
    return Table(store.at(path), "group", TOPIC, schemas.REJECTED)


def read(one: Table, path: Path, until: int, partition: int = 0, generation: int = 1) -> None:
    """Let a consumer read on to an offset, two offsets per commit."""
    p = P[partition]
    while (at := one.look([p])[p]).offset < until:
        end = min(at.offset + 2, until)
        file = written(path, partition, at.offset, end)
        assert one.commit([file], {p: Span(at.offset, end)}, {p: generation})


def reject(path: Path, offset: int, until: int) -> None:
    """Add one reject of partition 0, and let the table of rejects move on."""
    one = rejects(path)
    at = one.look([P[0]])[P[0]]
    row = {"_partition": 0, "_offset": offset, "_reason": "bad", "_topic_id": TOPIC.id}
    file = data_files.write_rows([row | {"_timestamp": 0}], schemas.REJECTED, one.store)
    assert one.commit([file], {P[0]: Span(at.offset, until)}, {P[0]: at.owner})


@pytest.mark.parametrize("to", [3, 9])
def test_a_reset_leaves_no_leader_epoch_even_where_the_offset_stays(
    tmp_path: Path, to: int
) -> None:
    one = claimed(tmp_path, 7, (0, 1))
    assert one.commit([], {p: Span(0, 9, 4) for p in P[:2]}, dict.fromkeys(P[:2], 7))
    resets.reset(table(tmp_path), {P[0]: to}, False, 1)
    positions = table(tmp_path).look(P[:2])
    assert [at.offset for at in positions.values()] == [to, 9]
    assert [at.epoch for at in positions.values()] == [-1, 4]


@pytest.mark.parametrize("remove", [False, True])
def test_a_reset_takes_the_partition_and_the_next_claim_begins_there(
    tmp_path: Path, remove: bool
) -> None:
    old = claimed(tmp_path, 7, (0, 1))
    read(old, tmp_path, 9, 0, 7)
    read(old, tmp_path, 9, 1, 7)
    file = written(tmp_path, 0, 9, 10)
    assert resets.reset(table(tmp_path), {P[0]: 3}, remove, 1) == (6 if remove else 0)
    with pytest.raises(ClaimLost) as lost:
        old.commit([file], {P[0]: Span(9, 10)}, {P[0]: 7})
    assert lost.value.partitions == {P[0]}
    assert old.look(P[:2]) == {P[0]: Position(3, 8), P[1]: Position(9, 7)}
    assert offsets(tmp_path) == list(range(3 if remove else 9))
    assert offsets(tmp_path, 1) == list(range(9))
    assert table(tmp_path).claim([P[0]], 9, dict, {}) == {P[0]: 9}
    new = table(tmp_path)
    read(new, tmp_path, 9, 0, 9)
    once = [*range(9)] if remove else [*range(9), *range(3, 9)]
    assert offsets(tmp_path) == sorted(once)


def test_a_reset_forward_removes_nothing(tmp_path: Path) -> None:
    one = claimed(tmp_path)
    read(one, tmp_path, 4)
    assert resets.reset(table(tmp_path), {P[0]: 100}, True, 1) == 0
    assert one.look([P[0]]) == {P[0]: Position(100, 2)}
    assert offsets(tmp_path) == [0, 1, 2, 3]


def test_the_rows_that_stay_are_as_they_were_and_are_found(tmp_path: Path) -> None:
    """A maximum timestamp that is cut to milliseconds would make readers skip the newest row."""
    one = claimed(tmp_path)
    one.look([P[0]])
    rows: list[dict[str, object]] = [
        {"_partition": 0, "_offset": o, "_timestamp": o * 1000 + 999, "value": "ä"}
        for o in range(6)
    ]
    file = data_files.write_rows(rows, SCHEMA, one.store)
    assert one.commit([file], {P[0]: Span(0, 6)}, {P[0]: 1})
    before = DeltaTable(str(tmp_path)).to_pyarrow_table(filters=[("_offset", "<", 4)])
    resets.reset(table(tmp_path), {P[0]: 4}, True, 1)
    after = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert after.sort_by("_offset").to_pylist() == before.sort_by("_offset").to_pylist()
    newest = [("_timestamp", ">=", max(before["_timestamp"].to_pylist()))]
    assert DeltaTable(str(tmp_path)).to_pyarrow_table(filters=newest).num_rows == 1


def test_rows_that_cannot_be_told_apart_are_not_removed(tmp_path: Path) -> None:
    read(claimed(tmp_path), tmp_path, 4)
    other = Table(store.at(tmp_path), "group", Topic("clicks", "B"), schemas.ALWAYS)
    theirs = TopicPartition("clicks", 0)
    other.claim([theirs], 1, lambda: {theirs: 0}, {})
    with pytest.raises(GiveUp, match="also has rows that were written as group/clicks"):
        resets.reset(table(tmp_path), {P[0]: 0}, True, 1)
    assert resets.reset(table(tmp_path), {P[0]: 0}, False, 1) == 0


@pytest.mark.parametrize("lands", [False, True])
def test_a_lost_answer_does_not_reset_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    one = claimed(tmp_path)
    read(one, tmp_path, 6)
    tool = table(tmp_path)
    really = tool.handle.write_without
    calls: list[int] = []

    def once(rows: str, ids: Mapping[str, int], note: Mapping[str, Any]) -> int:
        calls.append(1)
        if len(calls) > 1:
            return really(rows, ids, note)
        if lands:
            really(rows, ids, note)
            assert table(tmp_path).claim([P[0]], 2, dict, {}) == {P[0]: 2}
            read(table(tmp_path), tmp_path, 4, 0, 2)
        raise DeltaError("the disk is full")

    monkeypatch.setattr(tool.handle, "write_without", once)
    resets.reset(tool, {P[0]: 2}, True, 5)
    assert offsets(tmp_path) == list(range(4 if lands else 2))
    assert len(calls) == (1 if lands else 2)


def test_a_reset_that_is_never_accepted_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = claimed(tmp_path)
    read(one, tmp_path, 6)
    tool = table(tmp_path)

    def never(*_: object) -> int:
        raise DeltaError("no")

    monkeypatch.setattr(tool.handle, "write_without", never)
    monkeypatch.setattr("lagless.adapters.lake.delta.time.sleep", lambda _: None)
    with pytest.raises(TryAgain, match="nothing has changed"):
        resets.reset(tool, {P[0]: 2}, True, 5)
    assert one.look([P[0]]) == {P[0]: Position(6, 1)}
    assert offsets(tmp_path) == [0, 1, 2, 3, 4, 5]


@settings(max_examples=40, deadline=None)
@given(
    crash=st.booleans(),
    taken=st.booleans(),
    again=st.none() | st.integers(0, 5),
    to=st.integers(0, 5),
)
def test_rejects_follow_the_rows_whenever_the_reset_ends(
    tmp_path_factory: pytest.TempPathFactory, crash: bool, taken: bool, again: int | None, to: int
) -> None:
    """A reset that ends between its two commits is completed by whoever claims."""
    folder = tmp_path_factory.mktemp("reset")
    main, side = folder / "t", folder / "t_rejected"
    one = claimed(main)
    read(one, main, 6)
    for offset in (1, 3):
        reject(side, offset, offset + 1)
    tool = table(main)
    resets.reset(tool, {P[0]: to}, True, 11)
    if not crash:
        resets.complete(tool, rejects(side), [P[0]])
    lowest = to
    if again is not None:
        resets.reset(tool, {P[0]: again}, True, 12)
        lowest = min(to, again)
    new = table(main)
    new.claim([P[0]], 50, dict, {})
    resets.complete(new, rejects(side), [P[0]])
    assert offsets(side) == [offset for offset in (1, 3) if offset < lowest]
    assert rejects(side).look([P[0]])[P[0]].offset == min(lowest, 4)
    reject(side, 5, 6)
    if taken:  # a tool or an owner of before that wakes up late
        resets.complete(tool, rejects(side), [P[0]])
    table(main).claim([P[0]], 51, dict, {})
    resets.complete(table(main), rejects(side), [P[0]])
    assert offsets(side)[-1:] == [5]


def test_racing_consumers_and_resets_leave_each_offset_once(tmp_path: Path) -> None:
    """Two consumers that take the partition from each other, and a tool that resets in between."""
    dice = random.Random(7)
    claimed(tmp_path)
    readers: list[tuple[Table, dict[TopicPartition, int]]] = [(table(tmp_path), {}) for _ in "ab"]
    for turn in range(60):
        one, mine = dice.choice(readers)
        try:
            if not mine or dice.random() < 0.3:
                mine.clear()
                mine.update(one.claim([P[0]], None, dict, {}))
            at = one.look([P[0]])[P[0]]
            if at.owner != mine[P[0]]:
                mine.clear()
                continue
            file = written(tmp_path, 0, at.offset, at.offset + 2)
            if dice.random() < 0.4:
                to = dice.randrange(at.offset + 1)
                resets.reset(table(tmp_path), {P[0]: to}, True, turn + 100)
            one.commit([file], {P[0]: Span(at.offset, at.offset + 2)}, mine)
        except ClaimLost:
            mine.clear()
        end = table(tmp_path).look([P[0]])[P[0]].offset
        assert offsets(tmp_path) == list(range(end))
