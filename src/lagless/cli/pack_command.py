"""The command `pack`."""

import json as decoder
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lagless.cli import options
from lagless.errors import WrongInput

commands = typer.Typer()


@commands.command()
def pack(
    speeds: Annotated[Path, typer.Option(help="JSON file of speeds: {partition: bytes/s}.")],
    capacity: Annotated[float, typer.Option(help="Capacity of a consumer in bytes per second.")],
    previous: Annotated[
        Path | None,
        typer.Option(help="JSON file of the current assignment: {partition: consumer}."),
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="Algorithm and parameters: mwf, kd_15, sticky:slack=0.1, ….")
    ] = "sticky",
    json: options.Json = False,
) -> None:
    """Pack partitions into consumers, and show how many of them move."""
    from lagless import packing

    result = packing.packing(
        read(speeds), capacity, None if previous is None else read(previous), algorithm
    )
    options.show(asdict(result), json, lambda: describe(result))


def read(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file."""
    try:
        found = decoder.loads(file.read_text("utf-8"), object_pairs_hook=_once)
    except WrongInput as error:
        raise WrongInput(f"{file} {error}") from error
    except (ValueError, RecursionError) as error:
        raise WrongInput(f"{file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise WrongInput(f"{file} must hold a JSON object that maps partitions to numbers")
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
