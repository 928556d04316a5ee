"""The exam of every store, and that nothing else in the lake touches a file system."""

import re
import time
from pathlib import Path
from typing import get_args

import pytest

from lagless.adapters import lake
from lagless.adapters.lake import formats, schemas, store
from lagless.errors import WrongInput
from lagless.settings import Bucket, StorageSettings, TopicSettings
from tests.lake.files import claimed


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.s3)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> store.Store:
    """Return an empty store of each kind."""
    if request.param == "folder":
        return store.at(tmp_path / "lake")
    bucket = request.getfixturevalue("bucket")
    storage = StorageSettings(endpoint=request.getfixturevalue("s3").url)
    return store.at(Bucket(bucket, "lake"), storage)


def put(target: store.Store, name: str, content: bytes) -> None:
    with target.create(name) as sink:
        sink.write(content)


def test_files_are_listed_measured_read_moved_and_deleted(folder: store.Store) -> None:
    assert folder.files() == []
    folder.prepare()
    folder.prepare()
    put(folder, "b", b"12345")
    put(folder, "a", b"")
    assert [(file.name, file.size) for file in folder.files()] == [("a", 0), ("b", 5)]
    assert abs(folder.files()[0].modified - time.time()) < 60
    folder.move("b", "c")
    assert folder.read("c") == b"12345"
    with folder.open("c") as source:
        assert (source.size(), source.read_at(2, 3)) == (5, b"45")
    assert folder.delete("c")
    assert not folder.delete("c")
    put(folder, "d", b"1")
    assert folder.delete_all(["d"]) == 1
    assert folder.delete_all([]) == 0
    with pytest.raises(FileNotFoundError):
        folder.read("c")
    assert [file.name for file in folder.files()] == ["a"]


def test_a_file_is_created_once_and_those_present_are_read_at_once(folder: store.Store) -> None:
    folder.prepare()
    folder.put_new("a", b"first")
    with pytest.raises(FileExistsError):
        folder.put_new("a", b"second")
    put(folder, "c", b"")
    assert folder.read_present(["a", "b", "c"]) == {"a": b"first", "c": b""}
    assert folder.read_present([]) == {}
    assert [file.name for file in folder.files()] == ["a", "c"]


def test_folders_are_stores_of_their_own(folder: store.Store) -> None:
    assert folder.folders() == []
    inner = folder.inside("x")
    inner.prepare()
    put(inner, "a", b"1")
    assert (inner.name, inner.uri) == ("x", f"{folder.uri}/x")
    assert (folder.folders(), folder.files()) == (["x"], [])
    folder.move("x/a", "a")
    assert (folder.read("a"), inner.files()) == (b"1", [])
    folder.delete_folder("x")
    folder.delete_folder("x")
    assert folder.folders() == []


def test_only_old_and_empty_folders_are_swept(folder: store.Store) -> None:
    for name in ("cycle-1", "cycle-2", "other"):
        folder.inside(name).prepare()
    put(folder.inside("cycle-2"), "part", b"1")
    assert folder.sweep("cycle-", time.time() - 60) == 0
    swept = folder.sweep("cycle-", time.time() + 60)
    # A bucket has no empty folders.
    assert (swept, folder.folders()) == (
        (1, ["cycle-2", "other"]) if folder.is_folder else (0, ["cycle-2"])
    )


def test_tables_are_told_from_folders(folder: store.Store) -> None:
    claimed(folder.inside("orders"))
    folder.inside("other").prepare()
    put(folder.inside("other"), "a", b"1")
    assert [table.name for table in store.chosen(folder, ())] == ["orders"]
    with pytest.raises(WrongInput, match="there are: orders"):
        store.chosen(folder, ["other"])


def test_only_stores_touch_the_file_system() -> None:
    source = Path(lake.__file__).parent
    touching = re.compile(r"^\s*(from|import) (pathlib|os|shutil|tempfile|glob)\b|\bopen\(\"", re.M)
    files = {file.stem for file in source.rglob("*.py") if touching.search(file.read_text())}
    assert files == {"bucket_store", "shared_profile", "store", "trusted_roots"}


@pytest.mark.parametrize("name", get_args(TopicSettings.model_fields["format"].annotation))
def test_every_format_of_the_settings_is_one_file(name: str) -> None:
    form = formats.named(name)
    settings = TopicSettings(format=name)
    columns = formats.columns(form, settings)
    assert {*schemas.ALWAYS.names, schemas.KEY.name, *form.columns().names} <= set(columns.names)
    assert form == formats.named(name)


def test_names_of_formats_are_compared_nowhere() -> None:
    names = "|".join(get_args(TopicSettings.model_fields["format"].annotation))
    compared = re.compile(rf"[=!]= \"({names})\"|\"({names})\" [=!]=")
    source = Path(lake.__file__).parent
    assert not [file.name for file in source.rglob("*.py") if compared.search(file.read_text())]
