"""Members that lagless did not write: placed by `uniform`, by lagless, and scaled by KEDA's rule.

The same program, an ordinary confluent-kafka consumer with `group.protocol=consumer`, runs in three
groups on a skewed stream. Only its configuration names another assignor. lagless's controller is
the real one, and asks for members as it would ask a Deployment; here they are processes. Which
partitions `uniform` gives to one member depends on their numbers, so all three groups are measured
several times, each time with other partitions hot. `foreign_findings.members` says what is
compared.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lagless import extras, packing
from lagless.group_ports import GroupMember
from lagless.lab import report
from lagless.lab.live import live_stream, rival
from lagless.lab.live.fleet import Fleet
from lagless.lab.live.journal import Journal
from lagless.lab.model import uniform
from lagless.lab.testbed import Testbed
from lagless.model import TopicPartition
from lagless.settings import Settings
from lagless.wiring import group_controller

with extras.needed("kafka"):
    from lagless.adapters.kafka.planned_group import PlannedGroup

NAMES = ("lagless", "uniform", "keda")
"""The groups; lagless first, since it says how many members are fair."""
TOPIC, GROUP = "members", "members"
LEAD = 60.0
"""Seconds for the controller to lead."""
AROUND = 45.0
"""Seconds that a run takes besides its stream, about: all start and join; the rest is read."""
SKEWS = (0.0, 0.5, 0.75, live_stream.SKEW)
"""Exponents of Zipf's law for which `uniform` is computed."""
DRAWS = 1000
RARE = 0.05
"""In which fraction of draws a member may be overloaded for `uniform` to have enough members."""


def tree() -> dict[str, Any]:
    """Return the settings of monitor and controller."""
    times = {"iteration": live_stream.ITERATION, "rebalance": live_stream.REBALANCE}
    return {
        "group": GROUP,
        "topics": [TOPIC],
        "controller": {**times, "catch_up": 30, "max_consumers": live_stream.MANY},
        "members": {"kind": "group", "rate": live_stream.MAX_RATE},
        # The scaler itself is handed to the controller below.
        "provisioner": {"kind": "deployment", "workload": GROUP},
    }


def run(journal: Journal, minutes: float, repeats: int, seed: int) -> None:
    """Run the groups that the journal lacks: all three on one stream, then on the next."""
    turns = [(turn, name) for turn in range(repeats) for name in NAMES]
    measured = {(row["turn"], row["name"]) for row in journal.all("runs")}
    missing = [turn for turn in turns if turn not in measured]
    journal.say(f"members: {told(len(missing), minutes)}")
    for done, (turn, name) in enumerate(turns):
        if (turn, name) in missing:
            journal.say(f"members: {name}, {turn + 1} of {repeats}")
            stream = live_stream.skewed(minutes, np.random.default_rng([seed, turn]))
            size = fair_size([row for row in journal.all("runs") if row["turn"] == turn])
            progress = partial(_tell, journal, 100 * done, 100 * len(turns))
            row = {"turn": turn, "name": name, **_measure(name, stream, size, progress)}
            journal.note("runs", row)
        _tell(journal, 100 * done, 100 * len(turns), 100)
    journal.finish(machine=report.machine(), draws=draws(journal.all("runs"), seed))


def told(runs: int, minutes: float) -> str:
    """Return how many runs there are, and how long they take."""
    stream = live_stream.skewed(minutes, np.random.default_rng(0))
    whole = math.ceil(runs * (stream.seconds + AROUND) / 60)
    return (
        f"{runs} runs of {stream.seconds / 60:.3g} minutes of load, about {whole} minutes in all; "
        f"a group that is behind takes up to {live_stream.PATIENCE:g} s more"
    )


def _tell(journal: Journal, done: int, total: int, percent: int) -> None:
    journal.progress(done + percent, total)


def fair_size(runs: list[dict[str, Any]]) -> int:
    """Return how many members a fixed group gets: what lagless used on average, rounded up."""
    return max((math.ceil(row["consumers"]) for row in runs if row["name"] == "lagless"), default=1)


