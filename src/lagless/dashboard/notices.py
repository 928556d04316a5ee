"""Sentences about what is not as it should be, the gravest first. Pure.

They are read out when they change, so they hold no numbers that change all the time.
"""

from collections.abc import Iterator, Sequence

from lagless.dashboard.snapshot import Bin, Notice, Snapshot

NAMED = 5
"""Partitions or consumers that a sentence names before it says how many more there are."""


def find(seen: Snapshot) -> Iterator[Notice]:
    """Say what is wrong."""
    if seen.link.trouble:
        # Everything else is old by consequence, and says nothing about the roles.
        yield Notice("bad", f"Kafka is out of reach, and what is shown is old: {seen.link.trouble}")
        return
    yield from _roles(seen)
    yield from _consumers(seen)
    if seen.unassigned and seen.bins:
        names = _named([str(block.partition) for block in seen.unassigned])
        yield Notice("warn", f"Nobody reads {names}.")
    oversize = [str(name) for name, speed in seen.speeds.items() if speed > seen.capacity]
    if oversize:
        yield Notice(
            "warn",
            f"Faster than the capacity C of a consumer: {_named(oversize)}; no assignment helps.",
        )


def _roles(seen: Snapshot) -> Iterator[Notice]:
    if seen.speeds_age is None:
        yield Notice("warn", "The monitor has published no speeds yet: is it running?")
    elif seen.speeds_stale:
        yield Notice("bad", "The monitor is silent: the speeds shown are old.")
    if seen.controller_age is None:
        if seen.speeds or seen.bins:
            yield Notice("warn", "The controller has decided nothing yet: is it running?")
    elif seen.controller_stale:
        yield Notice("warn", "The controller is silent: consumers go on with what they have.")


def _consumers(seen: Snapshot) -> Iterator[Notice]:
    lost = [one for one in seen.bins if one.condition == "lost"]
    silent = [one for one in seen.bins if one.condition == "silent"]
    if lost:
        yield Notice("bad", f"{_who(lost)} lost.")
    if silent:
        yield Notice("bad", f"{_who(silent)} silent.")
    for part in ("spark", "kafka", "lake"):
        waiting = [
            one for one in seen.bins if one.condition == "waiting" and one.waiting_for == part
        ]
        if waiting:
            name = "the lake" if part == "lake" else part.capitalize()
            yield Notice("warn", f"{_who(waiting)} waiting for {name}.")
    troubles: dict[str, list[str]] = {}
    for one in seen.bins:
        if one.trouble:
            troubles.setdefault(one.trouble, []).append(str(one.consumer))
    for trouble, numbers in troubles.items():
        noun = "Consumer" if len(numbers) == 1 else "Consumers"
        yield Notice("warn", f"{noun} {_named(numbers)}: {trouble}")
    full = [one for one in seen.bins if len(one.blocks) > 1 and one.load > seen.capacity]
    if full:
        yield Notice("warn", f"{_who(full)} above the capacity C.")


def _who(consumers: Sequence[Bin]) -> str:
    """Name consumers as the subject of a sentence, with its verb."""
    numbers = [str(one.consumer) for one in consumers]
    if len(numbers) == 1:
        return f"Consumer {numbers[0]} is"
    return f"Consumers {_named(numbers)} are"


def _named(names: list[str]) -> str:
    more = len(names) - NAMED
    if more > 0:
        return ", ".join(names[:NAMED]) + f" and {more} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
