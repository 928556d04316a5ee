"""The command that lists rejected records, shows them, and reads them again."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from lagless.cli import options, role_runner
from lagless.errors import WrongInput

commands = typer.Typer()


@commands.command()
def rejects(
    topic: Annotated[
        str | None, typer.Argument(help="Only the rejects of this topic; all topics by default.")
    ] = None,
    file: options.Config = options.DEFAULT,
    show: Annotated[bool, typer.Option("--show", help="Show the records themselves.")] = False,
    reason: Annotated[
        str | None, typer.Option(help="With --show: only those whose reason contains this text.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="With --show: at most this many.")] = 20,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry",
            help="Read the rejects of TOPIC again with the current settings. Records that are "
            "accepted now become rows of the table, each once; the others stay.",
        ),
    ] = False,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """List why records were rejected, show them, or read them again after a fix."""
    role_runner.drop_logs()
    settings = options.settings(file, overrides)
    if retry and topic is None:
        raise WrongInput("--retry needs a topic: lagless rejects TOPIC --retry")
    if retry and (show or reason is not None):
        raise WrongInput("--retry reads all rejects of a topic: leave out --show and --reason")
    role_runner.needs_own_members(settings)
    from lagless.operations import rejects as operation

    if retry and topic is not None:
        told = asdict(operation.retry(settings, topic))
        options.show({"topic": topic, **told}, json, lambda: _show_retry(told))
    elif show:
        found = operation.records(settings, topic, reason, limit)
        tables = {table: list(map(_plain, rows)) for table, rows in found.items()}
        options.show({"tables": tables}, json, lambda: _show_records(tables))
    else:
        counts = operation.reasons(settings, topic)
        result = {table: dict(count.most_common()) for table, count in counts.items()}
        options.show({"tables": result}, json, lambda: _show_reasons(result))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a reject for JSON: bytes as text, with what is not UTF-8 escaped."""

    def text(value: bytes | None) -> str | None:
        return None if value is None else value.decode("utf-8", "backslashreplace")

    at: datetime | None = row["_timestamp"]
    return {
        "partition": row["_partition"],
        "offset": row["_offset"],
        "timestamp": at and at.isoformat(),
        "reason": row["_reason"],
        "key": text(row["_key"]),
        "value": text(row["_value"]),
        "topic_id": row.get("_topic_id"),
    }


def _show_reasons(tables: dict[str, dict[str, int]]) -> None:
    for table, counts in tables.items():
        for reason, count in counts.items():
            print(f"{table}\t{count}\t{reason}")
    if not tables:
        print("no records were rejected")


def _show_records(tables: dict[str, list[dict[str, Any]]]) -> None:
    for table, rows in tables.items():
        for row in rows:
            print(
                f"{table}:{row['partition']} offset {row['offset']}, {row['timestamp']}: "
                f"{row['reason']}"
            )
            if row["key"] is not None:
                print(f"  key   {row['key']!r}")
            print(f"  value {row['value']!r}")
    if not any(tables.values()):
        print("no such records were rejected")


def _show_retry(told: dict[str, Any]) -> None:
    print(f"{told['read']} rejects read again: {told['landed']} landed, {told['rows']} rows")
    if told["already"]:
        print(f"{told['already']} were in the table already and are no longer rejects")
    for reason, count in told["still"].items():
        print(f"{count} still rejected: {reason}")