def draws(runs: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Compute how often `uniform` overloads one of the members that it had, for several skews."""
    sizes = [round(row["consumers"]) for row in runs if row["name"] == "uniform"]
    if not sizes:
        return []
    found = []
    for skew in SKEWS:
        speeds = live_stream.zipf(skew)
        packed = packing.pack(dict(enumerate(speeds.tolist())), live_stream.CAPACITY)
        rng = np.random.default_rng(seed)
        about = {
            "skew": skew,
            "busiest": round(float(speeds[0])),
            "packed": len(set(packed.values())),
            "needed": uniform.needed(speeds, live_stream.MAX_RATE, RARE, DRAWS, rng),
        }
        for size in sorted(set(sizes)):
            odds = uniform.odds(speeds, size, live_stream.MAX_RATE, DRAWS, rng)
            found.append({**about, **asdict(odds)})
    return found


def _measure(
    name: str, stream: live_stream.Stream, size: int, progress: Callable[[int], None]
) -> dict[str, Any]:
    with Testbed(spark=False, assignor=True) as bed:
        settings, config = bed.settle(tree())
        rival.make_table(bed.lake / TOPIC)
        assignor = "lagless" if name == "lagless" else "uniform"
        words = lambda client: ["--assignor", assignor, "--client-id", client]  # noqa: E731
        fleet = Fleet(bed, GROUP, TOPIC, bed.lake / TOPIC, words, stream.partitions)
        looks: list[dict[str, Any]] = []
        first = rival.first_size(stream)
        if name == "lagless":
            group = led(bed, settings, config, fleet, first)
        elif name == "keda":
            group = rival.scaled(bed, fleet, first, looks)
        else:
            group = fixed(bed, fleet, size)
        holders = Holders(settings, stream)
        with contextlib.closing(holders):
            measured = live_stream.run(bed, TOPIC, stream, watched(group, holders), progress)
        seconds = stream.seconds - stream.settle
        return {
            **measured,
            "migrations": holders.moves,
            "fullest": holders.fullest,
            "consumer_seconds": round(measured["consumers"] * seconds),
            "looks": looks,
            "refused": fleet.refused(),
        }


class Holders:
    """Who holds what: how often that changes, and how much the fullest member has to read."""

    def __init__(self, settings: Settings, stream: live_stream.Stream) -> None:
        self._group = PlannedGroup(settings)
        self._stream = stream
        self._readers: dict[TopicPartition, str] = {}
        self._loads: list[float] = []
        self.moves = 0
        """How often a partition was seen with another reader than before."""

    @property
    def fullest(self) -> float | None:
        """Return what the fullest member had to read in the median, as a fraction of C̄."""
        return round(float(np.median(self._loads)), 3) if self._loads else None

    def look(self, passed: float) -> None:
        """Look at who holds what."""
        members = self._group.describe().members
        self.see({p: member.id for member in members for p in member.held}, passed)

    def see(self, readers: Mapping[TopicPartition, str], passed: float) -> None:
        """Take in who reads what so long after the load's start."""
        for partition, reader in readers.items():
            self.moves += self._readers.get(partition, reader) != reader
            self._readers[partition] = reader
        if self._stream.settle <= passed < self._stream.seconds and readers:
            speeds, load = self._stream.at(passed), dict.fromkeys(readers.values(), 0.0)
            for partition, reader in readers.items():
                load[reader] += float(speeds[partition.partition])
            self._loads.append(max(load.values()) / live_stream.MAX_RATE)

    def close(self) -> None:
        """Close the connection."""
        self._group.close()


@contextlib.contextmanager
def watched(group: live_stream.Group, holders: Holders) -> Iterator[Callable[[float], int]]:
    """Run a group, and look at its members as often as at its size."""
    with group as size:

        def look(passed: float) -> int:
            holders.look(passed)
            return size(passed)

        yield look


@contextlib.contextmanager
def fixed(bed: Testbed, fleet: Fleet, size: int) -> Iterator[Callable[[float], int]]:
    """Run so many members, all joined before the load begins."""
    fleet.resize(size)
    try:
        rival.await_members(bed, fleet, size)
        yield lambda _: size
    finally:
        fleet.end()


class Wish:
    """A scaler that remembers what was asked for; the thread that runs the children obeys."""

    ordered = False

    def __init__(self) -> None:
        self._asked: tuple[int, frozenset[str]] | None = None

    def scale(self, size: int, idle: Collection[GroupMember]) -> None:
        """Ask for so many members."""
        self._asked = size, frozenset(member.client for member in idle)

    def obey(self, fleet: Fleet) -> None:
        """Start members that are missing, or end those without work."""
        if self._asked is not None:
            size, idle = self._asked
            fleet.resize(max(size, 1), idle)


@contextlib.contextmanager
def led(
    bed: Testbed, settings: Settings, config: Path, fleet: Fleet, first: int
) -> Iterator[Callable[[float], int]]:
    """Run members and lagless's controller, which places and scales them.

    The monitor starts last: it would measure that nothing is written yet, and most would end.
    """
    wish, ending = Wish(), threading.Event()
    leading = threading.Event()

    def tell(words: str) -> None:
        if words.startswith("leading"):
            leading.set()

    def control() -> None:
        group_controller.run(settings, ending, tell, wish)

    def size(_: float) -> int:
        wish.obey(fleet)
        return len(fleet.names)

    controller = threading.Thread(target=control, name="controller", daemon=True)
    fleet.resize(first)
    controller.start()
    try:
        bed.until(leading.is_set, "the controller does not lead", LEAD)
        rival.await_members(bed, fleet, first)
        bed.start_role("monitor", config)
        yield size
    finally:
        ending.set()
        controller.join(30)
        fleet.end()
        bed.children.end("monitor", patience=5)
