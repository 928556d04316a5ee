"""Every decoder on forged and broken input: one clear sentence, or a value that can be used."""

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st

from lagless import messages
from lagless import settings as knobs
from lagless.adapters.kubernetes import manifest
from lagless.adapters.lake import log_entries, store
from lagless.cli import pack_command
from lagless.controller import event_log
from lagless.controller.state import State
from lagless.errors import GiveUp, LaglessError, WrongInput, WrongSettings
from lagless.lab.model import streams
from lagless.messages import Message
from lagless.operations import status
from tests.controller import histories
from tests.dashboard import plays
from tests.hostile import forgeries

CORPUS = Path(__file__).parent / "corpus"
OFTEN = how(max_examples=60, deadline=None)
FILES = how(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SETTINGS: dict[str, Any] = {
    "group": "orders",
    "topics": ["orders"],
    "lake": {"path": "lake"},
    "consumer": {"max_rate": "2 MB/s", "batch_bytes": 5},
    "controller": {"min_consumers": 1, "algorithm": "mwf"},
    "topic": {"orders": {"format": "json"}},
    "kafka": {"bootstrap": "k:1", "security": {"protocol": "SSL"}},
    "provisioner": {"kind": "processes"},
}
TEMPLATE: dict[str, Any] = {
    "kind": "Deployment",
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "template": {
            "metadata": {"labels": {"e": "f"}},
            "spec": {
                "containers": [{"name": "consumer", "env": [{"name": "A", "value": "1"}]}],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            },
        }
    },
}


def corpus(folder: str) -> list[Path]:
    files = sorted((CORPUS / folder).iterdir())
    assert len(files) >= 3
    return files


