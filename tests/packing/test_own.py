"""Algorithms of the user's own, named as module:function."""

from pathlib import Path

import pytest

import lagless
from lagless import packing
from lagless.errors import WrongInput

MINE = """
import numpy as np

def alone(speeds, capacity, previous, *, first=1):
    return np.arange(first, first + len(speeds))

def nobody(speeds, capacity, previous):
    return np.zeros(len(speeds), np.int64)

def undecided(speeds, capacity, previous, *, depth):
    return alone(speeds, capacity, previous)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"mine_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_function_of_the_user_packs_with_its_parameters(mine: str) -> None:
    speeds = {"a": 1.0, "b": 2.0}
    assert lagless.pack(speeds, 10, algorithm=f"{mine}:alone") == {"a": 1, "b": 2}
    assert lagless.pack(speeds, 10, algorithm=f"{mine}:alone:first=5") == {"a": 5, "b": 6}
    assert lagless.pack({}, 10, algorithm=f"{mine}:alone") == {}
    assert packing.algorithm(f"{mine}:alone")[1] == {"first": 1}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("{}:nothing", "has no function 'nothing'"),
        ("{}:alone:last=1", "has no parameter 'last'"),
        ("{}:alone:first=x", "has to be a whole number"),
        ("{}:undecided", "'depth' of .* needs a default"),
        ("{}:nobody", "a whole number from 1, for each of the 2 partitions"),
        ("{}_not:alone", "no module of that name either"),
    ],
)
def test_what_cannot_be_used_is_named(mine: str, spec: str, sentence: str) -> None:
    with pytest.raises(WrongInput, match=sentence):
        lagless.pack({"a": 1.0, "b": 2.0}, 10, algorithm=spec.format(mine))
