"""Exactly once in a bucket: what object stores and networks do to requests, and disks do not."""

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from lagless.adapters.lake import bucket_store, compaction, store
from lagless.adapters.lake.store import Store
from lagless.errors import ClaimLost, TryAgain
from lagless.lab.parts import s3_faults
from lagless.lab.parts.faulty_proxy import FaultyProxy
from lagless.lab.parts.object_store import ObjectStore
from lagless.lab.parts.s3_faults import Fault, Rule
from lagless.ports import Position, Span
from lagless.settings import Bucket, StorageSettings
from tests.lake.files import P, claimed, offsets, table, written
from tests.waiting import until

pytestmark = pytest.mark.s3
ENTRY = r"_delta_log/\d{20}\.json$"


@pytest.fixture
def proxy(s3: ObjectStore) -> Iterator[FaultyProxy]:
    with FaultyProxy(s3.port) as running:
        yield running


@pytest.fixture
def place(proxy: FaultyProxy, bucket: str) -> Store:
    """Return where a table can be, behind the proxy."""
    storage = StorageSettings(endpoint=proxy.url, timeout=5, retry_seconds=5)
    return store.at(Bucket(bucket, "lake"), storage).inside("orders")


def entries(place: Store) -> list[int]:
    """Return the versions in a table's log."""
    names = (file.name for file in place.inside("_delta_log").files())
    return [int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name)]


def holds_each_once(place: Store, end: int, partition: int = 0) -> bool:
    """Return whether the table has every offset once, and its log has no hole."""
    versions = entries(place)
    return offsets(place, partition) == list(range(end)) and versions == list(range(len(versions)))


FAULTS = [
    s3_faults.LOST_ANSWER,
    s3_faults.NEVER_SENT,
    s3_faults.REPEATED,
    s3_faults.FAILED_AFTER,
    s3_faults.CONFLICT,
    s3_faults.SLOW_DOWN,
    s3_faults.EXPIRED,
    s3_faults.slow(0.5),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_commit_lands_once_whatever_happens_to_its_put(
    proxy: FaultyProxy, place: Store, fault: Fault
) -> None:
    one = claimed(place)
    proxy.rules = [Rule(fault, kinds=["put"], key=ENTRY, most=1)]
    one.look([P[0]])
    assert one.commit([written(place, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert proxy.faults[fault.name] == 1
    assert one.look([P[0]]) == {P[0]: Position(5, 1)}
    assert one.commit([written(place, 0, 5, 9)], {P[0]: Span(5, 9)}, {P[0]: 1})
    assert holds_each_once(place, 9)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_claim_holds_whatever_happens_to_its_put(
    proxy: FaultyProxy, place: Store, fault: Fault
) -> None:
    old = claimed(place)
    old.look([P[0]])
    file = written(place, 0, 0, 5)
    proxy.rules = [Rule(fault, kinds=["put"], key=ENTRY, most=1)]
    claimed(place, 2)
    assert proxy.faults[fault.name] == 1
    with pytest.raises(ClaimLost):
        old.commit([file], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert offsets(place) == []


@pytest.mark.parametrize("fault", [s3_faults.SLOW_DOWN, s3_faults.CUT], ids=lambda it: it.name)
def test_reading_the_log_survives_faults(proxy: FaultyProxy, place: Store, fault: Fault) -> None:
    one = claimed(place)
    proxy.rules = [Rule(fault, kinds=["get", "list"], chance=0.3, most=10)]
    for first in range(0, 15, 3):
        assert one.look([P[0]]) == {P[0]: Position(first, 1)}
        file = written(place, 0, first, first + 3)
        assert one.commit([file], {P[0]: Span(first, first + 3)}, {P[0]: 1})
    assert proxy.faults[fault.name] > 0
    proxy.rules = []
    assert holds_each_once(place, 15)


@pytest.mark.parametrize("waits", [False, True], ids=["before it lands", "after it landed"])
def test_a_put_that_lands_after_the_deadline_is_in_the_way_of_nobody(
    proxy: FaultyProxy, bucket: str, waits: bool
) -> None:
    storage = StorageSettings(endpoint=proxy.url, timeout=5, retry_seconds=0.2)
    place = store.at(Bucket(bucket, "late"), storage)
    one = claimed(place)
    one.look([P[0]])
    late = written(place, 0, 0, 5)
    proxy.rules = [Rule(s3_faults.late(2), kinds=["put"], key=ENTRY)]
    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        if len(checks) > 1:
            proxy.rules = []
            raise TryAgain("the deadline is over")

    with pytest.raises(TryAgain, match="deadline"):
        one.commit([late], {P[0]: Span(0, 5)}, {P[0]: 1}, check)
    sent = proxy.faults["late"]
    assert sent > 0
    if waits:
        until(lambda: len(proxy.late) == sent, "the late puts")
    # The successor begins where the table is.
    new = claimed(place, 2)
    first = new.look([P[0]])[P[0]].offset
    assert first == (5 if waits else 0)
    if first == 0:
        assert new.commit([written(place, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 2})
    until(lambda: len(proxy.late) == sent, "the late puts")
    assert proxy.late.count(200) == (1 if waits else 0)
    assert holds_each_once(place, 5)


def test_writers_and_compactions_under_all_faults_at_once(proxy: FaultyProxy, place: Store) -> None:
    """Four writers and a compaction: every row once, in order, and no hole in the log."""
    claimed(place, 1, (0, 1, 2, 3))
    proxy.rules = [
        Rule(fault, kinds=["put"], key=ENTRY, chance=0.08) for fault in (*FAULTS, s3_faults.late(1))
    ]
    proxy.rules += [Rule(s3_faults.SLOW_DOWN, kinds=["get", "list"], chance=0.02)]
    rounds, size = 6, 3

    def write(partition: int) -> None:
        one = table(place)
        while True:
            try:
                first = one.look([P[partition]])[P[partition]].offset
                if first >= rounds * size:
                    return
                file = written(place, partition, first, first + size)
                one.commit([file], {P[partition]: Span(first, first + size)}, {P[partition]: 1})
            except (TryAgain, OSError):
                continue

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    writers[0].join(20)
    with suppress(TryAgain, OSError):
        compaction.compact(place)
    for writer in writers:
        writer.join()
    proxy.rules = []
    compaction.compact(place)
    assert sum(proxy.faults.values()) > 0
    for partition in range(4):
        assert holds_each_once(place, rounds * size, partition)


def test_leftovers_are_never_listed_and_vacuum_deletes_them(
    place: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = claimed(place)
    one.look([P[0]])
    left = written(place, 0, 0, 5)
    assert one.commit([written(place, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    assert offsets(place) == list(range(5))
    monkeypatch.setattr(compaction, "RETENTION", timedelta(0))
    outcome = compaction.compact(place, retention=timedelta(0))
    assert (outcome.vacuumed, outcome.troubles) == (1, [])
    assert left.name not in {file.name for file in place.files()}
    assert offsets(place) == list(range(5))


def test_no_secret_is_in_what_is_handed_around_or_said(
    place: Store, s3: ObjectStore, proxy: FaultyProxy
) -> None:
    secrets = [s3.environment[f"AWS_{name}"] for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")]
    proxy.rules = [Rule(s3_faults.FORBIDDEN)]
    said = [repr(place), str(bucket_store.options("b", StorageSettings()))]
    for call in (place.files, lambda: place.read("a"), lambda: claimed(place)):
        with pytest.raises((OSError, TryAgain)) as refused:
            call()
        said.append(str(refused.value))
    assert not [text for text in said for secret in secrets if secret in text]
    assert "AccessDenied" in said[2]
