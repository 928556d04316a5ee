"""Status and plan of a group whose members lagless did not write; what is not known is left out."""

from typing import TYPE_CHECKING, Any

from lagless.settings import Settings

if TYPE_CHECKING:
    pass


def status(settings: Settings) -> dict[str, Any]:
    """Return who reads what, and how far the members are."""
    from lagless.controller import weights
    from lagless.controller.group import following, placement
    from lagless.operations import group_status
    from lagless.packing import scores

    known = group_status.known(settings)
    state, policy = known.state, known.policy
    view = placement.view(state, policy)
    loads = scores.loads(weights.weights(view, policy.packing), view.holders())
    limit = placement.capacity(state, policy)
    reported = {member.name: member for member in known.seen.members} if known.seen else {}
    consumers = {}
    for member in following.seen(state, policy).members:
        told = reported.get(member.name)
        consumers[str(member.consumer)] = _known(
            {
                "name": member.name,
                "client": member.client,
                "host": member.host,
                "partitions": [f"{t}:{k}" for t, ks in member.held.items() for k in ks],
                "load": loads.get(member.consumer, 0.0),
                "capacity": limit,
                "lag_records": member.lag_records,
                "lag_bytes": member.lag_bytes,
                "bytes_per_second": told and told.bytes_per_second,
                "max_rate": told and told.max_rate,
            }
        )
    held = state.holders()
    return _known(
        {
            "group": settings.group,
            "generation": state.generation - 1,
            "protocol": state.protocol,
            "assignor": state.assignor or None,
            "consumers": consumers,
            "follows": following.is_followed(state) if state.target else None,
            "rate": state.rate,
            "wanted": known.seen.wanted if known.seen else None,
            "unread": [str(p) for p in sorted(state.partitions or ()) if p not in held],
            "measured_at": state.measured_at if state.measured_at > 0 else None,
            "controller_at": known.seen and known.seen.at,
            "last_decision": known.last
            and known.last.model_dump(include={"at", "decision", "reason"}),
        }
    )


def show_status(found: dict[str, Any]) -> None:
    """Print the status as a table and some sentences."""
    from rich.console import Console
    from rich.table import Table

    from lagless.settings import units

    table = Table(title=f"group {found['group']}, plan {found['generation']}")
    for head in ("member", "partitions", "load", "lag"):
        table.add_column(head)
    for one in found["consumers"].values():
        limit = one.get("capacity")
        share = f" ({one['load'] / limit:.0%} of {units.text(limit)}/s)" if limit else ""
        lag = f"{units.text(one['lag_bytes'])}" if "lag_bytes" in one else "–"
        load = f"{units.text(one['load'])}/s{share}"
        table.add_row(one["name"], str(len(one["partitions"])), load, lag)
    console = Console()
    console.print(table)
    if "rate" in found:
        print(f"a member reads {units.text(found['rate'])}/s")
    else:
        print("what a member can read is not known yet")
    if "wanted" in found:
        print(f"members: {len(found['consumers'])}, needed: {found['wanted']}")
    if "follows" in found:
        print("the plan is followed" if found["follows"] else "the plan is not followed yet")
    else:
        print("there is no plan yet")
    if "controller_at" not in found:
        print("no controller has reported on this group lately: is `lagless controller` running?")
    if found["unread"]:
        print(f"not read: {', '.join(found['unread'][:10])} ({len(found['unread'])})")
    if "last_decision" in found:
        print(f"last decision: {found['last_decision']['reason']}")


def plan(settings: Settings) -> dict[str, Any]:
    """Return the plan that the controller would make now."""
    from lagless.controller.group import placement, plan_machine
    from lagless.operations import group_status
    from lagless.packing import scores
    from lagless.wiring import controller

    known = group_status.known(settings)
    state, policy = known.state, known.policy
    placing = placement.place(state, policy)
    made, names = placing.plan, state.names
    because = plan_machine.why(state, policy)
    return _known(
        {
            "assignment": {str(p): names[n] for p, n in sorted(made.assignment.items())},
            "migrations": [
                {"partition": str(p), "from": names[a], "to": names[b], "weight": made.weights[p]}
                for p, (a, b) in sorted(made.migrations.items())
            ],
            "arrivals": [str(p) for p in sorted(made.assignment) if p not in made.previous],
            "rscore": made.rscore,
            "weight_moved": made.weight_moved,
            "consumers_now": len(state.present),
            "consumers_then": len(set(made.assignment.values())),
            "wanted": placing.wanted,
            "load": {names[n]: x for n, x in scores.loads(made.weights, made.assignment).items()},
            "capacity": placement.capacity(state, policy),
            "algorithm": controller.algorithm(settings),
            "reasons": [because[1]] if because else [],
            "warnings": list(made.warnings),
        }
    )


def show_plan(found: dict[str, Any]) -> None:
    """Print the plan."""
    print(
        f"{found['consumers_now']} members, {found['consumers_then']} of them with work; "
        f"{len(found['migrations'])} partitions move, {len(found['arrivals'])} are new"
    )
    if "wanted" in found:
        print(f"{found['wanted']} members would be enough ({found['algorithm']})")
    for move in found["migrations"]:
        print(f"  {move['partition']}: {move['from']} → {move['to']} ({move['weight']:.0f} B/s)")
    for warning in found["warnings"]:
        print(f"note: {warning}")


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is not known."""
    return {name: value for name, value in fields.items() if value is not None}
