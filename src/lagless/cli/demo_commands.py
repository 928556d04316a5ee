"""The demo, and its parts that run on their own: a broker and a Spark Connect server."""

import json as encoder
from pathlib import Path
from typing import Annotated

import typer

from lagless import extras
from lagless.cli import options
from lagless.errors import GiveUp, WrongInput

commands = typer.Typer()


@commands.command()
def demo(
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Minutes of load; runs until Ctrl-C by default.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="JSON file for the final counts.")] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for the lake, logs and settings; a temporary one by default."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the dashboard; any free port by default."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for the load.")] = 0,
    lake: Annotated[
        str | None,
        typer.Option(
            metavar="s3://BUCKET/PREFIX",
            help="s3:// address for the tables, which are kept; AWS_ENDPOINT_URL names a store "
            "other than AWS S3.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run everything on this machine: Kafka, load, consumers, lake and dashboard."""
    with extras.needed("dev"):
        from lagless.lab import demo, demo_summary

    bucket = None if lake is None else demo.bucket(lake)
    found = demo.Demo(options.notes, minutes, data_dir, port, seed, bucket).run()
    if report is not None:
        report.write_text(encoder.dumps(found.fields(), indent=2) + "\n")
    options.show(found.fields(), json, lambda: demo_summary.show(found, options.notes))
    if not found.clean:
        options.complain("the lake does not hold every record once and in order")
        raise typer.Exit(1)


@commands.command()
def broker(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port on 127.0.0.1; any free port by default."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder for the data; a temporary one by default.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A broker setting; may be repeated."),
    ] = None,
    assignor: Annotated[
        bool,
        typer.Option(
            "--assignor",
            help="Install lagless's assignor, for groups that lagless did not write; built with "
            "Maven if needed.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Run a Kafka broker on this machine until SIGTERM or Ctrl-C."""
    from lagless.lab.parts import assignor_jar
    from lagless.lab.parts import broker as parts
    from lagless.wiring import clock

    kafka_settings = dict(_pair(text) for text in settings or ())
    clock.interrupt_on_signals()
    try:
        plugins = []
        if assignor:
            with options.notes.status("building the assignor (once, with Maven)"):
                plugins = [assignor_jar.built()]
            kafka_settings = assignor_jar.PROPERTIES | kafka_settings
        if not parts.has_jars():
            with options.notes.status("downloading the broker's jars (once, about a minute)"):
                parts.fetch_jars()
        with parts.Broker(data_dir, port, kafka_settings, plugins=plugins) as running:
            answer = {
                "bootstrap": running.bootstrap,
                "pid": running.pid,
                "data_dir": str(running.data_dir),
                "log": str(running.log),
            }
            options.show(
                answer, json, lambda: print(f"Kafka is ready at {running.bootstrap}", flush=True)
            )
            status = running.wait()
            raise GiveUp(f"the broker ended with status {status}: see {running.log}")
    except KeyboardInterrupt:
        options.notes.print("the broker has stopped")


@commands.command()
def connect(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 15002,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the server's files; a temporary one by default.")
    ] = None,
    master: Annotated[
        str, typer.Option(help="Spark master: local[n], spark://…, k8s://… or yarn.")
    ] = "local[2]",
    memory: Annotated[str, typer.Option(help="JVM heap size of the server.")] = "2g",
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="Spark setting; may be repeated."),
    ] = None,
    driver_host: Annotated[
        str | None,
        typer.Option(
            help="Address at which executors reach the server; this machine's by default."
        ),
    ] = None,
    driver_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65534,
            help="Port for executors, and the next one for data; free ports by default.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run a Spark Connect server with Kafka's connector and Delta until SIGTERM or Ctrl-C.

    With the master of a cluster, its executors do the work. They get the jars from the server.
    """
    with extras.needed("spark"):
        from lagless.lab.parts.connect import ConnectServer
    from lagless.wiring import clock

    spark_settings = dict(_pair(text, "--conf") for text in conf or ())
    clock.interrupt_on_signals()
    try:
        with ConnectServer(
            folder,
            port,
            spark_settings,
            host=host,
            master=master,
            memory=memory,
            driver_host=driver_host,
            driver_port=driver_port,
        ) as running:
            answer = {"url": running.url, "pid": running.pid, "log": str(running.log)}
            options.show(
                answer, json, lambda: print(f"Spark is ready at {running.url}", flush=True)
            )
            status = running.wait()
            raise GiveUp(f"the Spark Connect server ended with status {status}: see {running.log}")
    except KeyboardInterrupt:
        options.notes.print("the Spark Connect server has stopped")


def _pair(text: str, option: str = "--set") -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise WrongInput(f"{option} {text}: expected KEY=VALUE")
    return key, value
