"""First contact with a Kafka that is not there: the sentence names where, and why."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lagless.adapters.kafka import contact
from lagless.errors import TryAgain
from lagless.settings import KafkaSettings


def closed_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_refused_connection_is_named_with_its_address() -> None:
    port = closed_port()
    with pytest.raises(TryAgain, match=rf"127\.0\.0\.1:{port} \(Connection refused\)"):
        contact.reach(KafkaSettings(bootstrap=f"127.0.0.1:{port}"))


def test_every_address_of_a_list_is_named() -> None:
    port = closed_port()
    with pytest.raises(TryAgain) as error:
        contact.reach(KafkaSettings(bootstrap=f"127.0.0.1:{port},nosuch.invalid:9092"))
    assert f"127.0.0.1:{port} (Connection refused)" in str(error.value)
    assert "nosuch.invalid:9092" in str(error.value)


def test_who_accepts_and_never_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contact, "BUSY", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(TryAgain, match=rf"{address} \(no answer\)"):
            contact.reach(KafkaSettings(bootstrap=address), patience=0.3)


@pytest.mark.kafka
def test_a_broker_that_answers_is_fine(broker: object) -> None:
    contact.reach(KafkaSettings(bootstrap=broker.bootstrap))  # type: ignore[attr-defined]


def test_a_role_goes_on_where_nobody_answers() -> None:
    told: list[str] = []
    contact.greet(KafkaSettings(bootstrap=f"127.0.0.1:{closed_port()}"), told.append)
    (sentence,) = told
    assert sentence.endswith("waiting for it")


@pytest.mark.parametrize("command", ["plan", "status", "events"])
def test_commands_say_where_they_found_nobody(command: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{closed_port()}"
    file = tmp_path / "lagless.toml"
    file.write_text(
        f'group = "g"\ntopics = ["t"]\n[lake]\npath = "lake"\n[kafka]\nbootstrap = "{address}"\n'
    )
    words = [sys.executable, "-m", "lagless", command, "-c", str(file)]
    answer = subprocess.run(words, capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"lagless: Kafka cannot be reached at {address}")
    assert answer.stderr.count("\n") == 1
