"""The paper's algorithms written down slowly and plainly: the oracle for the fast ones.

Mappings in, mapping out; every question about a consumer is answered by looking at all of them.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Partition: TypeAlias = Any
Speeds: TypeAlias = Mapping[Any, float]
Previous: TypeAlias = Mapping[Any, int]


class Consumers:
    """The consumers opened in this iteration, in the order of their creation."""

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.held: dict[int, list[float]] = {}
        self.assignment: dict[Partition, int] = {}

    def load(self, number: int) -> float:
        total = 0.0
        for speed in self.held[number]:
            total = total + speed
        return total

    def fits(self, number: int, speed: float) -> bool:
        if any(held > self.capacity for held in self.held[number]):
            return False  # nothing joins what is oversize
        return self.load(number) + speed <= self.capacity

    def put(self, number: int, partition: Partition, speed: float) -> None:
        self.held.setdefault(number, []).append(speed)
        self.assignment[partition] = number

    def h(self, partition: Partition, previous: Previous) -> int:
        if partition in previous and previous[partition] not in self.held:
            return previous[partition]
        number = 1
        while number in self.held:
            number += 1
        return number


Choice = Callable[[Consumers, float], int | None]


def next_fit(consumers: Consumers, speed: float) -> int | None:
    if not consumers.held:
        return None
    last = list(consumers.held)[-1]
    return last if consumers.fits(last, speed) else None


def first_fit(consumers: Consumers, speed: float) -> int | None:
    return min((n for n in consumers.held if consumers.fits(n, speed)), default=None)


def best_fit(consumers: Consumers, speed: float) -> int | None:
    fitting = [n for n in consumers.held if consumers.fits(n, speed)]
    return min(fitting, key=lambda n: (-consumers.load(n), n), default=None)


def worst_fit(consumers: Consumers, speed: float) -> int | None:
    fitting = [n for n in consumers.held if consumers.fits(n, speed)]
    return min(fitting, key=lambda n: (consumers.load(n), n), default=None)


CHOICES: dict[str, Choice] = {"nf": next_fit, "ff": first_fit, "bf": best_fit, "wf": worst_fit}


def decreasing(speeds: Speeds, partitions: list[Partition]) -> list[Partition]:
    position = {partition: i for i, partition in enumerate(speeds)}
    return sorted(partitions, key=lambda p: (-speeds[p], position[p]))


def place(
    consumers: Consumers, partition: Partition, speed: float, previous: Previous, choice: Choice
) -> None:
    number = choice(consumers, speed)
    if number is None:
        number = consumers.h(partition, previous)
    consumers.put(number, partition, speed)


def any_fit(speeds: Speeds, capacity: float, previous: Previous, name: str) -> dict[Partition, int]:
    """Pack by nf, ff, bf, wf, or one of them decreasing."""
    order = decreasing(speeds, list(speeds)) if name.endswith("d") else list(speeds)
    consumers = Consumers(capacity)
    for partition in order:
        place(consumers, partition, speeds[partition], previous, CHOICES[name[:2]])
    return consumers.assignment


def modified(
    speeds: Speeds, capacity: float, previous: Previous, name: str
) -> dict[Partition, int]:
    """Pack by Algorithm 1: mwf, mbf, mwfp or mbfp."""
    choice = worst_fit if name[1] == "w" else best_fit
    current: dict[int, list[Partition]] = {}
    for partition in speeds:
        if partition in previous:
            current.setdefault(previous[partition], []).append(partition)
    unassigned = [partition for partition in speeds if partition not in previous]

    def key(number: int) -> float:
        if name.endswith("p"):
            return max(speeds[p] for p in current[number])
        total = 0.0
        for p in current[number]:
            total = total + speeds[p]
        return total

    new = Consumers(capacity)
    for number in sorted(current, key=lambda n: (-key(n), n)):
        pset = decreasing(speeds, current[number])
        for partition in list(reversed(pset)):
            found = choice(new, speeds[partition])
            if found is None:
                break
            new.put(found, partition, speeds[partition])
            pset.remove(partition)
        if not pset:
            continue
        new.held[number] = []
        for partition in list(pset):
            if new.held[number] and not new.fits(number, speeds[partition]):
                break
            new.put(number, partition, speeds[partition])
            pset.remove(partition)
        unassigned.extend(pset)
    for partition in decreasing(speeds, unassigned):
        place(new, partition, speeds[partition], previous, choice)
    return new.assignment


def pack(
    speeds: Speeds, capacity: float, previous: Previous | None, name: str
) -> dict[Partition, int]:
    """Pack by any of the paper's algorithms; kd_<n> and ezzeddine included."""
    before = previous or {}
    if name.startswith("kd_"):
        count = int(name[3:])
        return {partition: i % count + 1 for i, partition in enumerate(speeds)}
    if name == "ezzeddine":
        return any_fit(speeds, capacity, {}, "ffd")
    if name.startswith("m"):
        return modified(speeds, capacity, before, name)
    return any_fit(speeds, capacity, before, name)


PAPER = ["nf", "nfd", "ff", "ffd", "bf", "bfd", "wf", "wfd", "mwf", "mbf", "mwfp", "mbfp"]
COVERED = [*PAPER, "kd_1", "kd_3", "ezzeddine"]
