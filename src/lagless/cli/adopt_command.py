"""The command `adopt`: look at an existing group, and say what lagless would make of it."""

import json as encoder
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagless import extras
from lagless.cli import options, role_runner
from lagless.errors import WrongInput, WrongSettings

if TYPE_CHECKING:
    from rich.console import Console

    from lagless.settings import Settings

commands = typer.Typer()

SOURCES = {
    "option": "as given",
    "settings": "members.rate",
    "measured": "measured on members with a backlog",
    "lower bound": "the most that one read; none had a backlog",
    "assumed": "the highest load now; nothing was committed",
}
"""How the rate is known, in the words of the result."""
WAYS = (
    "consumers",
    "worst load",
    "late bytes (model)",
    "p50 of late bytes",
    "p99 of late bytes",
    "moves afterwards",
)
"""What the group now and the group with lagless are compared by."""


@commands.command()
def adopt(
    group: Annotated[str, typer.Argument(help="An existing consumer group.")],
    file: options.Config = options.DEFAULT,
    bootstrap: Annotated[
        str | None, typer.Option(help="Brokers, host:port, …; with it, no settings file is needed.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.5, help="Minutes to measure; Ctrl-C ends it early.")
    ] = 5.0,
    rate: Annotated[
        str | None,
        typer.Option(help='What one consumer can read, such as "8 MB/s"; measured by default.'),
    ] = None,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Measure a group that lagless does not run, and show what lagless would do; change nothing."""
    role_runner.drop_logs()
    given = _rate(rate)
    words = list(overrides or ())
    if bootstrap is not None:
        words.append(f"kafka.bootstrap={_toml(bootstrap)}")
    with extras.needed("evaluation"):
        from lagless.lab import adoption
    from lagless.operations import group_survey
    from lagless.wiring.clock import RealClock

    subject = group_survey.subject(_settings(group, ("none",), file, bootstrap, words))
    settings = _settings(group, subject.topics, file, bootstrap, words)
    ending = role_runner.ending()
    surveyor = group_survey.Surveyor(settings, 60 * minutes, RealClock(ending))
    doing = f"measuring {len(subject.topics)} topics of {group}"
    with options.notes.status(doing) as line:

        def tell(seconds: float) -> None:
            line.update(f"{doing}: {seconds:.0f} of {60 * minutes:.0f} s")

        survey = surveyor.run(ending, tell)
    found = adoption.judge(settings, subject, survey, given)
    options.show(found, json, lambda: show(found))


def _settings(
    group: str, topics: Sequence[str], file: Path, bootstrap: str | None, words: Iterable[str]
) -> "Settings":
    """Return the settings for looking at a group, from the file if there is one."""
    from lagless.settings import load, parse

    # A wrong name is the argument's fault, not that of the words made of it below.
    parse({"group": group, "topics": list(topics), "lake": {"path": "."}}, "adopt")
    if bootstrap is not None and not file.exists():
        path = None
    elif not file.exists():
        raise WrongSettings(f"{file} does not exist: name the brokers with --bootstrap HOST:PORT")
    else:
        path = file
    own = [f"group={_toml(group)}", f"topics={encoder.dumps(list(topics))}"]
    if path is None:
        own.append("lake.path='.'")
    return load(path, overrides=[*own, *words])


def _rate(text: str | None) -> float | None:
    from pydantic import TypeAdapter, ValidationError

    from lagless.settings import units

    if text is None:
        return None
    try:
        return float(TypeAdapter(units.Rate).validate_python(text))
    except ValidationError as error:
        raise WrongInput(f"--rate {text}: expected a rate like 8 MB/s") from error


def _toml(text: str) -> str:
    return encoder.dumps(text, ensure_ascii=False)


def show(found: dict[str, Any]) -> None:
    """Print what was found for people."""
    from rich.console import Console
    from rich.markup import escape

    from lagless.settings import units

    console = Console(highlight=False, soft_wrap=True)
    protocol = f"{found['protocol']} protocol"
    assignor = f", assignor {found['assignor']}" if found["assignor"] else ""
    rate = found["rate"]
    console.print(
        f"group {escape(found['group'])}: {len(found['members'])} members ({found['state']}, "
        f"{protocol}{escape(assignor)}), {found['partitions']} partitions of "
        f"{len(found['topics'])} topics, {units.text(found['bytes_per_second'])}/s over "
        f"{found['seconds']:.0f} s, lag {units.text(found['lag_bytes'])}"
    )
    console.print(
        f"a consumer can read {units.text(rate['value'])}/s ({SOURCES[rate['source']]}); lagless "
        f"would give it up to {units.text(found['capacity'])}/s"
    )
    _show_members(console, found)
    _show_ways(console, found)
    for warning in found["warnings"]:
        console.print(f"note: {warning}", markup=False)
    _show_lines(console, found["lines"])


def _show_members(console: "Console", found: dict[str, Any]) -> None:
    from rich.table import Table

    from lagless.settings import units

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("member", overflow="fold")
    table.add_column("host", overflow="fold")
    for head in ("partitions", "reads", "lag"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, member in found["members"].items():
        reads = member["read_rate"]
        table.add_row(
            name,
            member["host"],
            str(len(member["partitions"])),
            "" if reads is None else f"{units.text(reads)}/s",
            units.text(member["lag_bytes"]),
        )
    if found["members"]:
        console.print(table)


def _show_ways(console: "Console", found: dict[str, Any]) -> None:
    from rich.table import Table

    from lagless.settings import units

    now, then = found["now"], found["then"]
    if then is None:
        console.print("measured once only: more minutes are needed to compare")
        return

    def column(way: dict[str, Any]) -> tuple[str, ...]:
        share = way["late_bytes"] / way["bytes"] if way["bytes"] else 0.0
        return (
            str(way["consumers"]),
            f"{units.text(way['worst_load'])}/s ({way['worst_load'] / found['rate']['value']:.0%})",
            f"{units.text(way['late_bytes'])} ({share:.0%})",
            *(f"{way[key]:.1f} s" for key in ("p50", "p99")),
            str(way["moves"]),
        )

    table = Table("", "now", "with lagless", box=None, padding=(0, 2, 0, 0))
    before = ("",) * len(WAYS) if now is None else column(now)
    for cells in zip(WAYS, before, column(then), strict=True):
        table.add_row(*cells)
    console.print(table)
    more = then["consumers_catching_up"] > then["consumers"]
    until = f", and use {then['consumers_catching_up']} consumers until the lag is read"
    console.print(
        f"lagless would first move {then['first_moves']} partitions (Rscore "
        f"{then['first_rscore']:.2f}){until if more else ''}"
    )


def _show_lines(console: "Console", lines: dict[str, Sequence[str]]) -> None:
    titles = {
        "broker": "in server.properties of every broker, with lagless-assignor.jar in its libs/",
        "client": "in the configuration of every member (NAME: its own, such as the host name)",
        "client_java": "instead, where brokers take no plugins: Java members, with the jar",
        "client_python": "instead, where brokers take no plugins: Python members",
        "settings": "lagless.toml",
    }
    console.print("\nThe lines for members that follow a plan; this version does not make one yet.")
    for key, title in titles.items():
        console.print(f"\n{title}:", markup=False)
        for line in lines[key]:
            console.print(f"    {line}".rstrip(), markup=False)
