"""Sentences about what is not as it should be, the gravest first. Pure."""

from collections.abc import Iterator

from lagless.dashboard import words
from lagless.dashboard.snapshot import Bin, Notice, Snapshot
from lagless.settings import Settings

NAMED = 5
"""Partitions that a sentence names before it says how many more there are."""


def find(seen: Snapshot, settings: Settings) -> Iterator[Notice]:
    """Say what is wrong."""
    if seen.link.trouble:
        yield Notice("bad", f"Kafka is out of reach, and what is shown is old: {seen.link.trouble}")
    yield from _roles(seen)
    for one in seen.bins:
        yield from _consumer(one, seen.capacity)
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
        if seen.link.heard or not seen.link.trouble:
            yield Notice("warn", "The monitor has published no speeds yet: is it running?")
    elif seen.speeds_stale:
        yield Notice(
            "bad",
            f"The monitor has been silent for {words.age(seen.speeds_age)}: "
            "the speeds shown are old.",
        )
    if seen.controller_age is None:
        if seen.speeds or seen.bins:
            yield Notice("warn", "The controller has decided nothing yet: is it running?")
    elif seen.controller_stale:
        yield Notice(
            "warn",
            f"The controller has said nothing for {words.age(seen.controller_age)}.",
        )


def _consumer(one: Bin, capacity: float) -> Iterator[Notice]:
    name = f"Consumer {one.consumer}"
    if one.condition == "lost":
        yield Notice("bad", f"{name} is lost: silent for {words.age(one.silence)}.")
    elif one.condition == "silent":
        yield Notice("bad", f"{name} has been silent for {words.age(one.silence)}.")
    elif one.condition == "waiting":
        yield Notice("warn", f"{name} waits for {one.waiting_for.capitalize()}.")
    if one.trouble:
        yield Notice("warn", f"{name}: {one.trouble}")
    if len(one.blocks) > 1 and one.load > capacity:
        yield Notice("warn", f"{name} has {words.share(one.load, capacity)} of its capacity C.")


def _named(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
