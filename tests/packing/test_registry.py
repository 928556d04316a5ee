"""The registry: names, parameters, wrong ones, users' own algorithms, and what importing loads."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import lagless
from lagless import packing
from lagless.errors import WrongInput
from lagless.packing import anyfit, plain


def run(code: str, **environment: str) -> str:
    """Run Python code in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_algorithm_of_the_design_is_there() -> None:
    names = lagless.algorithms()
    assert len(names) == len(set(names))
    assert {*plain.ALGORITHMS, "sticky"} <= set(names)


def test_only_the_online_algorithms_depend_on_the_order() -> None:
    online = [name for name, entry in packing.REGISTRY.items() if entry.online]
    assert online == ["nf", "ff", "bf", "wf"]


def test_a_packer_works_on_arrays() -> None:
    speeds = np.array([6.0, 6.0, 4.0])
    found = packing.packer("bf")(speeds, 10.0, np.array([7, 0, 0]))
    assert found.dtype == np.int64
    assert found.tolist() == [7, 1, 1]


def test_a_packer_takes_arrays_that_are_not_contiguous() -> None:
    rng = np.random.default_rng(1)
    table, numbers = rng.uniform(0, 1, (40, 2)), rng.integers(0, 9, (40, 2))
    pack = packing.packer("nfd")
    expected = pack(table[:, 0].copy(), 1.0, numbers[:, 0].copy())
    assert pack(table[:, 0], 1.0, numbers[:, 0]).tolist() == expected.tolist()


def test_a_packer_does_not_change_its_arguments() -> None:
    speeds, previous = np.array([0.4, 0.9, 0.4, 1.2]), np.array([3, 900, 3, 0])
    for name in plain.ALGORITHMS:
        packing.packer(name)(speeds, 1.0, previous)
    assert speeds.tolist() == [0.4, 0.9, 0.4, 1.2]
    assert previous.tolist() == [3, 900, 3, 0]


def test_parameters_come_with_the_name_or_beside_it() -> None:
    assert packing.algorithm("sticky")[1] == {"slack": 0.05}
    assert packing.algorithm("sticky:slack=0.1")[1] == {"slack": 0.1}
    assert packing.algorithm("sticky", slack=1)[1] == {"slack": 1.0}
    assert packing.algorithm("kd_12")[1] == packing.algorithm("kd_<n>:n=12")[1] == {"n": 12}
    assert packing.pack({"a": 1.0, "b": 1.0}, 1, None, "kd_<n>", n=2) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("spec", "parameters", "match"),
    [
        ("best", {}, r"unknown algorithm 'best'; known: nf, .*kd_<n>, ezzeddine, sticky"),
        ("", {}, "unknown algorithm ''"),
        ("NF", {}, "unknown algorithm 'NF'"),
        ("kd_", {}, "unknown algorithm 'kd_'"),
        ("kd_x", {}, "unknown algorithm 'kd_x'"),
        ("kd_0", {}, "at least one consumer"),
        ("mwf:slack=1", {}, "'mwf:slack=1' has no parameter 'slack'; its parameters: none"),
        ("sticky", {"slak": 1}, "no parameter 'slak'; its parameters: slack"),
        ("sticky:slack", {}, "'slack' in 'sticky:slack' is not written parameter=value"),
        ("sticky:slack=much", {}, "has to be a number, not 'much'"),
        ("sticky:slack=0.1", {"slack": 0.1}, "'slack' of 'sticky:slack=0.1' is given twice"),
        ("sticky:slack=0.1:slack=0.2", {}, "given twice"),
        ("kd_<n>", {"n": 2.5}, "has to be a whole number, not 2.5"),
        ("kd_<n>", {"n": True}, "has to be a whole number, not True"),
        ("kd_3:n=4", {}, "given twice"),
        (None, {}, "named by a text, not None"),
    ],
)
def test_a_wrong_name_or_parameter_is_named(
    spec: str, parameters: dict[str, float], match: str
) -> None:
    with pytest.raises(WrongInput, match=match):
        packing.pack({"a": 1.0}, 1.0, None, spec, **parameters)


def test_importing_lagless_loads_no_library() -> None:
    heavy = "{'numpy', 'numba', 'pydantic', 'typer', 'ortools'}"
    assert run(f"import sys, lagless; print({heavy} & set(sys.modules))") == "set()"


def test_naming_an_algorithm_loads_no_library() -> None:
    code = "import sys; from lagless import packing; packing.algorithm('mwf'); print(*sys.modules)"
    assert "numba" not in run(code).split()


@pytest.mark.slow
def test_a_second_process_does_not_compile_again(tmp_path: Path) -> None:
    code = """
import json, numpy as np
from lagless.packing import anyfit, modified
for pack in (anyfit.nf, modified.mbf):
    pack(np.array([0.6, 0.5]), 1.0, np.array([1, 0]))
kernels = anyfit.fit, modified.modified
print(json.dumps([sum(kernel.stats.cache_misses.values()) for kernel in kernels]))
"""
    assert json.loads(run(code, NUMBA_CACHE_DIR=str(tmp_path))) == [1, 1]
    assert json.loads(run(code, NUMBA_CACHE_DIR=str(tmp_path))) == [0, 0]


@pytest.mark.slow
def test_compiled_code_calls_the_algorithms_too() -> None:
    def replay(stream: Any, capacity: float, current: Any) -> Any:
        for speeds in stream:
            current = anyfit.nfd(speeds, capacity, current)
        return current

    stream = np.array([[0.6, 0.5, 0.4], [0.3, 0.5, 0.4]])
    assert njit(replay)(stream, 1.0, np.zeros(3, np.int64)).tolist() == [1, 2, 2]


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
        ("{}_not:alone", "is neither an algorithm nor a module"),
    ],
)
def test_what_cannot_be_used_is_named(mine: str, spec: str, sentence: str) -> None:
    with pytest.raises(WrongInput, match=sentence):
        lagless.pack({"a": 1.0, "b": 2.0}, 10, algorithm=spec.format(mine))


def test_next_fits_first_consumer_is_the_previous_or_the_lowest_one() -> None:
    speeds, previous = {"a": 6.0, "b": 5.0}, {"a": 7, "b": 1}
    assert packing.pack(speeds, 10.0, previous, "nfd") == {"a": 7, "b": 1}
    assert packing.pack(speeds, 10.0, previous, "nfd:first=lowest") == {"a": 1, "b": 2}
    with pytest.raises(WrongInput, match="'first' is previous or lowest, not 'last'"):
        packing.pack(speeds, 10.0, previous, "nf:first=last")
