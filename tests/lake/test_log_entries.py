"""Looks and commits in a bucket that read and create single entries of the log."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import Field, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType

from lagless.adapters.lake import delta, schemas, store
from lagless.adapters.lake.data_files import File
from lagless.adapters.lake.store import Store
from lagless.errors import ClaimLost
from lagless.lab.parts.faulty_proxy import FaultyProxy
from lagless.lab.parts.object_store import ObjectStore
from lagless.ports import Position, Span
from lagless.settings import Bucket, StorageSettings, TopicSettings
from tests.lake.files import P, claimed, offsets, table, written

pytestmark = pytest.mark.s3


@pytest.fixture
def proxy(s3: ObjectStore) -> Iterator[FaultyProxy]:
    with FaultyProxy(s3.port) as running:
        yield running


@pytest.fixture
def place(proxy: FaultyProxy, bucket: str) -> Store:
    """Return where a table can be, behind a proxy that counts."""
    return store.at(Bucket(bucket, "lake"), StorageSettings(endpoint=proxy.url)).inside("orders")


def versions(place: Store) -> list[int]:
    """Return the numbers of a table's entries."""
    names = [file.name for file in place.inside("_delta_log").files()]
    return [int(name[:20]) for name in names if name.endswith(".json") and name[0].isdigit()]


def add(one: Any, place: Store, first: int, until: int, partition: int = 0) -> bool:
    """Look, and commit a file with these offsets."""
    span = Span(first, until)
    assert one.look([P[partition]]) == {P[partition]: Position(first, 1)}
    landed = one.commit(
        [written(place, partition, first, until)], {P[partition]: span}, {P[partition]: 1}
    )
    return bool(landed)


def test_a_cycle_takes_five_requests_and_every_thirtieth_writes_a_checkpoint(
    proxy: FaultyProxy, place: Store
) -> None:
    one = claimed(place)
    taken = []
    for number in range(62):
        before = Counter(proxy.counts)
        assert add(one, place, number, number + 1)
        taken.append(dict(Counter(proxy.counts) - before))
    usual = {"get": 3, "put": 2}  # the end of the log and its checkpoint; a file and an entry
    large = [number for number, requests in enumerate(taken) if requests != usual]
    assert len(large) == 2
    assert all("list" in taken[number] for number in large)
    assert versions(place) == list(range(64))
    assert json.loads(place.inside("_delta_log").read("_last_checkpoint"))["version"] == 59
    assert offsets(place) == list(range(62))


def actions(place: Store, version: int) -> list[dict[str, Any]]:
    """Return what an entry does, without its moments and its author."""
    lines = place.inside("_delta_log").read(f"{version:020}.json").splitlines()
    found = []
    for action in map(json.loads, lines):
        if "commitInfo" in action:
            info = action["commitInfo"]
            found.append({name: info[name] for name in ("operation", "operationParameters")})
        else:
            (inner,) = action.values()
            # Empty fields of delta-rs's: the same as none.
            kept = {k: v for k, v in inner.items() if v is not None and k != "modificationTime"}
            found.append(dict.fromkeys(action, kept))
    return sorted(found, key=str)


