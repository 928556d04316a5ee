"""`lagless evaluate live`: the parts one after another, and what is made from their files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lagless.errors import WrongInput
from lagless.live import capacity, delay, pages, response, rival, scenes, speed_steps, traffic
from lagless.live.journal import Journal
from lagless.live.stand import Tell

Told = Callable[[int, int], None]
"""How much is done, of how much."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much each part observes."""

    steps: int = 30
    window: float = 30.0
    observations: int = 300
    partitions: int = 32
    scale: float = 1.0
    minutes: float = 5.0
    seed: int = 0
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A part: what it is, the settings that its file must have, and how it is run."""

    name: str
    title: str
    settings: Mapping[str, Any]
    run: Callable[[Journal, Tell, Told], None]
    lacks: Callable[[Journal], bool] = lambda _: False
    """Whether more is asked of a part that was complete."""


def parts(size: Size) -> dict[str, Part]:
    """Give every part in its size."""
    seed = size.seed
    listed = (
        Part(
            "dt1",
            "Δt1: a step in the write speed → the monitor shows it",
            {"steps": size.steps, "window": size.window, "seed": seed},
            lambda journal, tell, told: speed_steps.run(
                journal, size.steps, size.window, seed, tell, told
            ),
        ),
        Part(
            "response",
            "Δt2, Δt3, Δt4: a measurement → the group has answered it",
            {
                "observations": size.observations,
                "partitions": size.partitions,
                "seed": seed,
            },
            lambda journal, tell, told: response.run(
                journal,
                scenes.Size(size.observations, size.partitions),
                seed,
                tell,
                told,
                size.kubeconfig,
            ),
            # A cluster that was not there at first adds to what is there.
            lambda journal: (
                size.kubeconfig is not None and "kubernetes" not in journal.all("ended")
            ),
        ),
        Part(
            "capacity",
            "Capacity: what a consumer reads at most, in the paper's three conditions",
            {"scale": size.scale},
            lambda journal, tell, told: capacity.run(journal, size.scale, tell, told),
        ),
        Part(
            "delay",
            "Latency: produced → readable in the lake, beside groups of fixed size",
            {"minutes": size.minutes, "partitions": traffic.PARTITIONS, "seed": seed},
            lambda journal, tell, told: delay.run(journal, size.minutes, seed, tell, told),
        ),
        Part(
            "rival",
            "A plain consumer group scaled by KEDA's rule, on the same work",
            {"minutes": size.minutes, "partitions": traffic.PARTITIONS, "seed": seed},
            lambda journal, tell, told: rival.run(journal, size.minutes, seed, tell, told),
        ),
    )
    return {part.name: part for part in listed}


def chosen(known: Mapping[str, Part], text: str) -> list[Part]:
    """Read the names of parts, "dt1,response" say; all if none is named."""
    asked = [word.strip() for word in text.split(",") if word.strip()]
    for word in asked:
        if word not in known:
            raise WrongInput(f"--only {word}: there is no such part, only {', '.join(known)}")
    return [part for name, part in known.items() if not asked or name in asked]


def run(
    out: Path, asked: Sequence[Part], tell: Tell, told: Callable[[str, int, int], None]
) -> None:
    """Run the parts that the folder does not have yet, and write the pages after each."""
    journals = {
        part.name: Journal(out / f"{part.name}.json", part.name, part.settings) for part in asked
    }
    for part in asked:
        journal = journals[part.name]
        if journal.complete and not part.lacks(journal):
            tell(f"{part.name}: already measured, {journal.file}")
            continue
        began = "going on with what" if journal.resumed else "beginning"
        tell(f"{part.title}: {began}" + (f" {journal.file} has" if journal.resumed else ""))
        journal.begin()
        part.run(journal, tell, partial(told, part.name))
        pages.write(out)
        tell(f"{part.name}: done in {journal.data['seconds']:.0f} s")
