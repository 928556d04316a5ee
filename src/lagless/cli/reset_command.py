"""The command that moves a group to other offsets of a topic."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagless.cli import options, role_runner
from lagless.errors import WrongInput

if TYPE_CHECKING:
    from lagless.operations.reset import Rows

commands = typer.Typer()


@commands.command()
def reset(
    topic: Annotated[str, typer.Option(help="Topic to reset.")],
    to: Annotated[
        str,
        typer.Option(
            help="earliest, latest, an offset, or a time such as 2026-05-31T06:00:00Z: the first "
            "record of this time or later."
        ),
    ],
    file: options.Config = options.DEFAULT,
    partitions: Annotated[
        str | None, typer.Option(metavar="0,1,4-7", help="Partitions to reset; all by default.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="keep|remove",
            help="What to do with rows whose records will be read again: keep leaves them, so "
            "each record is then there twice; remove deletes them in the same commit.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")
    ] = False,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Move the group to other offsets of a topic, even while consumers are running."""
    role_runner.drop_logs()
    settings = options.settings(file, overrides)
    role_runner.needs_own_members(settings)
    from lagless.operations import reset as operation

    place = operation.place(to)
    chosen = numbers(partitions) if partitions is not None else []
    choice = _rows(rows)
    with operation.of(settings, topic) as found:
        moves = found.plan(place, chosen)
        there = sum(move.rows for move in moves.values())
        if choice is None and there and not dry_run:
            raise WrongInput(
                f"the table has {there} rows of records that would be read again: choose --rows "
                "keep (they will be there twice) or --rows remove (they are deleted in the same "
                "commit)"
            )
        removed = 0 if dry_run else found.run(moves, choice or "keep")
    result: dict[str, Any] = {
        "topic": topic,
        "dry_run": dry_run,
        "rows": choice,
        "partitions": {str(p.partition): asdict(move) for p, move in sorted(moves.items())},
        "again": sum(move.again for move in moves.values()),
        "skipped": sum(move.skipped for move in moves.values()),
        "rows_there": there,
        "rows_removed": removed,
    }
    options.show(result, json, lambda: _show(result))


def numbers(text: str) -> list[int]:
    """Return the partitions of 0,1,4-7."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise WrongInput(f"--partitions {text}: expected numbers such as 0,1,4-7")
        found += range(int(first), int(last or first) + 1)
    return found


def _rows(text: str | None) -> "Rows | None":
    if text is None or text == "keep":
        return None if text is None else "keep"
    if text == "remove":
        return "remove"
    raise WrongInput(f"--rows {text}: expected keep or remove")


def _show(result: dict[str, Any]) -> None:
    would = "would be" if result["dry_run"] else "will be"
    for number, move in result["partitions"].items():
        before = "never read" if move["before"] is None else f"offset {move['before']}"
        change = f"{move['again']} records read again" if move["again"] else ""
        change = change or (f"{move['skipped']} records skipped" if move["skipped"] else "as it is")
        print(f"{result['topic']}:{number}: {before} → {move['to']}, {change}")
    print(f"in all: {result['again']} records {would} read again, {result['skipped']} skipped")
    if result["dry_run"]:
        if result["rows_there"]:
            print(f"{result['rows_there']} rows are there already: choose --rows keep or remove")
        print("nothing was changed")
    elif result["rows"] == "remove":
        print(f"{result['rows_removed']} rows removed")
    elif result["rows_there"]:
        print(f"{result['rows_there']} rows kept: their records will be there twice")
