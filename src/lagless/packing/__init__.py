"""Packing: which consumer reads which partition. Pure: numbers in, numbers out.

No clock, randomness, logger or client enters this room. Every algorithm is a function on arrays
(`Packer`), found by name in the registry here; `pack` puts mappings around it. The compiled
kernels are loaded when an algorithm is first needed, so that importing lagless stays quick.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

from lagless import extras
from lagless.errors import WrongInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "REGISTRY",
    "Algorithm",
    "Packer",
    "Packing",
    "algorithm",
    "algorithms",
    "pack",
    "packer",
    "packing",
]

Partition = TypeVar("Partition", bound=Hashable)
Parameter = float | int | str
Family = Literal["next fit", "any fit", "modified", "count", "other"]


class Packer(Protocol):
    """Pack speeds, in the mapping's order, into consumers of a capacity.

    `previous` has 0 where a partition had no consumer; the answer's consumers are numbers from 1.
    """

    def __call__(
        self, speeds: NDArray[np.float64], capacity: float, previous: NDArray[np.int64], /
    ) -> NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What the registry knows of an algorithm.

    `function` names it as `module:function` within this room. `online` says that the order of the
    partitions matters, so that experiments shuffle it. `extra` is what has to be installed.
    """

    name: str
    function: str
    family: Family = "other"
    online: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    extra: str | None = None


REGISTRY: dict[str, Algorithm] = {
    entry.name: entry
    for entry in (
        Algorithm("nf", "anyfit:nf", family="next fit", online=True),
        Algorithm("nfd", "anyfit:nfd", family="next fit"),
        Algorithm("ff", "anyfit:ff", family="any fit", online=True),
        Algorithm("ffd", "anyfit:ffd", family="any fit"),
        Algorithm("bf", "anyfit:bf", family="any fit", online=True),
        Algorithm("bfd", "anyfit:bfd", family="any fit"),
        Algorithm("wf", "anyfit:wf", family="any fit", online=True),
        Algorithm("wfd", "anyfit:wfd", family="any fit"),
        Algorithm("mwf", "modified:mwf", family="modified"),
        Algorithm("mbf", "modified:mbf", family="modified"),
        Algorithm("mwfp", "modified:mwfp", family="modified"),
        Algorithm("mbfp", "modified:mbfp", family="modified"),
        # A family: kd_15 is short for kd_<n>:n=15.
        Algorithm("kd_<n>", "baselines:kd", family="count", parameters={"n": 1}),
        Algorithm("ezzeddine", "baselines:ezzeddine", family="any fit"),
        Algorithm("sticky", "sticky:pack", parameters={"slack": 0.05}),
        Algorithm(
            "exact", "exact:pack", parameters={"seconds": 10.0, "consumers": 0}, extra="exact"
        ),
    )
}

_COUNTED = re.compile(r"kd_([0-9]+)")


def algorithms() -> list[str]:
    """List the names of the algorithms.

    Each can be given to `pack` as it is. `kd_<n>` stands for kd_1, kd_2, …: as it is written it
    takes its parameter n, which is 1 unless given.
    """
    return list(REGISTRY)


def algorithm(spec: str, **parameters: Parameter) -> tuple[Algorithm, dict[str, Parameter]]:
    """Look up `name:parameter=value:…` and return the algorithm and all its parameters.

    Loads no kernel, so that a setting or an option can be checked at no cost. An algorithm of the
    user's own is named as `module:function`.
    """
    if not isinstance(spec, str):
        raise WrongInput(f"an algorithm is named by a text, not {spec!r}")
    name, *pairs = spec.split(":")
    given: dict[str, Parameter] = {}
    counted = _COUNTED.fullmatch(name)
    if counted:
        name, given = "kd_<n>", {"n": counted[1]}
    known = REGISTRY.get(name)
    if known is None and pairs and "=" not in pairs[0]:
        known = _of_the_user(name, pairs.pop(0))
    if known is None:
        raise WrongInput(f"there is no algorithm {name!r}; there are {', '.join(REGISTRY)}")
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise WrongInput(f"{pair!r} in {spec!r} is not written parameter=value")
        _add(given, key, text, spec)
    for key, value in parameters.items():
        _add(given, key, value, spec)
    for key in given:
        if key not in known.parameters:
            there = ", ".join(known.parameters) or "none"
            raise WrongInput(f"{spec!r} has no parameter {key!r}; its parameters: {there}")
    return known, {
        key: _typed(spec, key, given.get(key, default), default)
        for key, default in known.parameters.items()
    }


