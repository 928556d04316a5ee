"""The command `evaluate live`: the running system, measured on this machine."""

import logging
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from lagless import extras
from lagless.cli import output


def live(
    out: Annotated[Path, typer.Option(help="Folder for observations, figures and report.html.")],
    only: Annotated[
        str, typer.Option(help="Of dt1,response,capacity,delay,rival; all if not given.")
    ] = "",
    steps: Annotated[int, typer.Option(min=1, help="dt1: steps in write speeds.")] = 30,
    window: Annotated[
        float, typer.Option(min=1, help="dt1: seconds of the monitor's window.")
    ] = 30.0,
    observations: Annotated[
        int, typer.Option(min=1, help="response: reassignments; a third as many creations.")
    ] = 300,
    partitions: Annotated[int, typer.Option(min=1, help="response: partitions.")] = 32,
    scale: Annotated[
        float, typer.Option(min=0.001, max=10, help="capacity: share of the paper's bytes.")
    ] = 1.0,
    minutes: Annotated[
        float, typer.Option(min=0.2, help="delay and rival: of each run, after a settling minute.")
    ] = 5.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the streams.")] = 0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            envvar="LAGLESS_TEST_KUBECONFIG",
            help="response: also as pods of this cluster, whose one node is this machine.",
        ),
    ] = None,
    json: output.Json = False,
) -> None:
    """Measure the running system here; what was interrupted goes on where it stopped."""
    from lagless.cli import progress

    with extras.needed("dev"):
        from lagless.evaluation.grid import Progress
        from lagless.live import pages, running

    # A controller that runs in this process tells its decisions to the observations.
    logging.getLogger("lagless").addHandler(logging.NullHandler())
    # Asked to end, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    size = running.Size(steps, window, observations, partitions, scale, minutes, seed, kubeconfig)
    asked = running.chosen(running.parts(size), only)
    with progress.bars() as told:
        running.run(
            out,
            asked,
            lambda words: output.notes.print(words, markup=False, soft_wrap=True),
            lambda name, done, total: told(name, Progress(done, 0, total)),
        )
    report = pages.write(out)
    found = pages.sums(pages.read(out))
    output.show(
        {"parts": found, "report": str(report)},
        json,
        lambda: print(f"{', '.join(found)}: {report}"),
    )
