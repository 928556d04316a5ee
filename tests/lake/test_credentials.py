"""Credentials that expire: the consumer waits, says so, and goes on when they are renewed."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lagless import settings
from lagless.adapters.lake import bucket_store, store
from lagless.adapters.lake.tables import Lake
from lagless.errors import Away, LaglessError
from lagless.lab.parts import s3_faults
from lagless.lab.parts.faulty_proxy import FaultyProxy
from lagless.lab.parts.object_store import ObjectStore
from lagless.lab.parts.s3_faults import Rule
from lagless.ports import Span
from lagless.settings import Bucket, StorageSettings
from tests.lake.files import TOPIC, P, claimed, offsets, written
from tests.temporary_keys import Credentials, temporary

pytestmark = pytest.mark.s3


@pytest.fixture
def proxy(s3: ObjectStore) -> Iterator[FaultyProxy]:
    with FaultyProxy(s3.port) as running:
        yield running


@pytest.fixture
def without_keys(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the server's own credentials out of the environment."""
    for name in s3.environment:
        if name != "AWS_REGION":
            monkeypatch.delenv(name)
    # The instance is not asked for its role: neither by the SDK nor by the other client.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    bucket_store.forget_clients()
    yield
    bucket_store.forget_clients()


Keys = Callable[[Credentials], None]


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_keys: None) -> Keys:
    """Return what writes credentials into the shared profile."""
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def keep(credentials: Credentials) -> None:
        key, secret, token = credentials.values()
        file.write_text(
            f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
            f"aws_session_token = {token}\n"
        )

    return keep


def expire(proxy: FaultyProxy, credentials: Credentials) -> None:
    """Let the store refuse these credentials from now on."""
    rule = Rule(s3_faults.EXPIRED, signers=[credentials["AccessKeyId"]])
    proxy.rules = [*proxy.rules, rule]


def patiently(step: Callable[[], object], seconds: float = 60) -> list[str]:
    """Take a step until it succeeds; return what was said meanwhile."""
    said: list[str] = []
    end = time.monotonic() + seconds
    while True:
        try:
            step()
            return said
        except (LaglessError, OSError) as error:
            said.append(str(error))
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_a_writer_goes_on_with_renewed_credentials(
    s3: ObjectStore, proxy: FaultyProxy, bucket: str, profile: Keys
) -> None:
    first, second = temporary(s3), temporary(s3)
    assert first != second
    profile(first)
    storage = StorageSettings(endpoint=proxy.url, timeout=5, retry_seconds=2)
    place = store.at(Bucket(bucket, "lake"), storage).inside("orders")
    one = claimed(place)

    def add(begin: int, end: int) -> Callable[[], None]:
        def step() -> None:
            assert one.look([P[0]])[P[0]].offset == begin
            assert one.commit([written(place, 0, begin, end)], {P[0]: Span(begin, end)}, {P[0]: 1})

        return step

    add(0, 5)()
    expire(proxy, first)
    with pytest.raises(
        Away, match=r"no longer accepts .*ExpiredToken.*continues when they are renewed"
    ):
        add(5, 9)()
    profile(second)
    patiently(add(5, 9))
    assert proxy.faults["expired token"] > 0
    assert offsets(place) == list(range(9))


def no_session() -> SparkSession:
    raise AssertionError("Spark was asked for")


def test_a_consumer_says_that_it_waits_for_the_lake(
    s3: ObjectStore, proxy: FaultyProxy, bucket: str, profile: Keys
) -> None:
    first, second = temporary(s3), temporary(s3)
    profile(first)
    tree = {
        "group": "group",
        "topics": [TOPIC.name],
        "lake": {
            "path": f"s3://{bucket}/lake",
            "storage": {"endpoint": proxy.url, "timeout": 5, "retry_seconds": 2},
        },
    }
    lake = Lake(settings.parse(tree, environ={}), {}, no_session)
    held = lake.claim(TOPIC, [P[0]], 1, lambda: {P[0]: 0}, {})
    expire(proxy, first)
    with pytest.raises(Away, match="no longer accepts the credentials") as refused:
        lake.look(TOPIC, held)
    assert refused.value.part == "lake"
    assert "\n" not in str(refused.value)
    assert all(secret not in str(refused.value) for secret in list(first.values())[1:])
    profile(second)
    patiently(lambda: lake.look(TOPIC, held))
    lake.close()
