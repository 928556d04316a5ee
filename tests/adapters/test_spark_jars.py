"""The cache of jars, with a retrieval of its own instead of Ivy; the broker fixture uses Ivy."""

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lagless.adapters.spark import jars, java
from lagless.errors import MissingPart

JARS = {"one.jar": b"first", "two.jar": b"second"}
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in JARS.items()}


class Registry:
    """Stands in for Ivy and the registry behind it."""

    def __init__(self, served: dict[str, bytes] | None = None, seconds: float = 0.0) -> None:
        self.served = JARS if served is None else served
        self.seconds = seconds
        self.calls = 0

    def __call__(self, parts: str, scratch: Path, count: int, progress: jars.Progress) -> Path:
        self.calls += 1
        folder = scratch / parts
        folder.mkdir()
        for done, (name, content) in enumerate(self.served.items(), start=1):
            (folder / name).write_bytes(content)
            progress(done, count)
            time.sleep(self.seconds)
        return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "sums", lambda parts: SUMS)
    return tmp_path / "lagless" / "jars"


def serve(monkeypatch: pytest.MonkeyPatch, registry: Registry) -> Registry:
    monkeypatch.setattr(jars, "_retrieve", registry)
    return registry


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_jars_are_fetched_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = serve(monkeypatch, Registry())
    seen: list[tuple[int, int]] = []
    assert not jars.present("broker")
    folder = jars.fetch("broker", lambda done, count: seen.append((done, count)))
    assert contents(folder) == JARS
    assert folder.parent == cache
    assert seen == [(1, 2), (2, 2)]
    assert jars.fetch("broker") == folder
    assert jars.present("broker")
    assert registry.calls == 1


@pytest.mark.parametrize("harm", ["changed", "cut", "gone"])
def test_a_jar_that_rotted_is_fetched_again(
    harm: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = serve(monkeypatch, Registry())
    jar = jars.fetch("broker") / "two.jar"
    if harm == "gone":
        jar.unlink()
    else:
        jar.write_bytes(b"sec0nd" if harm == "changed" else b"sec")
    assert contents(jars.fetch("broker")) == JARS
    assert registry.calls == 2
    assert sorted(path.suffix for path in cache.iterdir()) == ["", ".lock"]


def test_a_wrong_jar_is_not_taken(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, Registry({"one.jar": b"first", "two.jar": b"forged"}))
    with pytest.raises(MissingPart, match=r"two\.jar"):
        jars.fetch("broker")
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_an_interruption_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(done: int, count: int) -> None:
        raise KeyboardInterrupt

    serve(monkeypatch, Registry())
    with pytest.raises(KeyboardInterrupt):
        jars.fetch("broker", interrupt)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]
    assert contents(jars.fetch("broker")) == JARS


def _fetch_slowly(counts: Path, seconds: float) -> None:
    registry = Registry(seconds=seconds)
    jars.sums = lambda parts: SUMS
    jars._retrieve = registry
    folder = jars.fetch("broker")
    assert contents(folder) == JARS
    (counts / str(os.getpid())).write_text(str(registry.calls))


def test_of_two_at_once_one_fetches(cache: Path, tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.mkdir()
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_fetch_slowly, args=(counts, 0.5)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    assert sorted(path.read_text() for path in counts.iterdir()) == ["0", "1"]


def test_what_a_killed_fetcher_left_is_cleared(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = multiprocessing.get_context("spawn")
    killed = context.Process(target=_fetch_slowly, args=(tmp_path, 30.0))
    killed.start()
    until = time.monotonic() + 60
    while not list(cache.glob(".*/*/one.jar")) and time.monotonic() < until:
        time.sleep(0.02)
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.join(60)
    assert list(cache.glob(".*/*/one.jar"))
    assert not jars.present("broker")

    serve(monkeypatch, Registry())
    folder = jars.fetch("broker")
    assert contents(folder) == JARS
    assert not list(cache.glob(".*"))


def test_without_network_and_cache_there_is_one_sentence(tmp_path: Path) -> None:
    # Java is told to go through a proxy that is not there: the machine is as good as offline.
    proxy = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 -Dhttp.proxyHost=127.0.0.1"
    done = subprocess.run(
        [sys.executable, "-m", "lagless.adapters.spark.jars"],
        capture_output=True,
        text=True,
        env=os.environ
        | {"XDG_CACHE_HOME": str(tmp_path), "JAVA_TOOL_OPTIONS": f"{proxy} -Dhttp.proxyPort=9"},
        timeout=200,
    )
    assert done.returncode == 1
    *_, sentence = done.stderr.strip().splitlines()
    assert "could not be downloaded" in sentence
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "lagless" / "jars").glob("*/*.jar"))


def fake_java(folder: Path, version: str) -> Path:
    """Make a command that says of itself what a Java of that version says."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    specification = version.split("_")[0].rpartition(".")[0] if version < "17" else version
    lines = {"java.home": folder, "java.specification.version": specification}
    told = "\\n".join(f"    {key} = {value}" for key, value in lines.items())
    command.write_text(f'#!/bin/sh\nprintf "{told}\\n    java.version = {version}\\n" >&2\n')
    command.chmod(0o755)
    return command


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path, "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(MissingPart, match=r"too old, 1\.8\.0_402 at " + str(old)):
        java.find()


def test_a_newer_java_is_taken_and_an_old_one_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    new = fake_java(tmp_path / "new", "25")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{new.parent}:/usr/bin:/bin")
    found = java.find()
    assert (found.path, found.version) == (new, 25)
    with pytest.raises(MissingPart, match=r"jdk\.incubator\.vector"):
        java.find_for_spark()


def test_no_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPart, match=r"there is no Java in JAVA_HOME.*openjdk-17"):
        java.find()


def test_the_list_names_every_jar_once() -> None:
    names = [*jars.sums("broker"), *jars.sums("spark")]
    assert len(jars.sums("broker")) > 40
    assert all(name.endswith(".jar") for name in names)
    assert all(len(digest) == 64 for digest in jars.sums("spark").values())
    assert any(name.startswith("delta-spark") for name in jars.sums("spark"))