def tried(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the one sentence that it raises."""
    try:
        return call()
    except LaglessError as error:
        return error if 0 < len(str(error)) < 2000 else None


def entries(folder: Path) -> log_entries.Entries:
    return log_entries.Entries(store.at(folder))


def read_log(folder: Path, text: bytes) -> Any:
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{0:020}.json").write_bytes(text)
    return entries(folder).as_of(0)


@OFTEN
@given(forgeries.FORGED)
def test_a_message_is_refused_with_a_sentence_or_can_be_written_again(text: bytes) -> None:
    found = tried(lambda: messages.read(text, group=plays.GROUP))
    if isinstance(found, Message):
        assert messages.read(found.encode()) == found
    else:
        assert found is None or isinstance(found, WrongInput)
        assert str(found).isprintable()
        assert len(str(found)) <= messages.SHOWN + 1


@pytest.mark.parametrize("message", forgeries.GENUINE, ids=lambda m: type(m).__name__)
def test_what_roles_write_is_read_back(message: Message) -> None:
    assert messages.read(message.encode(), group=plays.GROUP) == message


@OFTEN
@given(st.lists(forgeries.believable(), max_size=5), forgeries.forged())
def test_a_forged_event_log_is_replayed_or_refused(log: list[Message], event: Any) -> None:
    told = messages.Told(group=plays.GROUP, events=[event], at=forgeries.AT)
    logs = ([*log, told], log)
    for some in logs:
        compared = tried(
            lambda some=some: list(
                event_log.replay(some, lambda _: histories.pack, plays.GROUP)  # type: ignore[misc]
            )
        )
        assert isinstance(compared, list | LaglessError)


@OFTEN
@given(forgeries.forged(SETTINGS))
def test_settings_are_read_or_refused_with_a_sentence(document: Any) -> None:
    tree = tried(lambda: knobs.parse(document, "lagless.toml"))
    if isinstance(tree, WrongSettings):
        assert "lagless.toml" in str(tree)
    else:
        assert tree.capacity > 0


@OFTEN
@given(st.text(max_size=50))
def test_words_of_the_command_line_are_read_or_refused(word: str) -> None:
    words = [f"controller.{word}", f"consumer.max_rate={word}"]
    tree = tried(lambda: knobs.parse(SETTINGS, overrides=words))
    assert isinstance(tree, WrongSettings) or tree.max_rate > 0


@FILES
@given(forgeries.forged(TEMPLATE), st.text(max_size=200))
def test_a_template_gives_a_deployment_or_a_sentence(
    tmp_path: Path, document: Any, text: str
) -> None:
    file = tmp_path / "template.yaml"
    provisioner = {"kind": "kubernetes", "image": "lagless:1"}
    tree = knobs.parse({**SETTINGS, "provisioner": provisioner})
    for content in (forgeries.text(document), text.encode("utf-8", "surrogatepass")):
        file.write_bytes(content)
        made = tried(lambda: manifest.deployment(tree, 1, "b", manifest.template(file)))
        if not isinstance(made, WrongSettings):
            assert json.loads(json.dumps(made, allow_nan=False)) == made
            assert made["metadata"]["name"] == "lagless-orders-1"


@FILES
@given(st.binary(max_size=100), st.lists(forgeries.HOSTILE, max_size=4))
def test_a_stream_file_is_read_or_refused(tmp_path: Path, data: bytes, cells: list[Any]) -> None:
    rows = ["p0,p1", "1,2", ",".join(map(str, cells))]
    for text in (data, "\n".join(rows).encode("utf-8", "surrogatepass")):
        for file in (tmp_path / "stream.csv", tmp_path / "stream.parquet"):
            file.write_bytes(text)
            stream = tried(partial(streams.read, file))
            if not isinstance(stream, WrongInput):
                assert ((stream.speeds >= 0) & (stream.speeds < float("inf"))).all()


@FILES
@given(forgeries.forged({"orders:0": 5.0, "orders:1": 7, "x": 1}), st.binary(max_size=60))
def test_a_file_of_speeds_is_read_or_refused(tmp_path: Path, document: Any, data: bytes) -> None:
    tree = knobs.parse(SETTINGS)
    file = tmp_path / "speeds.json"
    for text in (forgeries.text(document), data):
        file.write_bytes(text)
        state = tried(lambda: status.from_file(tree, file, file))
        assert isinstance(state, State | WrongInput)
        assert isinstance(tried(lambda: pack_command.read(file)), dict | WrongInput)


@FILES
@given(forgeries.forged({"txn": {"appId": "a", "version": 3}}), st.binary(max_size=60))
def test_a_delta_log_is_followed_or_refused(tmp_path: Path, document: Any, data: bytes) -> None:
    action = json.dumps(document, separators=(",", ":")).encode()
    for text in (action, b'{"txn"' + data, data):
        versions = tried(partial(read_log, tmp_path, text))
        if isinstance(versions, GiveUp):
            assert f"{0:020}.json, line " in str(versions)
        else:
            assert all(-(2**63) <= version < 2**63 for version in versions.values())


@pytest.mark.parametrize("file", corpus("messages"), ids=lambda file: file.name)
def test_messages_of_the_corpus_are_refused(file: Path) -> None:
    with pytest.raises(WrongInput):
        messages.read(file.read_bytes(), group="orders")


@pytest.mark.parametrize("file", corpus("settings"), ids=lambda file: file.name)
def test_settings_of_the_corpus_are_refused(file: Path) -> None:
    with pytest.raises(WrongSettings, match=file.name):
        knobs.load(file, {})


@pytest.mark.parametrize("file", corpus("templates"), ids=lambda file: file.name)
def test_templates_of_the_corpus_are_refused(file: Path) -> None:
    with pytest.raises(WrongSettings, match=f"provisioner.template: .*{file.name}"):
        manifest.template(file)


@pytest.mark.parametrize("file", corpus("streams"), ids=lambda file: file.name)
def test_stream_files_of_the_corpus_are_refused(file: Path) -> None:
    with pytest.raises(WrongInput, match=file.name):
        streams.read(file)


@pytest.mark.parametrize("file", corpus("speeds"), ids=lambda file: file.name)
def test_files_of_speeds_of_the_corpus_are_refused(file: Path) -> None:
    with pytest.raises(WrongInput, match=file.name):
        status.from_file(knobs.parse(SETTINGS), file, None)


@pytest.mark.parametrize("file", corpus("logs"), ids=lambda file: file.name)
def test_delta_logs_of_the_corpus_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(GiveUp, match="damaged"):
        read_log(tmp_path, file.read_bytes())


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version": "NaN"}')
    with pytest.raises(GiveUp, match="_last_checkpoint: the table's log is damaged"):
        entries(tmp_path).as_of(0)


def test_a_small_file_that_stands_for_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LARGEST", 1_000_000)
    pq.write_table(pa.table({"p0": pa.array([0.0] * 2_000_000)}), tmp_path / "s.parquet")
    assert (tmp_path / "s.parquet").stat().st_size < 20_000
    with pytest.raises(WrongInput, match="2000000 values"):
        streams.read(tmp_path / "s.parquet")


def test_large_settings_are_not_read_to_their_end() -> None:
    with pytest.raises(WrongSettings, match="more than 1000000 characters"):
        knobs.load(Path("/dev/zero"), {})


def test_of_a_flood_of_broken_messages_only_the_number_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from lagless.adapters.kafka.topic_records import COMPLAINTS, Skipped

    skipped = Skipped()
    with caplog.at_level(logging.WARNING):
        for offset in range(5000):
            skipped.note("consumer.metadata:0", offset, WrongInput("not JSON"))
    assert len(caplog.messages) == COMPLAINTS
    assert caplog.messages[3] == "skipped offset 3 of consumer.metadata:0: not JSON"
    assert skipped.count == 5000
