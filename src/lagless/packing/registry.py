"""The registry: algorithms by name, the user's own by module:function, and `pack` around them.

An algorithm is a function on arrays, a `Packer`. Its module is imported when it is first needed,
so that looking up a name or importing lagless loads neither numpy nor numba.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

from lagless import extras
from lagless.errors import WrongInput

if TYPE_CHECKING:
    from lagless.packing.inputs import Consumers, Speeds

Partition = TypeVar("Partition", bound=Hashable)
Parameter = float | int | str
Family = Literal["next fit", "any fit", "modified", "count", "other"]


class Packer(Protocol):
    """Pack speeds, in the mapping's order, into consumers of a capacity.

    `previous` has 0 where a partition had no consumer; the answer's consumers are numbers from 1.
    """

    def __call__(self, speeds: Speeds, capacity: float, previous: Consumers, /) -> Consumers: ...


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An entry of the registry.

    `function` is its `module:function` within this room. `online` means that the order of the
    partitions matters, so experiments shuffle it. `extra` is the extra that has to be installed.
    """

    name: str
    function: str
    family: Family = "other"
    online: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    extra: str | None = None


_FIRST: Mapping[str, Parameter] = {"first": "previous"}
REGISTRY: dict[str, Algorithm] = {
    entry.name: entry
    for entry in (
        Algorithm("nf", "anyfit:next_fit", "next fit", online=True, parameters=_FIRST),
        Algorithm("nfd", "anyfit:next_fit_decreasing", "next fit", parameters=_FIRST),
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
        Algorithm("kd_<n>", "anyfit:kd", family="count", parameters={"n": 1}),
        Algorithm("ezzeddine", "anyfit:ezzeddine", family="any fit"),
        Algorithm("sticky", "sticky:pack", parameters={"slack": 0.05}),
        Algorithm(
            "exact", "exact:pack", parameters={"seconds": 10.0, "consumers": 0}, extra="exact"
        ),
    )
}

_COUNTED = re.compile(r"kd_([0-9]+)")


def algorithms() -> list[str]:
    """Return the names of the algorithms, each of which `pack` takes.

    `kd_<n>` stands for kd_1, kd_2, …; under its own name it takes the parameter n, by default 1.
    """
    return list(REGISTRY)


def algorithm(spec: str, **parameters: Parameter) -> tuple[Algorithm, dict[str, Parameter]]:
    """Look up `name:parameter=value:…` and return the algorithm and all its parameters.

    This loads no kernel, so checking a setting or an option is cheap. A user's own algorithm is
    named by `module:function`.
    """
    if not isinstance(spec, str):
        raise WrongInput(f"an algorithm is named by a text, not {spec!r}")
    name, *pairs = spec.split(":")
    values: dict[str, Parameter] = {}
    counted = _COUNTED.fullmatch(name)
    if counted:
        name, values = "kd_<n>", {"n": counted[1]}
    entry = REGISTRY.get(name)
    if entry is None and pairs and "=" not in pairs[0]:
        entry = _of_the_user(name, pairs.pop(0))
    if entry is None:
        raise WrongInput(f"unknown algorithm {name!r}; known: {', '.join(REGISTRY)}")
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise WrongInput(f"{pair!r} in {spec!r} is not written parameter=value")
        _add(values, key, text, spec)
    for key, value in parameters.items():
        _add(values, key, value, spec)
    for key in values:
        if key not in entry.parameters:
            names = ", ".join(entry.parameters) or "none"
            raise WrongInput(f"{spec!r} has no parameter {key!r}; its parameters: {names}")
    return entry, {
        key: _typed(spec, key, values.get(key, default), default)
        for key, default in entry.parameters.items()
    }


def _add(values: dict[str, Parameter], key: str, value: Parameter, spec: str) -> None:
    if key in values:
        raise WrongInput(f"the parameter {key!r} of {spec!r} is given twice")
    values[key] = value


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
    entry, values = algorithm(spec, **parameters)
    module, _, name = entry.function.partition(":")
    function: Callable[..., Any]
    if entry.name not in REGISTRY:
        function = _checked(_import(module, name), entry.name)
    else:
        with extras.needed(entry.extra) if entry.extra else nullcontext():
            function = getattr(import_module(f"lagless.packing.{module}"), name)
    return cast(Packer, partial(function, **values) if values else function)


def _of_the_user(module: str, name: str) -> Algorithm:
    """Return the entry of a user's own function, with its keyword-only parameters."""
    signature = inspect.signature(_import(module, name))
    parameters = {
        key: parameter.default
        for key, parameter in signature.parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for key, default in parameters.items():
        if not isinstance(default, int | float | str):
            raise WrongInput(
                f"the parameter {key!r} of {module}:{name} needs a default, "
                "which is a number or a text"
            )
    return Algorithm(f"{module}:{name}", f"{module}:{name}", parameters=parameters)


def _import(module: str, name: str) -> Callable[..., Any]:
    try:
        function = getattr(import_module(module), name, None)
    except ImportError as error:
        raise WrongInput(f"{module!r} is neither an algorithm nor a module: {error}") from error
    if not callable(function):
        raise WrongInput(f"the module {module!r} has no function {name!r}")
    return cast(Callable[..., Any], function)


def _checked(function: Callable[..., Any], name: str) -> Callable[..., Consumers]:
    """Wrap a user's function so that a wrong answer is refused."""
    import numpy as np

    @wraps(function)
    def checked(
        speeds: Speeds, capacity: float, previous: Consumers, /, **parameters: Any
    ) -> Consumers:
        answer = np.asarray(function(speeds, capacity, previous, **parameters))
        if len(speeds) == 0:
            return np.zeros(0, np.int64)
        whole = answer.shape == speeds.shape and answer.dtype.kind in "iu"
        if not whole or answer.min() < 1:
            raise WrongInput(
                f"{name} has to answer one consumer, a whole number from 1, for each of the "
                f"{len(speeds)} partitions"
            )
        return answer.astype(np.int64)

    return checked


@dataclass(frozen=True, slots=True)
class Packing(Generic[Partition]):
    """An assignment with its cost.

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
    """Pack partitions into consumers, and return the assignment with its cost.

    `speeds` is in the order that the online algorithms take.
    """
    from lagless.packing import inputs, scores  # imports numpy, which `import lagless` should not

    chosen = packer(algorithm, **parameters)
    rates, limit, before = inputs.arrays(speeds, capacity, previous)
    after = chosen(rates, limit, before)
    partitions = list(speeds)
    return Packing(
        assignment=dict(zip(partitions, after.tolist(), strict=True)),
        consumers=len(set(after.tolist())),
        oversize=tuple(partitions[j] for j in (rates > limit).nonzero()[0]),
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
    """Pack partitions into consumers 1, 2, … of a capacity; `packing` returns the cost as well.

    `speeds` is in the order that the online algorithms take; a partition faster than the capacity
    gets a consumer of its own.
    """
    from lagless.packing import inputs  # imports numpy, which `import lagless` should not

    chosen = packer(algorithm, **parameters)
    after = chosen(*inputs.arrays(speeds, capacity, previous))
    return dict(zip(speeds, after.tolist(), strict=True))
