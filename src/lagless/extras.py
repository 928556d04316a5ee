"""Tell a user which extra to install when a part of lagless is used without its libraries."""

from collections.abc import Iterator
from contextlib import contextmanager

from lagless.errors import MissingPart

EXTRAS = ("kafka", "spark", "connect", "kubernetes", "dashboard", "exact", "evaluation")


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Turn a failing import inside the block into the `pip install` that mends it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] == "lagless":
            raise
        raise MissingPart(
            f"this needs the Python package {error.name}: pip install 'lagless[{extra}]'"
        ) from error
