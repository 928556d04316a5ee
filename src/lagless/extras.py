"""Name the extra to install when a library that a part of lagless needs is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from lagless.errors import MissingPart


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Turn a failing import inside the block into the `pip install` command that fixes it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] == "lagless":
            raise
        raise MissingPart(
            f"this needs the Python package {error.name}: pip install 'lagless[{extra}]'"
        ) from error
