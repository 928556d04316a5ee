"""The commands that look at a set-up or a running group."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagless.cli import cluster_views, group_views, options, role_runner
from lagless.errors import GiveUp, WrongInput

if TYPE_CHECKING:
    from lagless.controller.state import State
    from lagless.messages import Decision
    from lagless.settings import Settings


commands = typer.Typer()


@commands.command()
def status(
    file: options.Config = options.DEFAULT,
    every: Annotated[
        bool, typer.Option("--all", help="Show every group of the cluster, one line each.")
    ] = False,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Show each consumer's partitions, load, capacity and lag, and the last decision."""
    role_runner.drop_logs()
    settings = options.settings(file, overrides)
    if every:
        cluster_views.show(settings, json)
        return
    if settings.of_others:
        seen = group_views.status(settings)
        options.show(seen, json, lambda: group_views.show_status(seen))
        return
    from lagless.operations import status as group

    state, last = group.known(settings)
    found = _status(settings, state, last, group.loads(settings, state))
    options.show(found, json, lambda: _show_status(found))


@commands.command()
def plan(
    file: options.Config = options.DEFAULT,
    speeds: Annotated[
        Path | None,
        typer.Option(help='JSON file of speeds, {"topic:0": bytes/s}, to use instead of Kafka.'),
    ] = None,
    previous: Annotated[
        Path | None,
        typer.Option(help='JSON file of the current assignment, {"topic:0": consumer}.'),
    ] = None,
    targets: Annotated[
        str | None,
        typer.Option(
            metavar="1h",
            help="Also show what other values of controller.delay would have cost over this time.",
        ),
    ] = None,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Show the assignment that the controller would make now, and why; change nothing."""
    role_runner.drop_logs()
    settings = options.settings(file, overrides)
    if settings.of_others and speeds is None:
        wanted = group_views.plan(settings)
        options.show(wanted, json, lambda: group_views.show_plan(wanted))
        return
    if settings.of_others and settings.members.rate is None:
        raise WrongInput("--speeds: what a member can read is not known; set members.rate too")
    from lagless.controller import reassign, sentinel
    from lagless.operations import status as group
    from lagless.packing import scores
    from lagless.wiring import controller as wiring

    if speeds is not None:
        state = group.from_file(settings, speeds, previous)
    else:
        state, _ = group.known(settings)
    policy = wiring.policy(settings)
    plan = reassign.plan(state, policy)
    moved = plan.migrations
    found: dict[str, Any] = {
        "assignment": {str(p): n for p, n in sorted(plan.assignment.items())},
        "migrations": [
            {"partition": str(p), "from": a, "to": b, "weight": plan.weights[p]}
            for p, (a, b) in sorted(moved.items())
        ],
        "arrivals": [str(p) for p in sorted(plan.assignment) if p not in plan.previous],
        "rscore": plan.rscore,
        "weight_moved": plan.weight_moved,
        "consumers_now": len(set(plan.previous.values())),
        "consumers_then": len(set(plan.assignment.values())),
        "load": {str(n): x for n, x in scores.loads(plan.weights, plan.assignment).items()},
        "capacity": policy.capacity,
        "algorithm": wiring.algorithm(settings),
        "reasons": [exit.reason for exit in sentinel.exits(state, policy)],
        "warnings": list(plan.warnings),
    }
    if targets is not None:
        found["targets"] = _targets(settings, targets)
    options.show(found, json, lambda: _show_plan(found))


@commands.command()
def events(
    file: options.Config = options.DEFAULT,
    replay: Annotated[
        bool, typer.Option("--replay", help="Replay the recorded events and compare.")
    ] = False,
    last: Annotated[int, typer.Option(min=1, help="Show the last N decisions.")] = 50,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Show the controller's decisions and their reasons, or replay them and compare."""
    role_runner.drop_logs()
    settings = options.settings(file, overrides)
    from lagless.messages import Decision
    from lagless.wiring import controller as wiring

    if replay and settings.of_others:
        raise WrongInput(
            "--replay: what the controller sees of members that lagless did not write is not "
            "recorded; `lagless events` shows its decisions"
        )
    if replay:
        compared = wiring.replay(settings)
        wrong = [comparison for comparison in compared if not comparison.agrees]
        found: dict[str, Any] = {"decisions": len(compared), "different": len(wrong)}
        options.show(
            found, json, lambda: print(f"{len(compared)} decisions replayed, {len(wrong)} differ")
        )
        if wrong:
            raise GiveUp(f"a decision differs: recorded {wrong[0].logged}, now {wrong[0].remade}")
        return
    log = [message for message in wiring.events(settings) if isinstance(message, Decision)][-last:]
    found = {
        "decisions": [
            decision.model_dump(mode="json", exclude={"version", "group", "message"})
            for decision in log
        ]
    }
    options.show(found, json, lambda: [print(_line(decision)) for decision in log])


@commands.command()
def doctor(
    config: options.Config = options.DEFAULT,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Check Java, jars, Spark, lake, broker and ACLs, and explain how to fix each problem."""
    from lagless.operations import doctor as checks

    findings = []
    for finding in checks.examine(options.settings(config, overrides)):
        findings.append(finding)
        if not json:
            mark = "[green]✓[/]" if finding.fine else "[red]✗[/]"
            options.notes.print(f"{mark} {finding.check}: ", finding.says, sep="", markup=True)
    fine = all(finding.fine for finding in findings)
    options.show({"fine": fine, "findings": list(map(asdict, findings))}, json, lambda: None)
    if not fine:
        raise typer.Exit(1)


def _status(
    settings: "Settings", state: "State", last: "Decision | None", loads: dict[int, float]
) -> dict[str, Any]:
    held = {p for member in state.members.values() for p in member.held}
    from lagless.wiring import controller as wiring

    spares = state.spares(wiring.policy(settings))
    blank = {"state": "", "waiting_for": "", "lag_bytes": 0, "lag_seconds": 0, "trouble": ""}
    return {
        "group": settings.group,
        "generation": state.generation - 1,
        "mode": state.mode.model_dump(include={"who", "at"}) | {"state": state.mode.name},
        "consumers": {
            str(n): {
                "incarnation": member.incarnation,
                "partitions": sorted(str(p) for p in member.held),
                "load": loads.get(n, 0.0),
                "capacity": settings.capacity,
                "spare": n in spares and not member.held,
            }
            | (member.last.model_dump(include=set(blank)) if member.last else blank)
            for n, member in sorted(state.members.items())
        },
        "unread": [str(p) for p in sorted(state.partitions or ()) if p not in held],
        "measured_at": state.measured_at if state.measured_at > 0 else None,
        "last_decision": last and last.model_dump(include={"at", "decision", "reason"}),
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
        waits = f", waiting for {one['waiting_for']}" if one["waiting_for"] else ""
        table.add_row(
            number,
            str(len(one["partitions"])),
            f"{units.text(one['load'])}/s ({share:.0%})",
            f"{units.text(one['capacity'])}/s",
            f"{one['lag_seconds']:.1f} s",
            f"{one['state']}{', spare' if one['spare'] else ''}{waits}",
        )
    console = Console()
    console.print(table)
    if found["mode"]["state"] != "running":
        since = datetime.fromtimestamp(found["mode"]["at"]).isoformat(" ", "seconds")
        console.print(
            f"{found['mode']['state']}: asked for by {found['mode']['who']}, {since}", markup=False
        )
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
        f"{found['consumers_then']} planned; {len(found['migrations'])} partitions move "
        f"(Rscore {found['rscore']:.2f}), {len(found['arrivals'])} are new"
    )
    for reason in found["reasons"]:
        print(f"because: {reason}")
    for move in found["migrations"]:
        print(f"  {move['partition']}: {move['from']} → {move['to']} ({move['weight']:.0f} B/s)")
    for warning in found["warnings"]:
        print(f"note: {warning}")
    if "targets" in found:
        show_targets(found["targets"])


def _targets(settings: "Settings", since: str) -> list[dict[str, Any]]:
    """Return what each target for the delay would have cost in recent traffic."""
    from lagless import extras
    from lagless.cli import replay_command

    with extras.needed("evaluation"):
        from lagless.lab import rehearsals
    material = replay_command.recorded(settings, options.ago(since, "--targets"))
    with options.advancing("replaying") as told:
        return rehearsals.targets(settings, material, told)


def show_targets(found: list[dict[str, Any]]) -> None:
    """Print delays against consumers: a line for each target, with a bar for its consumers."""
    most = max(row["consumers"] for row in found)
    print("controller.delay  99 % by  late bytes  consumers  moves/h")
    for row in found:
        name = f"{row['delay']:g} s" + (" (set)" if row["chosen"] else "")
        bar = "▇" * round(20 * row["consumers"] / most)
        print(
            f"{name:<16} {row['delay_p99']:6.1f} s {row['late_share']:11.2%} "
            f"{row['consumers']:10.2f} {row['moves_per_hour']:8.1f}  {bar}"
        )


def _line(decision: "Decision") -> str:
    at = datetime.fromtimestamp(decision.at).isoformat(" ", "milliseconds")
    return (
        f"{at} g{decision.generation} {decision.phase:16} {decision.decision:10} {decision.reason}"
    )
