"""Archives of classes: found for what they were made for, ignored when damaged, made once."""

import os
import re
import struct
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lagless.adapters.spark import archives, jars, java, jvm, tuning
from lagless.adapters.spark.java import Java
from lagless.errors import GiveUp


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def parts(cached: Path) -> list[Path]:
    found = [cached / name for name in ("a.jar", "b.jar")]
    for jar in found:
        jar.write_bytes(jar.name.encode())
    return found


RUNTIME = Java(Path("/java/bin/java"), 17, "17.0.15", Path("/java"))


def writing(content: bytes, calls: list[Path] | None = None) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)
        if calls is not None:
            calls.append(path)

    return write


def test_an_archive_is_found_for_the_same_java_and_jars(parts: list[Path]) -> None:
    assert archives.find(RUNTIME, parts) is None
    path, is_new = archives.make(RUNTIME, parts, writing(b"classes"))
    assert is_new
    assert archives.find(RUNTIME, parts) == path
    assert archives.make(RUNTIME, parts, writing(b"others")) == (path, False)
    assert path.read_bytes() == b"classes"


def test_whatever_changes_asks_for_another_archive(
    parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    archives.make(RUNTIME, parts, writing(b"classes"))
    newer = Java(RUNTIME.path, 17, "17.0.16", RUNTIME.home)
    assert archives.find(newer, parts) is None
    assert archives.find(RUNTIME, parts[::-1]) is None
    assert archives.find(RUNTIME, parts[:1]) is None
    with monkeypatch.context() as patch:
        patch.setattr(archives, "__version__", "another")
        assert archives.find(RUNTIME, parts) is None
    assert archives.find(RUNTIME, parts) is not None
    parts[0].write_bytes(b"longer than it was")
    assert archives.find(RUNTIME, parts) is None


def test_a_jar_that_was_replaced_by_one_of_the_same_size_is_another(parts: list[Path]) -> None:
    archives.make(RUNTIME, parts, writing(b"classes"))
    os.utime(parts[1], (1_000_000_000, 1_000_000_000))
    assert archives.find(RUNTIME, parts) is None


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)
@given(content=st.binary(min_size=1, max_size=50), data=st.data())
def test_a_damaged_archive_is_ignored_and_made_again(
    parts: list[Path], content: bytes, data: st.DataObject
) -> None:
    path, _ = archives.make(RUNTIME, parts, writing(content))
    good = path.read_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    damaged = data.draw(
        st.sampled_from([good[:place], good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]])
    )
    path.write_bytes(damaged)
    assert archives.find(RUNTIME, parts) is None
    again, is_new = archives.make(RUNTIME, parts, writing(content))
    assert is_new
    assert again.read_bytes() == content
    archives.make(RUNTIME, parts, writing(content))
    jars.clear(path.parent)


def test_of_many_that_make_it_at_once_one_does(parts: list[Path]) -> None:
    calls: list[Path] = []
    with ThreadPoolExecutor(6) as pool:
        made = list(
            pool.map(lambda _: archives.make(RUNTIME, parts, writing(b"x", calls)), range(6))
        )
    assert len(calls) == 1
    assert sum(is_new for _, is_new in made) == 1
    assert {path for path, _ in made} == {archives.find(RUNTIME, parts)}


def test_a_maker_that_failed_leaves_nothing_under_the_name(parts: list[Path]) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        archives.make(RUNTIME, parts, fail)
    assert archives.find(RUNTIME, parts) is None
    assert not archives.home(RUNTIME, parts).exists()


def test_the_newest_archives_are_kept(parts: list[Path]) -> None:
    made = []
    for age in range(archives.KEPT + 2):
        runtime = Java(RUNTIME.path, 17, f"17.0.{age}", RUNTIME.home)
        path, _ = archives.make(runtime, parts, writing(b"x"))
        os.utime(path.parent, (age, age))
        made.append(path)
    archives.make(RUNTIME, parts, writing(b"x"))
    assert [path.exists() for path in made] == [False] * 3 + [True] * (archives.KEPT - 1)


