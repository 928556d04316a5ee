"""A role whose connections go through links: `python -m tests.chaos.linked LINKS NAME ROLE …`.

LINKS is a file that says at which address each part is reached from here. The production code knows
nothing of this: settings are changed after they were read, and consumers start by this module too.
What the controller asks its provisioner for is noted in a file beside LINKS, and another file says
by how many seconds the clock of the process is wrong.
"""

import contextlib
import json
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from lagless.adapters import processes
from lagless.adapters.kafka import connection
from lagless.adapters.processes import ProcessProvisioner
from lagless.cli import options
from lagless.cli.app import main
from lagless.settings import Settings

ACTS = "acts.jsonl"
LOOK = 0.2
"""Seconds between two looks at the file that says how wrong the clock is."""


def reach(links: Mapping[str, str], name: str) -> None:
    """Let this process reach Kafka by its own link, and Spark by that of all consumers."""
    read, to_kafka = options.settings, connection.spark

    def settings(*arguments: Any, **named: Any) -> Settings:
        found = read(*arguments, **named)
        kafka = found.kafka.model_copy(update={"bootstrap": links[name]})
        spark = found.spark
        if spark.is_remote:
            spark = spark.model_copy(update={"url": f"sc://{links['connect']}"})
        return found.model_copy(update={"kafka": kafka, "spark": spark})

    def spark(kafka: Any) -> dict[str, str]:
        return to_kafka(kafka.model_copy(update={"bootstrap": links["spark"]}))

    options.settings = settings
    connection.spark = spark


def clock_of(links: Path, name: str) -> Path:
    """Return the file that says how wrong the clock of a process is."""
    return links.with_name(f"clock-{name}")


def note(file: Path, name: str) -> None:
    """Note what the provisioner is asked for, before it is done."""

    def wrap(what: str) -> None:
        original = getattr(ProcessProvisioner, what)

        def wrapped(self: ProcessProvisioner, consumers: Collection[int]) -> Any:
            if consumers:
                act = {"at": time.time(), "by": name, "what": what, "consumers": [*consumers]}
                with file.open("a") as acts:
                    acts.write(json.dumps(act) + "\n")
            return original(self, consumers)

        setattr(ProcessProvisioner, what, wrapped)

    wrap("create")
    wrap("delete")


def bend_clock(file: Path) -> None:
    """Let the time of day of this process be wrong by as many seconds as the file says.

    It is Python's only: clients written in C keep the machine's clock, as does the monotonic one.
    """
    right = time.time
    offset, looked = 0.0, 0.0

    def wrong() -> float:
        nonlocal offset, looked
        if time.monotonic() - looked > LOOK:
            looked = time.monotonic()
            with contextlib.suppress(OSError, ValueError):
                offset = float(file.read_text())
        return right() + offset

    time.time = wrong


def start_alike(links: Path) -> None:
    """Let the provisioner start consumers by this module."""
    plain = processes.consumer_command

    def command(config: Path, overrides: Sequence[str] = ()) -> list[str]:
        python, option, _, *words = plain(config, overrides)
        return [python, option, "tests.chaos.linked", str(links), "consumer", *words]

    processes.consumer_command = command


if __name__ == "__main__":
    file, mine = Path(sys.argv[1]), sys.argv[2]
    reach(json.loads(file.read_text()), mine)
    note(file.with_name(ACTS), mine)
    start_alike(file)
    # Consumers are told apart by their numbers.
    bend_clock(clock_of(file, f"{mine}-{sys.argv[4]}" if mine == "consumer" else mine))
    sys.argv = ["lagless", *sys.argv[3:]]
    main()