def _of_the_user(module: str, function: str) -> Algorithm:
    from lagless.packing import own  # numpy is loaded by the first packing

    _, parameters = own.find(module, function)
    return Algorithm(f"{module}:{function}", f"{module}:{function}", parameters=parameters)


def _add(given: dict[str, Parameter], key: str, value: Parameter, spec: str) -> None:
    if key in given:
        raise WrongInput(f"the parameter {key!r} of {spec!r} is given twice")
    given[key] = value


def _typed(spec: str, key: str, value: Parameter, default: Parameter) -> Parameter:
    """Return the value as the type of its default."""
    kind = type(default)
    try:
        typed = kind(value)
        exact = isinstance(value, str) or typed == value
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact or isinstance(value, bool):
        noun = {float: "a number", int: "a whole number"}.get(kind, "a text")
        raise WrongInput(f"the parameter {key!r} of {spec!r} has to be {noun}, not {value!r}")
    return typed


def packer(spec: str, **parameters: Parameter) -> Packer:
    """Return the algorithm of that name, with its parameters, as a function on arrays.

    The arrays are not checked: see `Packer` for what they have to be.
    """
    known, values = algorithm(spec, **parameters)
    module, _, function = known.function.partition(":")
    if known.name not in REGISTRY:
        from lagless.packing import own

        found, _ = own.find(module, function)
    elif known.extra is None:
        found = getattr(import_module(f"{__name__}.{module}"), function)
    else:
        with extras.needed(known.extra):
            found = getattr(import_module(f"{__name__}.{module}"), function)
    return cast(Packer, partial(found, **values) if values else found)


@dataclass(frozen=True, slots=True)
class Packing(Generic[Partition]):
    """An assignment and what it costs.

    `oversize` are the partitions faster than the capacity, which no consumer can keep up with.
    """

    assignment: dict[Partition, int]
    consumers: int
    oversize: tuple[Partition, ...]
    rscore: float
    migrations: int


def packing(
    speeds: Mapping[Partition, float],
    capacity: float,
    previous: Mapping[Partition, int] | None = None,
    algorithm: str = "sticky",
    **parameters: Any,
) -> Packing[Partition]:
    """Pack partitions into consumers, and say what is oversize and what it costs to get there.

    `speeds` is in the order that the online algorithms take.
    """
    from lagless.packing import inputs, scores  # numpy is loaded by the first packing

    chosen = packer(algorithm, **parameters)
    before, rates, limit = inputs.arrays(speeds, capacity, previous)
    after = chosen(rates, limit, before)
    partitions = list(speeds)
    return Packing(
        assignment=dict(zip(partitions, after.tolist(), strict=True)),
        consumers=len(set(after.tolist())),
        oversize=tuple(partitions[i] for i in (rates > limit).nonzero()[0]),
        rscore=scores.moved_rate(rates, before, after) / limit,
        migrations=int(scores.moved(before, after).sum()),
    )


def pack(
    speeds: Mapping[Partition, float],
    capacity: float,
    previous: Mapping[Partition, int] | None = None,
    algorithm: str = "sticky",
    **parameters: Any,
) -> dict[Partition, int]:
    """Pack partitions into consumers 1, 2, … of a capacity; `packing` says more about the answer.

    `speeds` is in the order that the online algorithms take; a partition faster than the capacity
    gets a consumer of its own.
    """
    from lagless.packing import inputs  # numpy is loaded by the first packing

    chosen = packer(algorithm, **parameters)
    before, rates, limit = inputs.arrays(speeds, capacity, previous)
    return dict(zip(speeds, chosen(rates, limit, before).tolist(), strict=True))
