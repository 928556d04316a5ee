"""How every command speaks: one JSON object or text for people, and one sentence for an error."""

import json as encoder
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")
]

notes = Console(stderr=True, highlight=False)
"""Progress and remarks go here, so that stdout stays with the result."""


def show(result: Mapping[str, Any], as_json: bool, text: Callable[[], object]) -> None:
    """Print the result: as one JSON object, or through `text`, which prints it for people."""
    if as_json:
        print(encoder.dumps(result, allow_nan=False), flush=True)
    else:
        text()


def complain(sentence: str) -> None:
    """Print an error as one sentence on stderr."""
    print(f"lagless: {' '.join(sentence.split())}", file=sys.stderr, flush=True)
