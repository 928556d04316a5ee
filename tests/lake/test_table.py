"""Exactly once: each step of claim, look and commit, with a test that fails without it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st

from lagless.adapters.lake import delta, schemas, side_tables, store
from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.table import Table
from lagless.errors import ClaimLost, TryAgain
from lagless.ports import Position, Span, Topic
from lagless.settings import TopicSettings
from tests.lake.files import TOPIC, P, claimed, offsets, table, written


def test_files_and_offsets_land_together(tmp_path: Path) -> None:
    one = claimed(tmp_path, 7)
    assert one.look([P[0]]) == {P[0]: Position(0, 7)}
    assert one.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 7})
    assert table(tmp_path).look([P[0]]) == {P[0]: Position(5, 7)}
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]


def test_the_leader_epoch_of_an_offset_lands_with_it(tmp_path: Path) -> None:
    one = claimed(tmp_path, 7)
    assert one.look([P[0]])[P[0]].epoch == -1
    assert one.commit([], {P[0]: Span(0, 5, 3)}, {P[0]: 7})
    assert table(tmp_path).look([P[0]])[P[0]].epoch == 3
    # A claim leaves the offset, and what is known of it.
    assert claimed(tmp_path, 8).look([P[0]])[P[0]].epoch == 3


@pytest.mark.parametrize("epoch", [0, 2**31 - 1])
def test_an_epoch_counts_for_its_offset_alone(epoch: int, tmp_path: Path) -> None:
    """A reset, or an older version of lagless, moves the offset and leaves the epoch."""
    one = claimed(tmp_path, 7)
    far = 2**40 + 5
    assert one.commit([], {P[0]: Span(0, far, epoch)}, {P[0]: 7})
    assert one.look([P[0]])[P[0]].epoch == epoch
    assert one.commit([], {P[0]: Span(far, far + 1)}, {P[0]: 7})
    assert one.look([P[0]])[P[0]].epoch == -1


def test_a_claim_refuses_what_the_old_owner_has_in_flight(tmp_path: Path) -> None:
    old = claimed(tmp_path, 1)
    old.look([P[0]])
    file = written(tmp_path, 0, 0, 5)
    claimed(tmp_path, 2)
    with pytest.raises(ClaimLost) as lost:
        old.commit([file], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert lost.value.partitions == {P[0]}
    assert lost.value.owner == 2
    assert offsets(tmp_path) == []
    assert not (tmp_path / file.name).exists()


def test_a_claim_says_so_even_if_nothing_else_changed(tmp_path: Path) -> None:
    """Touch the ids although their versions stay: else the commit in flight would land."""
    old = claimed(tmp_path, 1)
    new = claimed(tmp_path, 2)
    assert new.look([P[0]]) == {P[0]: Position(0, 2)}
    assert old.look([P[0]]) == {P[0]: Position(0, 2)}


def test_an_older_order_cannot_claim(tmp_path: Path) -> None:
    claimed(tmp_path, 5)
    with pytest.raises(ClaimLost) as lost:
        table(tmp_path).claim([P[0]], 4, dict, {})
    assert lost.value.owner == 5


def test_the_same_order_may_claim_twice(tmp_path: Path) -> None:
    claimed(tmp_path, 5)
    assert table(tmp_path).claim([P[0]], 5, dict, {}) == {P[0]: 5}


def test_by_hand_the_next_generation_is_taken(tmp_path: Path) -> None:
    claimed(tmp_path, 5)
    assert table(tmp_path).claim([P[0]], None, dict, {}) == {P[0]: 6}


def test_a_remembered_offset_is_not_committed_on_an_updated_handle(tmp_path: Path) -> None:
    """delta-rs compares snapshots, not versions: step 1 is what refuses this."""
    slow, quick = claimed(tmp_path), table(tmp_path)
    slow.look([P[0]])
    late = written(tmp_path, 0, 0, 3)
    quick.look([P[0]])
    assert quick.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    slow.handle.update()
    assert not slow.commit([late], {P[0]: Span(0, 3)}, {P[0]: 1})
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]
    assert not (tmp_path / late.name).exists()


def test_a_commit_on_the_handle_of_the_look_is_refused_when_the_table_moved(tmp_path: Path) -> None:
    slow, quick = claimed(tmp_path), table(tmp_path)
    slow.look([P[0]])
    quick.look([P[0]])
    assert quick.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert not slow.commit([written(tmp_path, 0, 0, 3)], {P[0]: Span(0, 3)}, {P[0]: 1})
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]


def test_past_its_deadline_a_cycle_never_commits(tmp_path: Path) -> None:
    one = claimed(tmp_path)

    def too_late() -> None:
        raise TryAgain("too late")

    with pytest.raises(TryAgain, match="too late"):
        one.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1}, too_late)
    assert offsets(tmp_path) == []


def test_the_own_last_commit_does_not_refuse_the_next(tmp_path: Path) -> None:
    """create_write_transaction leaves the handle behind: step 4 brings it on."""
    one = claimed(tmp_path)
    assert one.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert one.positions([P[0]]) == {P[0]: Position(5, 1)}
    assert one.commit([written(tmp_path, 0, 5, 6)], {P[0]: Span(5, 6)}, {P[0]: 1})
    assert offsets(tmp_path) == [0, 1, 2, 3, 4, 5]


Write = Callable[[Sequence[File], Mapping[str, int]], None]


def failing(
    monkeypatch: pytest.MonkeyPatch, one: Table, error: Exception, lands: bool
) -> list[int]:
    """Let the next write raise, before or after it landed; later ones are as ever."""
    write: Write = one.handle.write
    calls: list[int] = []

    def once(*arguments: Any) -> None:
        calls.append(len(calls))
        if len(calls) > 1 or lands:
            write(*arguments)
        if len(calls) == 1:
            raise error

    monkeypatch.setattr(one.handle, "write", once)
    return calls


@pytest.mark.parametrize("error", [OSError("disk full"), DeltaError("checkpoint failed")])
def test_an_exception_after_the_commit_landed_makes_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    one = claimed(tmp_path)
    calls = failing(monkeypatch, one, error, lands=True)
    assert one.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert len(calls) == 1
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]


def test_a_commit_that_did_not_land_is_made_again_with_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = claimed(tmp_path)
    calls = failing(monkeypatch, one, OSError("disk full"), lands=False)
    assert one.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert len(calls) == 2
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]


def test_a_disk_that_stays_full_is_passing_trouble_and_the_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = claimed(tmp_path)
    file = written(tmp_path, 0, 0, 5)

    def full(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(one.handle, "write", full)
    monkeypatch.setattr("lagless.adapters.lake.delta.ATTEMPTS", 3)
    with pytest.raises(TryAgain, match="disk full"):
        one.commit([file], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert (tmp_path / file.name).exists()
    assert offsets(tmp_path) == []


def test_new_columns_of_another_do_not_lose_a_commit(tmp_path: Path) -> None:
    """delta-rs refuses innocent writers with "metadata changed": versions unchanged, once more."""
    one, other = claimed(tmp_path), table(tmp_path)
    one.look([P[0]])
    schemas.fit(
        other, pa.schema([*schemas.ALWAYS, ("new", pa.string())]), TopicSettings(evolve=True)
    )
    assert one.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]


def test_writers_of_other_partitions_are_not_disturbed(tmp_path: Path) -> None:
    one = claimed(tmp_path, 1, (0, 1))
    other = table(tmp_path)
    one.look([P[0]])
    other.look([P[1]])
    assert other.commit([written(tmp_path, 1, 0, 2)], {P[1]: Span(0, 2)}, {P[1]: 1})
    assert one.commit([written(tmp_path, 0, 0, 3)], {P[0]: Span(0, 3)}, {P[0]: 1})
    assert (offsets(tmp_path, 0), offsets(tmp_path, 1)) == ([0, 1, 2], [0, 1])


def test_one_lost_partition_refuses_the_whole_commit(tmp_path: Path) -> None:
    one = claimed(tmp_path, 1, (0, 1))
    one.look([P[0], P[1]])
    table(tmp_path).claim([P[1]], 2, dict, {})
    with pytest.raises(ClaimLost) as lost:
        one.commit(
            [written(tmp_path, 0, 0, 3)],
            {P[0]: Span(0, 3), P[1]: Span(0, 2)},
            dict.fromkeys(P[:2], 1),
        )
    assert lost.value.partitions == {P[1]}
    assert offsets(tmp_path) == []


def test_a_range_without_records_moves_on_without_files(tmp_path: Path) -> None:
    one = claimed(tmp_path)
    assert one.commit([], {P[0]: Span(0, 9)}, {P[0]: 1})
    assert table(tmp_path).look([P[0]])[P[0]].offset == 9


def test_listed_files_are_never_deleted(tmp_path: Path) -> None:
    one = claimed(tmp_path)
    file = written(tmp_path, 0, 0, 5)
    assert one.commit([file], {P[0]: Span(0, 5)}, {P[0]: 1})
    one.handle.discard([file])
    assert (tmp_path / file.name).exists()


def test_the_first_to_meet_a_topic_says_where_every_partition_begins(tmp_path: Path) -> None:
    begins = {P[0]: 10, P[1]: 20, P[2]: 30}
    assert table(tmp_path).claim([P[0]], 1, lambda: begins, {P[0]: 0, P[1]: 0, P[2]: 0}) == {
        P[0]: 1
    }
    later = table(tmp_path)
    later.claim([P[1]], 1, lambda: {P[1]: 99}, {P[1]: 0})
    assert later.look([P[0], P[1], P[2]]) == {
        P[0]: Position(10, 1),
        P[1]: Position(20, 1),
        P[2]: Position(30, 0),
    }


def test_a_partition_added_later_begins_at_the_earliest(tmp_path: Path) -> None:
    claimed(tmp_path)
    later = table(tmp_path)
    later.claim([P[7]], 1, lambda: {P[7]: 99}, {P[7]: 3})
    assert later.look([P[7]])[P[7]].offset == 3


def test_a_topic_created_again_does_not_meet_its_old_offsets(tmp_path: Path) -> None:
    old = claimed(tmp_path)
    assert old.commit([], {P[0]: Span(0, 500)}, {P[0]: 1})
    recreated = table(tmp_path, Topic(TOPIC.name, "BBBBBBBBBBBBBBBBBBBBBB"))
    recreated.claim([P[0]], 1, lambda: {P[0]: 99}, {P[0]: 0})
    assert recreated.look([P[0]])[P[0]].offset == 0
    assert recreated.handle.entries()["group/orders/AAAAAAAAAAAAAAAAAAAAAA/0"] == 500


def test_what_is_in_flight_for_a_topic_that_is_no_more_does_not_land(tmp_path: Path) -> None:
    old = claimed(tmp_path, 3)
    assert old.commit([written(tmp_path, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 3})
    old.look([P[0]])
    file = written(tmp_path, 0, 5, 9)
    recreated = table(tmp_path, Topic(TOPIC.name, "BBBBBBBBBBBBBBBBBBBBBB"))
    (former,) = recreated.close_former([P[0]])
    assert (former.topic, former.partition, former.offset) == (TOPIC, P[0], 5)
    with pytest.raises(ClaimLost):
        old.commit([file], {P[0]: Span(5, 9)}, {P[0]: 3})
    assert offsets(tmp_path) == [0, 1, 2, 3, 4]
    assert recreated.close_former([P[0]]) == [former]


def test_who_has_slept_finds_out_before_it_says_what_is_gone(tmp_path: Path) -> None:
    old = claimed(tmp_path, 1)
    old.check({P[0]: Span(0, 5)}, {P[0]: 1})
    assert claimed(tmp_path, 2).commit([], {P[0]: Span(0, 5)}, {P[0]: 2})
    with pytest.raises(ClaimLost):
        old.check({P[0]: Span(0, 5)}, {P[0]: 1})
    with pytest.raises(TryAgain):
        old.check({P[0]: Span(0, 5)}, {P[0]: 2})


def test_entries_are_found_over_checkpoints(tmp_path: Path) -> None:
    one = claimed(tmp_path)
    assert one.commit([], {P[0]: Span(0, 5)}, {P[0]: 1})
    DeltaTable(str(tmp_path)).create_checkpoint()
    assert one.commit([], {P[0]: Span(5, 6)}, {P[0]: 1})
    assert table(tmp_path).handle.entries() == {
        "group/orders": 1,
        "group/orders/AAAAAAAAAAAAAAAAAAAAAA/0": 6,
        "group/orders/AAAAAAAAAAAAAAAAAAAAAA/0/owner": 1,
    }


def test_entries_are_what_delta_rs_says(tmp_path: Path) -> None:
    one, other = claimed(tmp_path, 1, (0, 1)), table(tmp_path)
    for number in range(25):
        assert one.commit([], {P[0]: Span(number, number + 1)}, {P[0]: 1})
        if number % 10 == 3:
            DeltaTable(str(tmp_path)).create_checkpoint()
        if number % 7 == 0:
            other.handle.update()
        handle = other.handle.open()
        for name, version in other.handle.entries().items():
            assert handle.transaction_version(name) == version


def test_a_handle_survives_a_log_that_was_shortened_past_it(tmp_path: Path) -> None:
    behind, busy = claimed(tmp_path, 1, (0, 1)), table(tmp_path)
    for number in range(30):
        busy.look([P[1]])
        assert busy.commit(
            [written(tmp_path, 1, number, number + 1)], {P[1]: Span(number, number + 1)}, {P[1]: 1}
        )
    DeltaTable(str(tmp_path)).create_checkpoint()
    assert delta.shorten(store.at(tmp_path), kept=5, grace=-1) > 10
    assert behind.commit([written(tmp_path, 0, 0, 3)], {P[0]: Span(0, 3)}, {P[0]: 1})
    assert offsets(tmp_path) == [0, 1, 2]
    assert offsets(tmp_path, 1) == list(range(30))


def test_a_former_owner_is_refused_although_the_claim_left_the_log(tmp_path: Path) -> None:
    old = claimed(tmp_path, 1, (0, 1))
    old.look([P[0]])
    claimed(tmp_path, 2)
    busy = table(tmp_path)
    for number in range(30):
        busy.look([P[1]])
        assert busy.commit([], {P[1]: Span(number, number + 1)}, {P[1]: 1})
    DeltaTable(str(tmp_path)).create_checkpoint()
    assert delta.shorten(store.at(tmp_path), kept=5, grace=-1) > 10
    with pytest.raises(ClaimLost):
        old.commit([written(tmp_path, 0, 0, 3)], {P[0]: Span(0, 3)}, {P[0]: 1})
    assert offsets(tmp_path) == []


def test_the_log_is_as_long_as_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "SHORTEN_EVERY", 40)
    monkeypatch.setattr(delta, "shorten", partial(delta.shorten, grace=-1))
    one = Table(store.at(tmp_path), "group", TOPIC, schemas.ALWAYS, log_entries=100)
    one.claim([P[0]], 1, lambda: {P[0]: 0}, {P[0]: 0})
    for number in range(170):
        one.look([P[0]])
        assert one.commit([], {P[0]: Span(number, number + 1)}, {P[0]: 1})
    kept = len(list((tmp_path / "_delta_log").glob("*.json")))
    assert 100 < kept < 160  # those behind the checkpoint, those after it, and those since


@given(st.integers(0, 40), st.integers(1, 40), st.sets(st.integers(0, 100)))
def test_what_is_kept_is_cut_out_of_what_is_gone(first: int, length: int, kept: set[int]) -> None:
    span = Span(first, first + length)
    pieces = side_tables.without(span, kept)
    named = [offset for piece in pieces for offset in range(piece.first, piece.until)]
    assert named == [offset for offset in range(first, first + length) if offset not in kept]


def test_rejects_in_flight_for_what_was_passed_do_not_land(tmp_path: Path) -> None:
    slow = claimed(tmp_path, 0)
    at = slow.look([P[0]])[P[0]]
    file = written(tmp_path, 0, 2, 3)
    table(tmp_path).advance({P[0]: 5})
    assert not slow.commit([file], {P[0]: Span(at.offset, 4)}, {P[0]: at.owner})
    assert offsets(tmp_path) == []
    assert table(tmp_path).look([P[0]])[P[0]].offset == 5
