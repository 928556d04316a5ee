"""The command `lagless pack`: one packing of speeds in a file."""

import json as decoder
from pathlib import Path
from typing import Annotated, Any

import typer

from lagless.cli import output
from lagless.errors import WrongInput


def register(app: typer.Typer) -> None:
    """Add the commands of this theme."""
    app.command()(pack)


def pack(
    speeds: Annotated[
        Path, typer.Option(help="JSON: {partition: bytes per second}, in the list's order.")
    ],
    capacity: Annotated[float, typer.Option(help="Bytes per second that a consumer may get.")],
    previous: Annotated[
        Path | None, typer.Option(help="JSON: {partition: consumer}, the assignment before.")
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="By name, with its parameters: sticky, mwf, kd_15, sticky:slack=0.1")
    ] = "sticky",
    json: output.Json = False,
) -> None:
    """Pack partitions into consumers, and say what it costs to get there."""
    from lagless import packing

    result = packing.packing(
        read(speeds), capacity, None if previous is None else read(previous), algorithm
    )
    output.show(
        {
            "assignment": result.assignment,
            "consumers": result.consumers,
            "rscore": result.rscore,
            "migrations": result.migrations,
            "oversize": list(result.oversize),
        },
        json,
        lambda: describe(result),
    )


def read(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file."""
    try:
        found = decoder.loads(file.read_text("utf-8"), object_pairs_hook=_once)
    except (decoder.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WrongInput(f"{file} is not JSON: {error}") from error
    except WrongInput as error:
        raise WrongInput(f"{file} {error}") from error
    if not isinstance(found, dict):
        raise WrongInput(f"{file} has to hold a JSON object, partition to number")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise WrongInput(f"names {key!r} twice")
        found[key] = value
    return found


def describe(result: Any) -> None:
    """Print a packing for people."""
    readers: dict[int, list[str]] = {}
    for partition, consumer in result.assignment.items():
        readers.setdefault(consumer, []).append(partition)
    for consumer in sorted(readers):
        print(f"consumer {consumer}: {', '.join(readers[consumer])}")
    print(f"{result.consumers} consumers, {result.migrations} migrations, Rscore {result.rscore:g}")
    if result.oversize:
        print(f"faster than the capacity: {', '.join(result.oversize)}")
