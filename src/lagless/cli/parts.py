"""Commands that run a part of the demo on its own."""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from lagless import extras
from lagless.cli import output
from lagless.errors import GiveUp, WrongInput


def register(app: typer.Typer) -> None:
    """Put the commands of this theme on the app."""
    app.command("broker")(broker)
    app.command("connect")(connect)


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
    _end_on_signals()
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


def connect(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 15002,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    folder: Annotated[
        Path | None, typer.Option(help="Folder of its files; a temporary one if not given.")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    memory: Annotated[str, typer.Option(help="Memory of its JVM.")] = "2g",
    json: output.Json = False,
) -> None:
    """Run a Spark Connect server with Kafka's connector and Delta until SIGTERM or Ctrl-C."""
    with extras.needed("spark"):
        from lagless.embedded.connect import ConnectServer

    _end_on_signals()
    try:
        with ConnectServer(folder, port, host=host, master=master, memory=memory) as running:
            told = {"url": running.url, "pid": running.pid, "log": str(running.log)}
            output.show(told, json, lambda: print(f"Spark answers at {running.url}", flush=True))
            status = running.wait()
            raise GiveUp(f"the Spark Connect server ended with status {status}: see {running.log}")
    except KeyboardInterrupt:
        output.notes.print("the Spark Connect server is stopped")


def _end_on_signals() -> None:
    """Let the first SIGTERM or Ctrl-C end what runs, also a start that is still under way."""
    asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if not asked.is_set():
            asked.set()
            raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise WrongInput(f"--set takes KEY=VALUE, not {text!r}")
    return key, value
