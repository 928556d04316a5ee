"""The proof of a bucket, against stores that are wrong on purpose and one that is right."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lagless import settings
from lagless.adapters.lake import bucket_proof, bucket_store
from lagless.adapters.lake.tables import Lake
from lagless.errors import Away, GiveUp
from lagless.lab.parts import s3_faults
from lagless.lab.parts.faulty_proxy import FaultyProxy
from lagless.lab.parts.object_store import ObjectStore
from lagless.lab.parts.s3_faults import Fault, Rule
from lagless.operations import doctor
from lagless.settings import Bucket, Settings, StorageSettings
from tests.wrong_store import BUCKET, FLAWS, WrongStore

PLACE = Bucket(BUCKET, "lake")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")


def storage(store: WrongStore) -> StorageSettings:
    return StorageSettings(endpoint=store.url, timeout=30, retry_seconds=1)


def proven(store: WrongStore) -> Iterator[tuple[bool, str]]:
    return bucket_proof.prove(PLACE, storage(store), writers=8, rounds=5)


@pytest.mark.usefixtures("credentials")
def test_a_store_that_is_right_passes_and_is_left_clean() -> None:
    with WrongStore() as store:
        found = list(proven(store))
        assert [says for fine, says in found if not fine] == []
        assert "8 writers raced for each of 5 objects" in found[-1][1]
        bucket_proof.check(PLACE, storage(store))
        assert store.objects == {}
        assert store.uploads == {}


SEEN = {
    "all win": "was created a second time",
    "check first": "writers were told that they had created the same object",
    "none wins": "a writer alone was not able to create an object",
    "refuses the header": "conditional puts",
    "loses the winner": "a put that was refused has replaced the object",
    "stale list": "not listed after its put",
    "stale read": "still read as it was before",
    "remembers absence": "asked for before it was written",
    "keeps deleted": "after it was deleted",
    "no put": "grant s3:PutObject",
    "no get": "grant s3:GetObject",
    "no list": "grant s3:ListBucket",
    "no delete": "grant s3:DeleteObject",
    "no multipart": "not allowed to upload in parts",
    "joins wrongly": "not what was sent",
    "no bucket": "there is no bucket bucket",
}


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("flaw", FLAWS)
def test_every_flaw_is_seen_and_named(flaw: str) -> None:
    with WrongStore([flaw]) as store:
        wrong = [says for fine, says in proven(store) if not fine]
    assert any(SEEN[flaw] in says for says in wrong), wrong
    assert all(says.startswith("s3://bucket/lake: ") for says in wrong)


CHEAP = sorted({*FLAWS} - {"check first", "stale read", "no multipart", "joins wrongly"})


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("flaw", CHEAP)
def test_a_few_requests_see_what_needs_no_race(flaw: str) -> None:
    with WrongStore([flaw]) as store:
        with pytest.raises((GiveUp, OSError), match="s3://bucket/lake: "):
            bucket_proof.check(PLACE, storage(store))
        assert len(store.requests) < 20


@pytest.mark.usefixtures("credentials")
def test_two_winners_of_a_race_and_a_winner_that_is_overwritten_are_told_apart() -> None:
    for flaw, seen in (
        ("all win", "8 of 8 writers were told"),
        ("loses the winner", "not hold what its creator wrote"),
        ("none wins", "none of 8 writers was able to create an object"),
    ):
        with WrongStore([flaw]) as store:
            assert any(seen in says for fine, says in proven(store) if not fine), flaw


def configured(folder: Path, store: WrongStore | FaultyProxy) -> Settings:
    (folder / "lagless.toml").write_text(
        f"""
        group = "g"
        topics = ["t"]
        consumer.max_rate = "2 MB"
        lake.path = "s3://{BUCKET}/lake"
        lake.storage.endpoint = "{store.url}"
        lake.storage.retry_seconds = 1
        kafka.bootstrap = "127.0.0.1:1"
        """
    )
    return settings.load(folder / "lagless.toml", environ={})


def no_session() -> SparkSession:
    raise AssertionError("Spark was asked for before the bucket was proven")


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("flaw", "reaction"), [("all win", GiveUp), ("none wins", GiveUp), ("no delete", Away)]
)
def test_a_consumer_refuses_a_wrong_bucket_when_it_starts(
    tmp_path: Path, flaw: str, reaction: type[Exception]
) -> None:
    with WrongStore([flaw]) as store:
        lake = Lake(configured(tmp_path, store), {}, no_session)
        with pytest.raises(reaction, match="s3://bucket/lake: "):
            lake.ready()


ONCE = [
    s3_faults.LOST_ANSWER,
    s3_faults.NEVER_SENT,
    s3_faults.REPEATED,
    s3_faults.FAILED_AFTER,
    s3_faults.CONFLICT,
    s3_faults.SLOW_DOWN,
]


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: fault.name)
def test_a_fault_of_the_network_is_not_taken_for_a_wrong_store(fault: Fault) -> None:
    with WrongStore() as store, FaultyProxy(store.port) as proxy:
        proxy.rules = [Rule(fault, conditional=True, most=1)]
        bucket_proof.check(PLACE, StorageSettings(endpoint=proxy.url, retry_seconds=5))
        assert proxy.faults == {fault.name: 1}


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("fault", [s3_faults.CONFLICT, s3_faults.SLOW_DOWN], ids=lambda it: it.name)
def test_a_store_that_is_busy_is_waited_for(tmp_path: Path, fault: Fault) -> None:
    with WrongStore() as store, FaultyProxy(store.port) as proxy:
        proxy.rules = [Rule(fault, conditional=True)]
        lake = Lake(configured(tmp_path, proxy), {}, no_session)
        with pytest.raises(Away, match="s3://bucket/lake: put failed"):
            lake.ready()


@pytest.mark.usefixtures("credentials")
def test_doctor_says_what_a_wrong_bucket_did(tmp_path: Path) -> None:
    with WrongStore(["all win", "no delete"]) as store:
        found = list(doctor.examine(configured(tmp_path, store)))
    wrong = "\n".join(it.says for it in found if it.check == "lake" and not it.fine)
    assert "32 of 32 writers were told that they had created the same object" in wrong
    assert "grant s3:DeleteObject" in wrong


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    # Where the instance's role is asked for, nobody listens.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("HOME", "/nowhere")
    with WrongStore() as store:
        found = list(proven(store))
    assert [fine for fine, _ in found] == [False]
    assert "no credentials were found" in found[0][1]


@pytest.mark.s3
def test_a_real_store_passes_and_keeps_nothing_of_it(s3: ObjectStore, bucket: str) -> None:
    place = Bucket(bucket, "lake")
    found = list(bucket_proof.prove(place, StorageSettings(endpoint=s3.url)))
    assert [says for fine, says in found if not fine] == []
    assert "no two created the same one" in found[-1][1]
    bucket_proof.check(place, StorageSettings(endpoint=s3.url))
    client = bucket_store.client(bucket, StorageSettings(endpoint=s3.url))
    assert [meta for page in client.list() for meta in page] == []


@pytest.mark.s3
def test_lost_answers_are_not_taken_for_a_wrong_store(s3: ObjectStore, bucket: str) -> None:
    with FaultyProxy(s3.port, seed=3) as proxy:
        rule = Rule(s3_faults.FAILED_AFTER, {"put"}, "/race/", most=16)
        proxy.rules = [rule]
        storage = StorageSettings(endpoint=proxy.url)
        found = list(bucket_proof.prove(Bucket(bucket), storage, writers=8, rounds=8))
    assert [says for fine, says in found if not fine] == []
    assert rule.happened > 0
    assert "the winner was not told" in found[-1][1]


@pytest.mark.s3
def test_expired_credentials_are_named(s3: ObjectStore, bucket: str) -> None:
    with FaultyProxy(s3.port) as proxy:
        proxy.rules = [Rule(s3_faults.EXPIRED)]
        storage = StorageSettings(endpoint=proxy.url)
        found = list(bucket_proof.prove(Bucket(bucket), storage))
    assert [fine for fine, _ in found] == [False]
    assert "does not accept the credentials (ExpiredToken" in found[0][1]
