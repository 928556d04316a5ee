"""Observations are kept as they are made, and a run is taken up again."""

import json
from pathlib import Path

import pytest

from lagless.errors import WrongInput
from lagless.lab.live.journal import Journal, read


def test_an_interrupted_part_goes_on(tmp_path: Path) -> None:
    first = Journal(tmp_path / "dt1.json", "dt1", {"steps": 3})
    assert not first.resumed
    first.note("steps", {"seconds": 1.0}, {"seconds": 2.0})
    second = Journal(tmp_path / "dt1.json", "dt1", {"steps": 3})
    assert second.resumed
    assert not second.complete
    second.note("steps", {"seconds": 3.0})
    second.finish(machine={"cores": "2"})
    third = Journal(tmp_path / "dt1.json", "dt1", {"steps": 3})
    assert third.complete
    assert [one["seconds"] for one in third.all("steps")] == [1.0, 2.0, 3.0]
    assert third.data["machine"] == {"cores": "2"}


def test_the_time_of_earlier_runs_counts_and_that_of_other_parts_does_not(tmp_path: Path) -> None:
    file = tmp_path / "dt1.json"
    Journal(file, "dt1", {}).note("steps", 1)
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "seconds": 100.0}))
    again = Journal(file, "dt1", {})
    again.begin()
    again.note("steps", 2)
    assert 100.0 <= read(file)["seconds"] < 110.0


def test_another_size_is_refused_in_a_sentence(tmp_path: Path) -> None:
    Journal(tmp_path / "dt1.json", "dt1", {"steps": 3}).note("steps", 1)
    with pytest.raises(WrongInput, match=r"dt1\.json was made with steps = 3 and not 30"):
        Journal(tmp_path / "dt1.json", "dt1", {"steps": 30})


@pytest.mark.parametrize("text", ["", "[1]", '{"version": 99}', '{"version": 1}'])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "dt1.json").write_text(text)
    with pytest.raises(WrongInput, match="remove it to measure again"):
        Journal(tmp_path / "dt1.json", "dt1", {})
