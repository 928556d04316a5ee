"""The command that measures."""

import os
import signal
import sys
from dataclasses import asdict
from threading import Event

import typer

from lagless.cli import config, output


def register(app: typer.Typer) -> None:
    """Put the commands of this theme on the app."""
    app.command("monitor")(monitor)


def monitor(
    file: config.Config = config.DEFAULT, overrides: config.Set = None, json: output.Json = False
) -> None:
    """Measure how fast partitions are written to, and publish it, until SIGTERM or Ctrl-C."""
    from lagless.wiring import monitor as wiring

    settings = config.settings(file, overrides)
    ending = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    outcome = wiring.run(settings, ending, lambda words: output.notes.print(words, markup=False))
    output.show(
        asdict(outcome),
        json,
        lambda: print(
            f"{outcome.published} messages in {outcome.rounds} rounds, "
            f"{outcome.partitions} partitions at the end, {outcome.errors} rounds failed"
        ),
    )
    if outcome.cut_short:
        # Clients wait for their brokers when Python ends in order; nothing is left to be saved.
        sys.stdout.flush()
        os._exit(0)
