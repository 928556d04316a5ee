"""scripts/setup: Java that is new enough, or else installed or named; libraries by uv or pip."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parent.parent / "scripts" / "setup"
NEEDED = ("bash", "dirname", "sed", "head", "cat", "cksum", "mkdir", "cp")

PINS = """# pins
numpy==2.4.6 \\
    --hash=sha256:11
pyspark-client==4.2.0 \\
    --hash=sha256:22
uv==0.13.7 \\
    --hash=sha256:33 \\
    --hash=sha256:44
"""
JARS = "lagless.adapters.spark.jars"


class Machine:
    """A machine with these programs alone; without Python the script ends once Java is settled."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls = folder / "calls"
        self.calls.touch()
        (folder / "scripts").mkdir()
        self.setup = Path(shutil.copy(SETUP, folder / "scripts" / "setup"))
        (folder / "pyproject.toml").touch()
        (folder / "constraints.txt").write_text(PINS)
        for name in NEEDED:
            (self.bin / name).symlink_to(shutil.which(name) or name)

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)

    def user(self, number: int) -> None:
        self.program(self.bin / "id", f"echo {number}")

    def java(self, version: str, home: Path | None = None) -> None:
        said = f"echo 'openjdk version \"{version}\" 2024-01-01' >&2"
        self.program((home or self.bin.parent) / "bin" / "java", said)

    def apt(self) -> None:
        self.program(self.bin / "apt-get", f'echo "$@" >> {self.calls}')

    def python(self, refuses: str = "nothing") -> None:
        """Have a Python that notes what it is asked to run, and fails at what has this in it."""
        text = f"""
            echo "$@" >> {self.calls}
            case "$*" in *"-r /dev/stdin"*) sed s/^/stdin:/ >> {self.calls} ;; esac
            case "$*" in
                *"{refuses}"*) exit 1 ;;
                *"venv .venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
                *"-e ."*) cp "$0" .venv/bin/lagless ;;
            esac"""
        self.program(self.bin / "python3", text)

    def asked(self) -> list[str]:
        """Return the modules that Python was asked to run, with their arguments."""
        return [line for line in self.calls.read_text().splitlines() if line.startswith("-m")]

    def pinned(self) -> list[str]:
        """Return what pip was given to install with hashes, by name."""
        lines = self.calls.read_text().splitlines()
        return [
            line.partition(":")[2].partition("=")[0]
            for line in lines
            if "stdin:" in line and "==" in line
        ]

    def run(self, *words: str, status: int = 1, **environ: str) -> str:
        done = subprocess.run(
            ["bash", str(self.setup), *words],
            env={"PATH": str(self.bin), **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stderr
        assert done.stdout == ""
        return done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.user(os.getuid())
    return made


def test_without_java_root_gets_it_by_apt_and_is_told(machine: Machine) -> None:
    machine.user(0)
    machine.apt()
    said = machine.run()
    assert "installing openjdk-17-jre-headless with apt-get" in said
    update, install = machine.calls.read_text().splitlines()
    assert update.startswith("update")
    assert install.startswith("install")
    assert install.endswith("openjdk-17-jre-headless")
    assert "Python 3.11 or newer is needed" in said  # and on it went


def test_without_java_and_without_rights_one_sentence_says_what_to_install(
    machine: Machine,
) -> None:
    machine.user(1000)
    machine.apt()
    (said,) = machine.run().splitlines()
    assert "install a JRE, openjdk-17-jre-headless on Debian and Ubuntu" in said
    assert machine.calls.read_text() == ""


def test_elsewhere_than_on_debian_nothing_is_installed(machine: Machine) -> None:
    machine.user(0)
    assert "Java 17 or newer is needed and none was found" in machine.run()


@pytest.mark.parametrize(("version", "major"), [("11.0.2", "11"), ("1.8.0_402", "8")])
def test_a_java_that_is_too_old_is_named(machine: Machine, version: str, major: str) -> None:
    machine.java(version)
    said = machine.run()
    assert f"{machine.bin / 'java'} is version {major}" in said


@pytest.mark.parametrize("version", ["17.0.15", "21.0.1"])
def test_a_newer_java_is_taken_from_the_path_or_from_java_home(
    machine: Machine, tmp_path: Path, version: str
) -> None:
    machine.java(version, tmp_path / "home")
    assert "Java" not in machine.run(JAVA_HOME=str(tmp_path / "home"))
    machine.java("11.0.2", tmp_path / "old")
    machine.java(version)
    assert "Java" not in machine.run(JAVA_HOME=str(tmp_path / "old"))


@pytest.fixture
def ready(machine: Machine) -> Machine:
    machine.java("17.0.15")
    return machine


def test_libraries_come_by_uv_and_the_jvm_parts_after_them(ready: Machine) -> None:
    ready.python()
    said = ready.run(status=0)
    assert "trying with pip" not in said
    venv, uv, libraries, jars = ready.asked()
    assert venv == "-m venv .venv"
    assert uv.startswith("-m pip install")
    assert uv.endswith("--require-hashes -r /dev/stdin")
    assert ready.pinned() == ["uv"]
    assert libraries.startswith("-m uv pip install")
    assert libraries.endswith("-c constraints.txt --build-constraints constraints.txt -e .[dev]")
    assert jars == f"-m {JARS}"


def test_where_uv_finds_nothing_pip_installs(ready: Machine) -> None:
    ready.python("-m uv pip")
    assert "uv could not install them: trying with pip" in ready.run("libraries", status=0)
    libraries, lagless = ready.asked()[-2:]
    assert libraries.startswith("-m pip install")
    assert libraries.endswith("--require-hashes -r /dev/stdin")
    # Never pyspark-client, which has the files of pyspark too.
    assert ready.pinned() == ["uv", "numpy", "uv"]
    assert lagless.startswith("-m pip install")
    assert lagless.endswith("--no-deps --no-build-isolation -e .")


def test_it_goes_on_where_it_failed_and_does_nothing_twice(ready: Machine) -> None:
    ready.python("-e .")
    ready.run()
    ready.python()
    shutil.copy(ready.bin / "python3", ready.setup.parent.parent / ".venv" / "bin" / "python")
    tried = len(ready.asked())
    ready.run(status=0)
    assert [words.split()[1] for words in ready.asked()[tried:]] == ["pip", "uv", JARS]
    done = len(ready.asked())
    ready.run(status=0)
    ready.run("libraries", status=0)
    assert [words.split()[1] for words in ready.asked()[done:]] == [JARS]


def test_what_setup_does_not_know_is_one_sentence(ready: Machine) -> None:
    (said,) = ready.run("everything").splitlines()
    assert "scripts/setup everything: there is libraries and jars" in said
