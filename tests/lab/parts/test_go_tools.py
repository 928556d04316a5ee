"""Programs that are built with Go: once, by one of many who want it, and with a reason if not."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lagless.errors import MissingPart
from lagless.lab.parts.go_tools import GoTool

THING = GoTool("The thing", "example.com/one/thing", "v1.0.0-abc", "tools")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lagless" / "tools"


def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put a `go` on the path that does what the script says, and counts its calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "go"
    command.write_text(f"#!/bin/sh\necho \"$@\" >> '{folder}/calls'\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "calls"


def test_it_is_built_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = go(tmp_path, monkeypatch, 'echo server > "$GOBIN/thing"')
    assert THING.can_run()
    with ThreadPoolExecutor(4) as pool:
        built = set(pool.map(lambda _: THING.build(), range(4)))
    assert built == {THING.binary()}
    assert THING.binary().read_text() == "server\n"
    assert len(calls.read_text().splitlines()) == 1
    assert "example.com/one/thing@v1.0.0-abc" in calls.read_text()
    assert not list(cache.glob(".build-*"))


def test_a_failed_build_says_why_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path, monkeypatch, "echo no route to the proxy >&2; exit 1")
    with pytest.raises(MissingPart, match="The thing could not be built: no route to the proxy"):
        THING.build()
    assert not THING.binary().exists()
    assert not list(cache.glob(".build-*"))


def test_without_go_it_says_what_to_install(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert not THING.can_run()
    with pytest.raises(MissingPart, match=r"there is no go on the path: install Go 1\.24"):
        THING.build()
