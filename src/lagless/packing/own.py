"""Algorithms of the user's own, named as module:function: found, asked for parameters, checked."""

import inspect
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagless.errors import WrongInput

Function = Callable[..., Any]


def find(module: str, function: str) -> tuple[Function, dict[str, Any]]:
    """Return the function, whose answers are checked, and its parameters with their defaults."""
    try:
        found = getattr(import_module(module), function, None)
    except ImportError as error:
        raise WrongInput(
            f"there is no algorithm {module!r} and no module of that name either: {error}"
        ) from error
    if not callable(found):
        raise WrongInput(f"the module {module!r} has no function {function!r}")
    parameters = {
        name: one.default
        for name, one in inspect.signature(found).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    }
    for name, default in parameters.items():
        if not isinstance(default, int | float | str):
            raise WrongInput(
                f"the parameter {name!r} of {module}:{function} needs a default, "
                "which is a number or a text"
            )
    return _checked(found, f"{module}:{function}"), parameters


def _checked(function: Function, name: str) -> Function:
    """Let nothing but consumers from 1, one for each partition, out of a user's function."""

    @wraps(function)
    def pack(
        speeds: NDArray[np.float64],
        capacity: float,
        previous: NDArray[np.int64],
        /,
        **parameters: Any,
    ) -> NDArray[np.int64]:
        answer = np.asarray(function(speeds, capacity, previous, **parameters))
        whole = answer.shape == speeds.shape and answer.dtype.kind in "iu"
        if len(speeds) == 0:
            return np.zeros(0, np.int64)
        if not whole or answer.min() < 1:
            raise WrongInput(
                f"{name} has to answer one consumer, a whole number from 1, for each of the "
                f"{len(speeds)} partitions"
            )
        return answer.astype(np.int64)

    return pack