def test_an_entry_says_what_delta_rs_would_say(place: Store, tmp_path: Path) -> None:
    both = (claimed(place), claimed(tmp_path))
    file = written(place, 0, 0, 5)
    for one in both:
        one.look([P[0]])
        assert one.commit([file], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert b'"engineInfo":"lagless"' in place.inside("_delta_log").read(f"{2:020}.json")
    assert actions(place, 2) == actions(store.at(tmp_path), 2)


def test_the_values_of_partition_columns_are_read_back(place: Store) -> None:
    one = claimed(place)
    made = written(place, 0, 0, 5)
    text = json.dumps({**json.loads(made.statistics), "minValues": {"value": 'ä"\\'}})
    file = File(made.name, made.size, made.rows, text, made.schema, {"day": "x y/ä", "none": None})
    one.look([P[0]])
    assert one.commit([file], {P[0]: Span(0, 5)}, {P[0]: 1})
    added = pa.table(place.table().get_add_actions()).to_pylist()
    assert [row["num_records"] for row in added] == [5]
    (action,) = [action["add"] for action in actions(place, 2) if "add" in action]
    assert action["partitionValues"] == {"day": "x y/ä", "none": None}


def test_commits_of_others_in_between_disturb_nobody(proxy: FaultyProxy, place: Store) -> None:
    one, other = claimed(place), claimed(place, 1, (1,))
    add(one, place, 0, 2)
    one.look([P[0]])
    file = written(place, 0, 2, 5)
    for first in range(4):
        add(other, place, first, first + 1, 1)
    before = Counter(proxy.counts)
    assert one.commit([file], {P[0]: Span(2, 5)}, {P[0]: 1})
    assert "list" not in Counter(proxy.counts) - before
    assert (offsets(place, 0), offsets(place, 1)) == ([0, 1, 2, 3, 4], [0, 1, 2, 3])


@pytest.mark.parametrize("generation", [1, 2])
def test_a_claim_since_the_look_refuses_the_commit(place: Store, generation: int) -> None:
    one = claimed(place)
    add(one, place, 0, 2)
    one.look([P[0]])
    file = written(place, 0, 2, 5)
    # The same generation once more changes no number, and touches the ids all the same.
    claimed(place, generation)
    with pytest.raises(CommitFailedError, match="touched"):
        one.handle.write([file], {one.offset_id(P[0]): 5})
    assert one.look([P[0]]) == {P[0]: Position(2, generation)}
    if generation == 2:
        with pytest.raises(ClaimLost):
            one.commit([file], {P[0]: Span(2, 5)}, {P[0]: 1})
        assert file.name not in [stored.name for stored in place.files()]
    else:
        assert one.commit([file], {P[0]: Span(2, 5)}, {P[0]: 1})


def test_new_columns_of_others_are_seen(place: Store) -> None:
    one = claimed(place)
    add(one, place, 0, 2)
    other = table(place).handle.open()
    other.alter.add_columns([Field("more", PrimitiveType("string"))])
    assert add(one, place, 2, 4)
    more = pa.schema([*schemas.ALWAYS, pa.field("value", pa.string()), ("more", pa.string())])
    assert one.handle.open().schema() == Schema.from_arrow(more)
    schemas.fit(one, more, TopicSettings(evolve=False))


def outrun(place: Store) -> Any:
    """Return a handle that has looked at an entry that is then deleted, with many more."""
    slow, swift = claimed(place), claimed(place, 1, (1,))
    add(slow, place, 0, 2)
    slow.look([P[0]])
    for first in range(65):
        add(swift, place, first, first + 1, 1)
    assert delta.shorten(place, kept=5, grace=-1) > 30
    return slow


def test_a_consumer_that_was_away_for_long_commits_on_the_newest_entry(
    place: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = outrun(place)
    newest = versions(place)[-1]
    away = delta.now() + delta.FRESH + 1
    monkeypatch.setattr(delta, "now", lambda: away)
    assert slow.commit([written(place, 0, 2, 5)], {P[0]: Span(2, 5)}, {P[0]: 1})
    assert versions(place)[-1] == newest + 1
    assert versions(place)[0] > 30
    assert offsets(place) == [0, 1, 2, 3, 4]


def test_an_entry_in_place_of_a_deleted_one_counts_for_nothing(place: Store) -> None:
    """A machine that stood still, clocks and all: the next look reads what the log says."""
    slow = outrun(place)
    newest = versions(place)[-1]
    lost = written(place, 0, 2, 5)
    assert slow.commit([lost], {P[0]: Span(2, 5)}, {P[0]: 1})
    assert versions(place)[-1] == newest
    assert offsets(place) == [0, 1]
    assert slow.look([P[0]]) == {P[0]: Position(2, 1)}
    assert add(slow, place, 2, 5)
    assert versions(place)[-1] == newest + 1
    assert offsets(place) == [0, 1, 2, 3, 4]
    assert offsets(place, 1) == list(range(65))
