"""Sizes and rates as numbers or as text: 5000000, "5 MB", "2 MB/s", "64 KiB"."""

import math
import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

LARGEST = 1e18
"""Bytes; more is a mistake."""
_DECIMAL = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_FACTORS = _DECIMAL | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_HEAP = re.compile(r"([1-9][0-9]*)([mMgG])")
LEAST_HEAP = 512
"""MiB. Spark refuses a JVM with less than 450 MiB of usable heap."""
_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def _number(value: object, example: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"should be a number of bytes or text such as {example!r}")
    if isinstance(value, int | float):
        return value if abs(value) < LARGEST else math.inf
    match = _TEXT.fullmatch(value)
    if match is None or match[2] not in _FACTORS:
        raise ValueError(
            f"is {value!r} and should be a number of bytes or text such as {example!r}"
        )
    return float(match[1]) * _FACTORS[match[2]]


def _size(value: object) -> float:
    size = _number(value, "5 MB")
    return round(size) if math.isfinite(size) else size


def _rate(value: object) -> float:
    if isinstance(value, str):
        value = value.strip().removesuffix("/s")
    return float(_number(value, "2 MB/s"))


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError(f"is {value} and should be more than 0")
    return value


def _not_negative(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError(f"is {value} and should be 0 or more")
    return value


def _heap(value: object) -> str:
    match = _HEAP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"is {value!r} and should be a size as Java takes it: '800m' or '2g'")
    if int(match[1]) * (1024 if match[2] in "gG" else 1) < LEAST_HEAP:
        raise ValueError(
            f"is {value!r} and should be at least '{LEAST_HEAP}m': Spark does not start with less"
        )
    return match[0].lower()


_TIMES = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)\s*")


def _time(value: object) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float):
        return float(value)
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _TIMES:
        raise ValueError(f"is {value!r} and should be a time such as '10 s' or '2 min'")
    return float(match[1]) * _TIMES[match[2]]


Size = Annotated[int, BeforeValidator(_size), AfterValidator(_positive)]
"""Bytes."""
Rate = Annotated[float, BeforeValidator(_rate), AfterValidator(_positive)]
"""Bytes per second."""
Seconds = Annotated[float, AfterValidator(_positive)]
"""More than 0 seconds."""
Heap = Annotated[str, BeforeValidator(_heap)]
"""A size of Java's heap."""
Pause = Annotated[float, AfterValidator(_not_negative)]
"""0 seconds or more; 0 turns it off."""
Time = Annotated[float, BeforeValidator(_time), AfterValidator(_positive)]
"""More than 0 seconds, as a number or as text with a unit."""


def text(size: float) -> str:
    """Write a size for people: 5 MB, 1.25 GB."""
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(size) >= _FACTORS[unit]:
            return f"{size / _FACTORS[unit]:.4g} {unit}"
    return f"{size:.4g} B"
