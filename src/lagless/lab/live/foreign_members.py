"""Members that lagless did not write: placed by `uniform`, by lagless, and scaled by KEDA's rule.

The same program, an ordinary confluent-kafka consumer with `group.protocol=consumer`, runs three
times on the stream of the rival. Only its configuration names another assignor. lagless's
controller is the real one, and asks for members as it would ask a Deployment; here they are
processes. `live_findings.members` says what is compared.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from lagless import extras
from lagless.group_ports import GroupMember
from lagless.lab import report
from lagless.lab.live import live_stream, rival
from lagless.lab.live.fleet import Fleet
from lagless.lab.live.journal import Journal
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


def tree() -> dict[str, Any]:
    """Return the settings of monitor and controller."""
    times = {"iteration": live_stream.ITERATION, "rebalance": live_stream.REBALANCE}
    return {
        "group": GROUP,
        "topics": [TOPIC],
        "controller": {**times, "catch_up": 30, "max_consumers": live_stream.PARTITIONS},
        "members": {"kind": "group", "rate": live_stream.MAX_RATE},
        # The scaler itself is handed to the controller below.
        "provisioner": {"kind": "deployment", "workload": GROUP},
    }


def run(journal: Journal, minutes: float, seed: int) -> None:
    """Run the groups that the journal lacks."""
    stream = live_stream.stream(minutes, seed)
    for done, name in enumerate(NAMES):
        if not any(row["name"] == name for row in journal.all("runs")):
            journal.say(f"members: {name}")
            size = fair_size(journal.all("runs"))
            told = partial(_tell, journal, 100 * done)
            journal.note("runs", {"name": name, **_measure(name, stream, size, told)})
        _tell(journal, 100 * done, 100)
    journal.finish(machine=report.machine())


def _tell(journal: Journal, done: int, percent: int) -> None:
    journal.progress(done + percent, 100 * len(NAMES))


def fair_size(runs: list[dict[str, Any]]) -> int:
    """Return how many members a fixed group gets: what lagless used on average, rounded up."""
    return max((math.ceil(row["consumers"]) for row in runs if row["name"] == "lagless"), default=1)


def _measure(
    name: str, stream: live_stream.Stream, size: int, progress: Callable[[int], None]
) -> dict[str, Any]:
    with Testbed(spark=False, assignor=True) as bed:
        settings, config = bed.settle(tree())
        rival.make_table(bed.lake / TOPIC)
        assignor = "lagless" if name == "lagless" else "uniform"
        words = lambda client: ["--assignor", assignor, "--client-id", client]  # noqa: E731
        fleet = Fleet(bed, GROUP, TOPIC, bed.lake / TOPIC, words)
        looks: list[dict[str, Any]] = []
        first = rival.first_size(stream)
        if name == "lagless":
            group = led(bed, settings, config, fleet, first)
        elif name == "keda":
            group = rival.scaled(bed, fleet, first, looks)
        else:
            group = fixed(bed, fleet, size)
        moves = Moves(settings)
        with contextlib.closing(moves):
            measured = live_stream.run(bed, TOPIC, stream, watched(group, moves), progress)
        seconds = stream.seconds - stream.settle
        return {
            **measured,
            "migrations": moves.count,
            "consumer_seconds": round(measured["consumers"] * seconds),
            "looks": looks,
            "refused": fleet.refused(),
        }


class Moves:
    """Counts how often a partition was seen with another reader than before."""

    def __init__(self, settings: Settings) -> None:
        self._group = PlannedGroup(settings)
        self._readers: dict[TopicPartition, str] = {}
        self.count = 0

    def look(self) -> None:
        """Look at who holds what."""
        for member in self._group.describe().members:
            self.see(dict.fromkeys(member.held, member.id))

    def see(self, readers: dict[TopicPartition, str]) -> None:
        """Count those that had another reader."""
        for partition, reader in readers.items():
            self.count += self._readers.get(partition, reader) != reader
            self._readers[partition] = reader

    def close(self) -> None:
        """Close the connection."""
        self._group.close()


@contextlib.contextmanager
def watched(group: live_stream.Group, moves: Moves) -> Iterator[Callable[[float], int]]:
    """Run a group, and look at its members as often as at its size."""
    with group as size:

        def look(passed: float) -> int:
            moves.look()
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
