"""Sizes and rates as numbers or as text: 5000000, "5 MB", "2 MB/s", "64 KiB"."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

_FACTORS = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def _number(value: object, example: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"should be a number of bytes or a text like {example!r}")
    if isinstance(value, int | float):
        return value
    match = _TEXT.fullmatch(value)
    if match is None or match[2] not in _FACTORS:
        raise ValueError(f"is {value!r} and should be a number of bytes or a text like {example!r}")
    return float(match[1]) * _FACTORS[match[2]]


def _size(value: object) -> int:
    return round(_number(value, "5 MB"))


def _rate(value: object) -> float:
    if isinstance(value, str):
        text = value.strip()
        value = text.removesuffix("/s") if text.endswith("/s") else text
    return float(_number(value, "2 MB/s"))


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError(f"is {value} and should be more than 0")
    return value


def _not_negative(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError(f"is {value} and should be 0 or more")
    return value


Size = Annotated[int, BeforeValidator(_size), AfterValidator(_positive)]
"""Bytes."""
Rate = Annotated[float, BeforeValidator(_rate), AfterValidator(_positive)]
"""Bytes per second."""
Seconds = Annotated[float, AfterValidator(_positive)]
"""More than 0 seconds."""
Pause = Annotated[float, AfterValidator(_not_negative)]
"""0 seconds or more; 0 turns it off."""


def text(size: float) -> str:
    """Write a size for people: 5 MB, 1.25 GB."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if abs(size) >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size:.4g} B"
