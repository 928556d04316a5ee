"""`lagless evaluate all`: one command for everything that can be measured here."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lagless.cli import options
from lagless.cli.evaluate_commands import evaluation

commands = typer.Typer()
LIVE = ("dt1", "response", "capacity", "delay", "rival")


@evaluation.command("all")
def everything(
    out: Annotated[Path, typer.Option(help="Folder for all results and report.html.")],
    only: Annotated[
        str, typer.Option(help="Parts to run: paper, live's parts, benchmarks; all by default.")
    ] = "",
    skip: Annotated[str, typer.Option(help="Parts to leave out.")] = "",
    partitions: Annotated[int, typer.Option(min=1, help="paper: partitions.")] = 200,
    measurements: Annotated[int, typer.Option(min=1, help="paper: measurements.")] = 500,
    seeds: Annotated[int, typer.Option(min=1, help="paper: streams of each kind.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="dt1: steps in write speed.")] = 30,
    observations: Annotated[int, typer.Option(min=1, help="response: reassignments.")] = 300,
    scale: Annotated[
        float, typer.Option(min=0.001, max=10, help="capacity: fraction of the paper's data.")
    ] = 1.0,
    minutes: Annotated[float, typer.Option(min=0.2, help="delay, rival: minutes per run.")] = 5.0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(envvar="LAGLESS_TEST_KUBECONFIG", help="response: a cluster for pods."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run everything that this machine can, and write one report; an interrupted run resumes."""
    from lagless.lab import whole

    # Each part is a process of its own: one that has to be ended leaves nothing behind in others.
    paper = ["paper", f"--partitions={partitions}", f"--measurements={measurements}"]
    live = [f"--steps={steps}", f"--observations={observations}", f"--scale={scale}"]
    live += [f"--minutes={minutes}", *([f"--kubeconfig={kubeconfig}"] if kubeconfig else [])]
    sizes = {name: ["live", "--only", name, *live] for name in LIVE}
    parts = [
        whole.Part("paper", partial(_run, [*paper, f"--seeds={seeds}"], out / "paper")),
        *(whole.Part(name, partial(_run, words, out / "live")) for name, words in sizes.items()),
        *whole.benchmarks(out),
    ]
    asked = whole.chosen(parts, only, skip)
    failed = whole.run(out, asked, lambda words: options.notes.print(words, markup=False))
    report = out / "report.html"
    options.show(
        {"parts": [part.name for part in asked], "failed": failed, "report": str(report)},
        json,
        lambda: print(f"{len(asked) - len(failed)} of {len(asked)} parts: {report}"),
    )


def _run(words: list[str], out: Path) -> None:
    """Run one of the other evaluations on the same terminal."""
    command = [sys.executable, "-m", "lagless", "evaluate", *words, "--out", str(out)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise subprocess.SubprocessError(
            f"`lagless evaluate {words[0]}` ended with status {done.returncode}"
        )
