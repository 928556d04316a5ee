"""What holds for the repository as a whole."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def pins(file: str) -> list[str]:
    """Return a line for each package, with its hashes."""
    return re.sub(r" \\\n +", " ", (ROOT / file).read_text()).splitlines()[1:]


PINS = pins("constraints.txt")


@pytest.mark.parametrize("file", ["constraints.txt", "scripts/tools.txt"])
def test_packages_are_pinned_with_hashes_and_without_naming_where_they_come_from(file: str) -> None:
    assert len(pins(file)) > 20
    one = r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!_-]+( ; [^\\:/]+)?( --hash=sha256:[0-9a-f]{64})+"
    assert [line for line in pins(file) if not re.fullmatch(one, line)] == []
    assert [path.name for path in tracked() if path.name in LOCK_FILES] == []


def test_nothing_is_installed_that_is_not_pinned() -> None:
    """Follow what lagless asks for here, through every package that is installed for it."""
    pinned = {re.split("==", line)[0].lower() for line in PINS}
    wanted = [("lagless", "dev")]
    seen = set(wanted)
    for name, extra in wanted:
        for text in metadata.distribution(name).requires or ():
            asked = Requirement(text)
            if asked.marker is None or asked.marker.evaluate({"extra": extra}):
                new = {(canonicalize_name(asked.name), e) for e in ("", *asked.extras)} - seen
                seen |= new
                wanted += new
    assert {name for name, _ in seen} - pinned == {"lagless"}


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
