"""The page on the architecture shows the house as it is: its rooms and its two walks."""

import ast
import configparser
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs import generate

import lagless

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lagless"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
REPEATED = {"__init__", "service", "metrics"}
"""File names that may occur more than once."""


def door_sign(package: str) -> str:
    path = SOURCE.joinpath(*package.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.get_docstring(ast.parse(file.read_text())) or ""


def packages() -> list[str]:
    return [
        found.name.removeprefix("lagless.")
        for found in pkgutil.walk_packages(lagless.__path__, "lagless.")
        if found.ispkg
    ]


def layers() -> list[list[str]]:
    """Return the rooms of `.importlinter`, upper layers first."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    lines = contracts["importlinter:contract:rooms"]["layers"].split("\n")
    return [
        [room.strip().removeprefix("lagless.") for room in line.split("|")]
        for line in lines
        if line.strip()
    ]


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def named(text: str) -> Iterator[str]:
    """Name the functions in code spans, `room.file.function`."""
    yield from re.findall(r"`((?:[a-z_]+\.)+[A-Za-z_.]+)`", text)


def resolve(name: str) -> object:
    """Return what a dotted name below `lagless` means, or fail."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(["lagless", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(f"there is no lagless.{name}")


def test_the_page_shows_the_rooms_that_there_are() -> None:
    assert section("Rooms").count("<!-- rooms -->") == 1
    drawn = [line.split("`")[1].rstrip("/") for line in generate.rooms().splitlines()]
    names = {name.rpartition(".")[2] for name in packages()}
    files = {room for layer in layers() for room in layer}
    assert len(drawn) == len(set(packages()) | files)
    assert set(drawn) == names | files


@pytest.mark.parametrize("title", ["The way of a record", "The way of a decision"])
def test_every_function_on_a_walk_exists(title: str) -> None:
    names = list(named(section(title)))
    assert len(names) >= 8
    assert [name for name in names if not callable(resolve(name))] == []


def test_every_room_has_a_layer() -> None:
    top = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    listed = {room for layer in layers() for room in layer}
    assert top - {"__init__", "__main__", "__pycache__"} - listed == set()
    assert len([name for name in packages() if "." not in name]) <= 11


def test_every_package_says_what_lives_there_and_what_may_not_enter() -> None:
    short = [name for name in packages() if door_sign(name).count(".") < 2]
    assert short == []


def test_a_file_name_occurs_once() -> None:
    stems = [path.stem for path in SOURCE.rglob("*.py")]
    assert sorted({stem for stem in stems if stems.count(stem) > 1} - REPEATED) == []
