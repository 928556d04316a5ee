"""The lines with which an existing group is handed to lagless: for its members, brokers, settings.

There are three ways for members to follow a plan: by the broker's assignor, by an assignor in Java
members, and by a helper in Python members.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lagless.settings import Settings

BROKER_CLASS = "lagless.assignor.PlanAssignor"
CLIENT_CLASS = "lagless.assignor.ClientPlanAssignor"


@dataclass(frozen=True, slots=True)
class Lines:
    """What to set where."""

    broker: tuple[str, ...]
    """In server.properties, with the assignor's jar in libs/."""
    client: tuple[str, ...]
    """In the members' configuration, on brokers with the assignor."""
    client_java: tuple[str, ...]
    """In Java members, on brokers that take no plugins."""
    client_python: tuple[str, ...]
    """In Python members on confluent-kafka, on brokers that take no plugins."""
    settings: tuple[str, ...]
    """lagless.toml."""


def lines(settings: Settings, topics: Sequence[str], rate: str | None) -> Lines:
    """Return the lines for a group; `rate` is what a member can read, None if lagless learns it."""
    group = settings.group
    return Lines(
        broker=(f"group.consumer.assignors=uniform,range,{BROKER_CLASS}",),
        client=(
            "group.protocol=consumer",
            "group.remote.assignor=lagless",
            "group.instance.id=NAME",
        ),
        client_java=(f"partition.assignment.strategy={CLIENT_CLASS}", "group.instance.id=NAME"),
        client_python=(
            "from lagless.client import PlannedConsumer",
            f'consumer = PlannedConsumer({{…, "group.id": "{group}"}}, member="NAME")',
        ),
        settings=tuple(_toml(settings, topics, rate)),
    )


def _toml(settings: Settings, topics: Sequence[str], rate: str | None) -> list[str]:
    written = [
        f"group = {_quoted(settings.group)}",
        f"topics = [{', '.join(map(_quoted, topics))}]",
        "",
        "[kafka]",
        f"bootstrap = {_quoted(settings.kafka.bootstrap)}",
    ]
    security = settings.kafka.security.model_dump(
        mode="json", exclude_defaults=True, exclude={"password", "client_secret"}
    )
    if security:
        pairs: Mapping[str, object] = dict(security)
        written += ["", "[kafka.security]"]
        written += [f"{key} = {json.dumps(value)}" for key, value in pairs.items()]
    written += ["", "[members]", 'kind = "group"']
    if rate is not None:
        written.append(f"rate = {_quoted(rate)}")
    return [*written, "", "[provisioner]", 'kind = "none"']


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
