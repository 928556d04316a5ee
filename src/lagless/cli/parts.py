"""Commands that run a part of the demo on its own."""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from lagless.cli import output
from lagless.errors import GiveUp, WrongInput


def register(app: typer.Typer) -> None:
    """Put the commands of this theme on the app."""
    app.command("broker")(broker)


def broker(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1; free if not given.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps the data; a temporary one if not given."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of Kafka's; may be repeated."),
    ] = None,
    json: output.Json = False,
) -> None:
    """Run a Kafka broker on this machine until SIGTERM or Ctrl-C."""
    from lagless.embedded import jars
    from lagless.embedded.broker import Broker

    given = dict(_pair(text) for text in settings or ())
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        # Raising here, too, ends a start that is still under way.
        if not asked.is_set():
            asked.set()
            raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    try:
        if not jars.present("broker"):
            with output.notes.status("fetching the broker's jars: about a minute, once"):
                jars.fetch("broker")
        with Broker(data_dir, port, given) as running:
            told = {
                "bootstrap": running.bootstrap,
                "pid": running.pid,
                "data_dir": str(running.data_dir),
                "log": str(running.log),
            }
            output.show(
                told, json, lambda: print(f"Kafka answers at {running.bootstrap}", flush=True)
            )
            status = running.wait()
            raise GiveUp(f"the broker ended with status {status}: see {running.log}")
    except KeyboardInterrupt:
        output.notes.print("the broker is stopped")


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise WrongInput(f"--set takes KEY=VALUE, not {text!r}")
    return key, value