@pytest.mark.parametrize(
    ("url", "conf", "can"),
    [
        ("local[2]", {}, True),
        ("local[*]", {"spark.driver.memory": "800m"}, True),
        ("local[1]", {"spark.driver.extraJavaOptions": "-Xss4m"}, True),
        ("local[1]", {"spark.driver.memory": "1 GiB"}, False),
        ("local[1]", {"spark.driver.extraClassPath": "/x.jar"}, False),
        ("local[1]", {"spark.jars.packages": "a:b:1"}, False),
        ("spark://master:7077", {}, False),
        ("sc://server:15002", {}, False),
    ],
)
def test_what_only_spark_submit_understands_is_left_to_it(
    url: str, conf: dict[str, str], can: bool
) -> None:
    assert jvm.can_start(url, conf) is can


@pytest.mark.parametrize(
    ("url", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local[*]", None)]
)
def test_the_cores_are_those_of_the_url(url: str, cores: int | None) -> None:
    assert jvm.cores(url) == (cores or os.cpu_count())


@pytest.mark.parametrize(
    ("ending", "why"), [("exit 7", "ended with status 7"), ("kill -9 $$", "spark.memory is 512m")]
)
def test_a_jvm_that_ended_is_not_joined(
    ending: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sh", "-c", ending]) as process:
        process.wait()
    address = tmp_path / "address"
    address.write_bytes(struct.pack(">ii", 1234, 6) + b"secret")
    monkeypatch.setattr(jvm, "_started", jvm.Jvm(process, address, "512m"))
    with pytest.raises(GiveUp, match=why), jvm.joined():
        raise AssertionError("it was joined")
    assert "PYSPARK_GATEWAY_PORT" not in os.environ


def test_pyspark_is_told_where_a_running_jvm_listens_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = tmp_path / "address"
    address.write_bytes(struct.pack(">ii", 1234, 6) + b"secret")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(jvm, "_started", jvm.Jvm(process, address, "512m"))
        with jvm.joined():
            assert os.environ["PYSPARK_GATEWAY_PORT"] == "1234"
            assert os.environ["PYSPARK_GATEWAY_SECRET"] == "secret"
        assert "PYSPARK_GATEWAY_SECRET" not in os.environ
        assert jvm.end() == 0, "it ends when nobody writes to it any more"


def test_the_jvm_gets_the_options_that_spark_submit_would_give() -> None:
    home = jars.spark_home()
    answer = subprocess.run(
        [
            str(java.find().path),
            *("-cp", str(home / "jars" / "*"), "org.apache.spark.launcher.Main"),
            *("org.apache.spark.deploy.SparkSubmit", "pyspark-shell"),
        ],
        capture_output=True,
        env={**jars.spark_environment(), "SPARK_SCALA_VERSION": "2.13"},
        check=True,
    )
    words = [word.decode() for word in answer.stdout.split(b"\0")]
    first = words.index(tuning.MODULES[0])
    assert words[first : first + len(tuning.MODULES)] == list(tuning.MODULES)
    # What follows belongs to Spark's SQL server, and to SparkSubmit itself.
    rest = words[first + len(tuning.MODULES) :]
    assert not [word for word in rest if word.startswith(("--add", "-XX", "-Dio"))]
    listed = words[words.index("-cp") + 1].split(":")
    assert Path(listed[1]).name == jvm.classpath([])[0].name


@pytest.mark.parametrize("own", [[], ["-XX:+UseSerialGC"], ["-Xss4m", "-XX:+UseG1GC"]])
@pytest.mark.parametrize("cores", [1, 2])
def test_a_jvm_does_not_get_two_collectors(cores: int, own: list[str]) -> None:
    given = [*tuning.alone(cores, own), *own]
    assert len([option for option in given if re.fullmatch(r"-XX:\+Use\w+GC", option)]) == 1


def test_a_runtime_that_says_what_it_is_need_not_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\nexit 1\n")
    command.chmod(0o755)
    release = f'JAVA_VERSION="21.0.1"\nMODULES="java.base {java.VECTOR}"\n'
    (tmp_path / "release").write_text(release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = java.find_for_spark()
    assert (found.version, found.full_version, found.home) == (21, "21.0.1", tmp_path)
