"""The commands of the control plane: act, show, foretell, look back."""

import logging
import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagless.cli import config, output
from lagless.errors import GiveUp

if TYPE_CHECKING:
    from lagless.controller.facts import State
    from lagless.messages import Decision
    from lagless.settings import Settings


def register(app: typer.Typer) -> None:
    """Put the commands of this theme on the app."""
    for command in (controller, status, plan, events):
        app.command()(command)


def controller(
    file: config.Config = config.DEFAULT, overrides: config.Set = None, json: output.Json = False
) -> None:
    """Keep the group as small as it can be, until SIGTERM or Ctrl-C; consumers stay."""
    settings = config.settings(file, overrides)
    ending = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    logging.basicConfig(
        level=os.environ.get("LAGLESS_LOG", "INFO"),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    from lagless.wiring import controller as wiring

    wiring.run(
        settings,
        file,
        overrides or (),
        ending,
        lambda words: output.notes.print(words, markup=False),
    )
    output.show({"ended": True}, json, lambda: print("ended; consumers go on"))


def status(
    file: config.Config = config.DEFAULT, overrides: config.Set = None, json: output.Json = False
) -> None:
    """Show who reads what, load against capacity, lag, and the last decision."""
    settings = _quietly(file, overrides)
    from lagless.wiring import questions

    state, last = questions.known(settings)
    found = _status(settings, state, last, questions.loads(settings, state))
    output.show(found, json, lambda: _show_status(found))


def plan(
    file: config.Config = config.DEFAULT,
    speeds: Annotated[
        Path | None,
        typer.Option(help='Speeds from a file, {"topic:0": bytes/s}, instead of the cluster.'),
    ] = None,
    previous: Annotated[
        Path | None, typer.Option(help='Who reads what, {"topic:0": consumer}; with --speeds.')
    ] = None,
    overrides: config.Set = None,
    json: output.Json = False,
) -> None:
    """Show the assignment that the controller would make now, and why; change nothing."""
    settings = _quietly(file, overrides)
    from lagless.controller import sentinel
    from lagless.wiring import controller as wiring
    from lagless.wiring import questions

    if speeds is not None:
        state = questions.from_file(settings, speeds, previous)
    else:
        state, _ = questions.known(settings)
    made = questions.planned(settings, state)
    policy = wiring.policy(settings)
    moved = made.migrations
    found: dict[str, Any] = {
        "assignment": {str(p): n for p, n in sorted(made.assignment.items())},
        "migrations": [
            {"partition": str(p), "from": a, "to": b, "weight": made.weights[p]}
            for p, (a, b) in sorted(moved.items())
        ],
        "arrivals": [str(p) for p in sorted(made.assignment) if p not in made.previous],
        "rscore": sum(made.weights[p] for p in moved) / policy.capacity,
        "consumers_now": len(set(made.previous.values())),
        "consumers_then": len(set(made.assignment.values())),
        "load": {str(n): x for n, x in sentinel.loads(made.weights, made.assignment).items()},
        "capacity": policy.capacity,
        "algorithm": wiring.algorithm(settings),
        "reasons": [exit.reason for exit in sentinel.exits(state, policy)],
        "warnings": list(made.warnings),
    }
    output.show(found, json, lambda: _show_plan(found))


def events(
    file: config.Config = config.DEFAULT,
    replay: Annotated[
        bool, typer.Option("--replay", help="Run what was told through the machine again.")
    ] = False,
    last: Annotated[int, typer.Option(min=1, help="Show so many decisions.")] = 50,
    overrides: config.Set = None,
    json: output.Json = False,
) -> None:
    """Show the controller's decisions with their reasons, or make them again and compare."""
    settings = _quietly(file, overrides)
    from lagless.messages import Decision
    from lagless.wiring import controller as wiring

    if replay:
        compared = wiring.replay(settings)
        wrong = [one for one in compared if not one.agrees]
        found: dict[str, Any] = {"decisions": len(compared), "different": len(wrong)}
        output.show(
            found,
            json,
            lambda: print(f"{len(compared)} decisions made again, {len(wrong)} differ"),
        )
        if wrong:
            raise GiveUp(f"a decision differs: {wrong[0].logged} against {wrong[0].made}")
        return
    log = [one for one in wiring.events(settings) if isinstance(one, Decision)][-last:]
    found = {"decisions": [one.model_dump(exclude={"version", "group"}) for one in log]}
    output.show(found, json, lambda: [print(_line(one)) for one in log])


def _quietly(file: Path, overrides: list[str] | None) -> "Settings":
    """Read the settings, and leave it to the one sentence at the end to say what is wrong."""
    logging.getLogger("lagless").addHandler(logging.NullHandler())
    return config.settings(file, overrides)


def _status(
    settings: "Settings", state: "State", last: "Decision | None", loads: dict[int, float]
) -> dict[str, Any]:
    holders = {str(p): n for n, m in sorted(state.members.items()) for p in sorted(m.held)}
    return {
        "group": settings.group,
        "generation": state.generation - 1,
        "consumers": {
            str(n): {
                "incarnation": member.incarnation,
                "state": member.last.state if member.last else "",
                "waiting_for": member.last.waiting_for if member.last else "",
                "partitions": sorted(str(p) for p in member.held),
                "load": loads.get(n, 0.0),
                "capacity": settings.capacity,
                "lag_bytes": member.last.lag_bytes if member.last else 0,
                "lag_seconds": member.last.lag_seconds if member.last else 0,
                "trouble": member.last.trouble if member.last else "",
            }
            for n, member in sorted(state.members.items())
        },
        "unread": [str(p) for p in sorted(state.partitions or ()) if str(p) not in holders],
        "measured_at": state.measured_at if state.measured_at > 0 else None,
        "last_decision": None
        if last is None
        else {"at": last.at, "decision": last.decision, "reason": last.reason},
    }


def _show_status(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from lagless.settings import units

    table = Table(title=f"group {found['group']}, generation {found['generation']}")
    for head in ("consumer", "partitions", "load", "capacity", "lag", "state"):
        table.add_column(head)
    for number, one in found["consumers"].items():
        share = one["load"] / one["capacity"]
        waits = f", waits for {one['waiting_for']}" if one["waiting_for"] else ""
        table.add_row(
            number,
            str(len(one["partitions"])),
            f"{units.text(one['load'])}/s ({share:.0%})",
            f"{units.text(one['capacity'])}/s",
            f"{one['lag_seconds']:.1f} s",
            f"{one['state']}{waits}",
        )
    console = Console()
    console.print(table)
    for number, one in found["consumers"].items():
        if one["trouble"]:
            console.print(f"consumer {number}: {one['trouble']}", markup=False)
    if found["unread"]:
        console.print(f"not read: {', '.join(found['unread'][:10])} ({len(found['unread'])})")
    if found["last_decision"]:
        console.print(f"last decision: {found['last_decision']['reason']}")


def _show_plan(found: dict[str, Any]) -> None:
    print(
        f"{found['algorithm']}: {found['consumers_now']} consumers now, "
        f"{found['consumers_then']} then; {len(found['migrations'])} partitions move "
        f"(Rscore {found['rscore']:.2f}), {len(found['arrivals'])} arrive"
    )
    for reason in found["reasons"]:
        print(f"because: {reason}")
    for move in found["migrations"]:
        print(f"  {move['partition']}: {move['from']} → {move['to']} ({move['weight']:.0f} B/s)")
    for warning in found["warnings"]:
        print(f"note: {warning}")


def _line(one: "Decision") -> str:
    at = datetime.fromtimestamp(one.at).isoformat(" ", "milliseconds")
    return f"{at} g{one.generation} {one.phase:16} {one.decision:10} {one.reason}"
