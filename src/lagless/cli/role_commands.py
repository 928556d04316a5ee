"""The commands that run a role: monitor, controller, consumer and dashboard."""

import functools
import gc
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lagless.cli import options, role_runner
from lagless.errors import LaglessError, WrongInput

if TYPE_CHECKING:
    from lagless.model import TopicPartition


commands = typer.Typer()


@commands.command()
def monitor(
    file: options.Config = options.DEFAULT,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Measure and publish each partition's write speed until SIGTERM or Ctrl-C."""
    settings = options.settings(file, overrides)
    role_runner.greet(settings)
    from lagless.wiring import monitor as wiring

    ending = role_runner.ending()
    reloading = role_runner.reloading(settings, file, overrides, "monitor")
    outcome = wiring.run(settings, ending, role_runner.note, reloading)
    options.show(
        asdict(outcome),
        json,
        lambda: print(
            f"{outcome.published} messages in {outcome.rounds} rounds, "
            f"{outcome.partitions} partitions at the end, {outcome.errors} rounds failed"
        ),
    )
    if outcome.cut_short:
        role_runner.leave()


@commands.command()
def controller(
    file: options.Config = options.DEFAULT,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Assign partitions and scale the group until SIGTERM or Ctrl-C; consumers keep running."""
    settings = options.settings(file, overrides)
    ending = role_runner.ending()
    role_runner.log_to_stderr()
    role_runner.greet(settings)
    if settings.of_others:
        from lagless.wiring import group_controller

        group_controller.run(settings, ending, role_runner.note)
    else:
        from lagless.wiring import controller as wiring

        reloading = role_runner.reloading(settings, file, overrides, "controller")
        wiring.run(settings, file, overrides or (), ending, role_runner.note, reloading)
    options.show({"ended": True}, json, lambda: print("ended; consumers keep running"))


@commands.command()
def consumer(
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="The consumer's number.")],
    file: options.Config = options.DEFAULT,
    assign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC:0,1,2",
            help="Read exactly these partitions, without a controller; may be repeated.",
        ),
    ] = None,
    overrides: options.Set = None,
    json: options.Json = False,
) -> None:
    """Write partitions to the lake, each record exactly once, until SIGTERM or Ctrl-C."""
    settings = options.settings(file, overrides)
    role_runner.needs_own_members(settings)
    partitions = [partition for text in assign or () for partition in parse(text)]
    ending = role_runner.ending()
    role_runner.log_to_stderr()
    from lagless.wiring import own_spark

    own_spark.begin(settings)
    role_runner.greet_beside(settings)
    # Imports create half a million permanent objects; collecting them takes a tenth of the start.
    gc.set_threshold(100_000, 50, 100)
    from lagless.wiring import consumer as wiring

    status = 0
    try:
        reloading = role_runner.reloading(settings, file, overrides, "consumer")
        outcome = wiring.run(settings, number, partitions, ending, role_runner.note, reloading)
        options.show(
            asdict(outcome),
            json,
            lambda: print(
                f"{outcome.records} records in {outcome.cycles} cycles, "
                f"{outcome.rejected} rejected, {outcome.gone} gone"
            ),
        )
    except LaglessError as error:
        status = options.fail(error)
    role_runner.leave(status)


@commands.command()
def dashboard(
    file: options.Config = options.DEFAULT,
    override: options.Set = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Overrides dashboard.port; 0 picks a free port."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Serve a read-only web page of the group until SIGTERM or Ctrl-C."""
    settings = options.settings(file, override)
    role_runner.greet(settings)
    from lagless.lab import rehearsals
    from lagless.wiring import dashboard as wiring

    def ready(address: str) -> None:
        options.show(
            {"address": address, "group": settings.group},
            json,
            lambda: options.notes.print(f"dashboard of {settings.group}: {address} (Ctrl-C ends)"),
        )

    # The laboratory replays traffic, and the page's own room does not know it.
    replay = functools.partial(rehearsals.recent_targets, settings)
    wiring.run(settings, port, ready, replay)


def parse(text: str) -> "list[TopicPartition]":
    """Return the partitions of TOPIC:0,1,2."""
    from lagless.model import TopicPartition

    topic, colon, numbers = text.rpartition(":")
    parts = [part.strip() for part in numbers.split(",")]
    if not colon or not topic or not all(part.isdigit() for part in parts):
        raise WrongInput(f"--assign {text}: expected TOPIC:0,1,2")
    return [TopicPartition(topic, int(part)) for part in parts]
