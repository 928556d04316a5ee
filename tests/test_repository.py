"""What holds for the repository as a whole."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lagless

ROOT = Path(__file__).parent.parent
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|farm|root)/")
LOCK_FILES = {"uv.lock", "poetry.lock", "package-lock.json", "Pipfile.lock"}


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_the_public_surface_is_small() -> None:
    assert sorted(lagless.__all__) == ["__version__", "algorithms", "pack", "rscore"]
    assert all(hasattr(lagless, name) for name in lagless.__all__)


def test_no_file_names_a_place_on_one_machine() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.is_file() and MACHINE_PATH.search(path.read_text(errors="ignore"))
    ]
    assert found == []


def test_packages_are_pinned_without_naming_where_they_come_from() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert len(pins) > 50
    assert [
        line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+", line)
    ] == []
    assert [path.name for path in tracked() if path.name in LOCK_FILES] == []


@pytest.mark.parametrize("module", ["lagless", "lagless.cli.app"])
def test_importing_loads_no_compiler_and_no_client(module: str) -> None:
    heavy = {"numba", "pyspark", "confluent_kafka", "kafka", "deltalake", "kubernetes", "nicegui"}
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert heavy.isdisjoint(loaded.stdout.split())


def test_source_files_stay_readable() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in (ROOT / "src").rglob("*.py")
        if (count := len(path.read_text().splitlines())) > 400
    }
    assert long == {}
