"""Credentials of web identities, containers and instances, and stores with a CA of their own.

Two clients reach the bucket, each with its own way to credentials: delta-rs and obstore.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagless import settings
from lagless.adapters.lake import bucket_proof, bucket_store, store, trusted_roots
from lagless.errors import Away, WrongSettings
from lagless.lab.parts.object_store import ObjectStore
from lagless.ports import Span
from lagless.settings import Bucket, StorageSettings
from tests.certificates import certificates
from tests.identities import CONTAINER, IDENTITY, ROLE, Identities, TlsFront
from tests.lake.files import P, claimed, offsets, written
from tests.temporary_keys import temporary

pytestmark = pytest.mark.s3
ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def identities(
    s3: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Identities]:
    """Return a server of credentials, in an environment that has none and no profile."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_METADATA_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        monkeypatch.setenv(name, NOWHERE)
    bucket_store.forget_clients()
    with Identities(temporary(s3)) as running:
        yield running
    bucket_store.forget_clients()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a CA and a certificate for this machine."""
    folder = tmp_path_factory.mktemp("authority")
    certificates(folder)
    return folder


@pytest.fixture
def roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget afterwards which authorities were added."""
    monkeypatch.setenv(trusted_roots.VARIABLE, "")
    monkeypatch.setattr(trusted_roots, "_added", set())


def front(port: int, authority: Path) -> TlsFront:
    return TlsFront(port, authority / "broker.pem", authority / "broker.key")


def secrets(identities: Identities) -> list[str]:
    """Return what nothing may say."""
    own = [identities.credentials[name] for name in ("SecretAccessKey", "SessionToken")]
    return [*own, IDENTITY, CONTAINER]


def both_write(
    bucket: str,
    storage: StorageSettings,
    identities: Identities,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Let both clients write and read, and say no secret meanwhile."""
    with caplog.at_level(logging.DEBUG):
        said = [text for fine, text in bucket_proof.prove(Bucket(bucket, "lake"), storage, 4, 2)]
        assert len(said) == 6
        place = store.at(Bucket(bucket, "lake"), storage).inside("orders")
        one = claimed(place)
        assert one.commit([written(place, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
        assert offsets(place) == [0, 1, 2, 3, 4]
    told = [caplog.text, *said, repr(place), repr(bucket_store.client(bucket, storage))]
    told += capfd.readouterr()
    assert not any(secret in text for secret in secrets(identities) for text in told)


def test_a_web_identity(
    identities: Identities,
    s3: ObjectStore,
    bucket: str,
    authority: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = tmp_path / "token"
    token.write_text(IDENTITY)
    # Tokens are shown over TLS only.
    with front(identities.port, authority) as service:
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
        monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "lagless")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.url)
        monkeypatch.delenv(trusted_roots.VARIABLE, raising=False)
        words = [sys.executable, "-m", "tests.lake.role_writer", bucket, s3.url]
        done = subprocess.run(
            [*words, str(authority / "ca.pem")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == [0, 1, 2, 3, 4]
    assert not any(secret in done.stderr for secret in secrets(identities))
    assert identities.asked.count("web identity") >= 2


def test_a_container(
    identities: Identities,
    s3: ObjectStore,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    token = tmp_path / "token"
    token.write_text(CONTAINER)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{identities.url}/container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
    storage = StorageSettings(endpoint=s3.url, retry_seconds=5)
    both_write(bucket, storage, identities, caplog, capfd)
    assert set(identities.asked) == {"container"}
    assert len(identities.asked) >= 2


def test_an_instance(
    identities: Identities,
    s3: ObjectStore,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in ("AWS_METADATA_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        monkeypatch.setenv(name, identities.url)
    storage = StorageSettings(endpoint=s3.url, retry_seconds=5)
    both_write(bucket, storage, identities, caplog, capfd)
    assert set(identities.asked) == {"instance"}
    assert len(identities.asked) >= 2


@pytest.mark.usefixtures("roots")
def test_a_store_with_a_certificate_of_an_own_authority(
    s3: ObjectStore, bucket: str, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with front(s3.port, authority) as secure:
        known = StorageSettings(endpoint=secure.url, ca_file=authority / "ca.pem", retry_seconds=2)
        place = store.at(Bucket(bucket, "lake"), known).inside("orders")
        one = claimed(place)
        assert one.commit([written(place, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
        assert offsets(place) == [0, 1, 2, 3, 4]
        other = store.at(Bucket(bucket), StorageSettings(endpoint=secure.url, retry_seconds=1))
        monkeypatch.setenv(trusted_roots.VARIABLE, trusted_roots.SYSTEM[0])
        bucket_store.forget_clients()
        with pytest.raises(OSError, match="invalid peer certificate: UnknownIssuer"):
            other.folders()
        with pytest.raises(Away, match="invalid peer certificate: UnknownIssuer"):
            claimed(other.inside("orders"))


@pytest.mark.usefixtures("roots")
def test_a_file_of_authorities_that_cannot_be_read(tmp_path: Path) -> None:
    tree = {
        "group": "group",
        "topics": ["orders"],
        "lake": {"path": "s3://bucket/lake", "storage": {"ca_file": str(tmp_path / "none.pem")}},
    }
    known = settings.parse(tree, environ={})
    with pytest.raises(WrongSettings, match=r"^lake\.storage\.ca_file: .*none\.pem cannot be read"):
        store.of(known.lake)
