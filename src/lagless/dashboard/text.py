"""Text on the page: numbers with units, the state of each role, key figures, notices. Pure.

Screen readers announce notices when they change, so notices hold no numbers that change often.
"""

from collections.abc import Iterator, Sequence

from lagless.dashboard.snapshot import Bin, Notice, Snapshot

DASH = "–"
NAMED = 5
"""Partitions or consumers that a notice names before it counts the rest."""
State = tuple[str, str]
"""The state of a role and its level, or a key figure and the remark beside it."""
_AWAITED = {
    "spark": "Spark",
    "kafka": "Kafka",
    "lake": "the lake",
    "registry": "the schema registry",
}
_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def size(count: float) -> str:
    """Return a number of bytes with three digits: 1.25 MB, 12.5 MB, 125 MB."""
    for unit, factor in _UNITS:
        if abs(count) >= factor:
            number = count / factor
            places = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
            return f"{number:.{places}f} {unit}"
    return f"{count:.0f} B"


def rate(speed: float) -> str:
    """Return bytes per second: 1.25 MB/s."""
    return f"{size(speed)}/s"


def duration(seconds: float | None) -> str:
    """Return a duration: 80 ms, 4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return DASH
    if seconds < 0.0005:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def age(seconds: float) -> str:
    """Return a duration in whole seconds, which suits ages that tick."""
    return duration(round(max(0.0, seconds))).replace(".0 s", " s")


def share(part: float, whole: float) -> str:
    """Return a part as a percentage of the whole."""
    return f"{100 * part / whole:.0f} %" if whole > 0 else DASH


def count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 consumer, 2 consumers."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def backlog(unread: float | None, records: int | None) -> str:
    """Return bytes and records; a consumer that has read nothing yet knows only the records."""
    if unread is None or records is None:
        return DASH if records is None else count(records, "record")
    counted = count(records, "record")
    return counted if records and not unread else f"{size(unread)}, {counted}"


def scale(largest: float) -> tuple[str, float]:
    """Return the unit for an axis with this largest value, and its factor in bytes/s."""
    for unit, factor in _UNITS:
        if largest >= factor:
            return f"{unit}/s", float(factor)
    return "B/s", 1.0


def kafka(snapshot: Snapshot) -> State:
    """Return the state of the connection to Kafka."""
    if snapshot.link.trouble:
        return "unreachable", "bad"
    return ("connected", "good") if snapshot.link.heard else ("connecting", "warn")


def monitor(snapshot: Snapshot) -> State:
    """Return the age of the speeds."""
    if snapshot.speeds_age is None:
        return "no data yet", "warn"
    elapsed = age(snapshot.speeds_age)
    return (f"silent for {elapsed}", "bad") if snapshot.speeds_stale else (f"{elapsed} ago", "good")


def controller(snapshot: Snapshot) -> State:
    """Return the controller's phase."""
    if snapshot.controller_age is None:
        return "no data yet", "warn"
    if snapshot.controller_stale:
        return f"silent for {age(snapshot.controller_age)}", "warn"
    if snapshot.mode != "running":
        return f"{snapshot.mode} by {snapshot.mode_by}", "warn"
    return snapshot.phase or "running", "good"


def consumers(snapshot: Snapshot) -> State:
    """Return the number of consumers, spares apart."""
    spares = sum(bin_.condition == "spare" for bin_ in snapshot.bins)
    number = str(len(snapshot.bins) - spares)
    if bad := sum(not bin_.well for bin_ in snapshot.bins):
        return number, f"{bad} silent or lost"
    if unready := sum(not bin_.fine for bin_ in snapshot.bins):
        return number, f"{unready} not ready"
    healthy = "all healthy" if snapshot.bins else ""
    return number, f"{healthy}, {spares} spare" if spares else healthy


def plain_kafka(snapshot: Snapshot) -> State:
    """Return the number of consumers that plain Kafka assignment would need."""
    if not snapshot.speeds or not snapshot.capacity:
        return DASH, ""
    reading = sum(bin_.condition != "spare" for bin_ in snapshot.bins)
    more = snapshot.plain_kafka - reading
    if not snapshot.bins or more == 0:
        return str(snapshot.plain_kafka), ""
    return str(snapshot.plain_kafka), f"{abs(more)} {'more' if more > 0 else 'fewer'}"


def write_speed(snapshot: Snapshot) -> State:
    """Return the total write speed."""
    if not snapshot.speeds:
        return DASH, ""
    return rate(snapshot.total), count(len(snapshot.speeds), "partition")


def lag(snapshot: Snapshot) -> State:
    """Return the largest lag."""
    if not snapshot.bins:
        return DASH, ""
    known = [bin_.lag_seconds for bin_ in snapshot.bins if bin_.lag_seconds is not None]
    largest = duration(max(known, default=None))
    if snapshot.unassigned:
        # The lag of a partition is known only while a consumer reads it.
        return largest, f"{count(len(snapshot.unassigned), 'partition')} not read"
    unread = sum(bin_.lag_bytes or 0 for bin_ in snapshot.bins)
    records = sum(bin_.lag_records or 0 for bin_ in snapshot.bins)
    amount = count(records, "record") if records and not unread else size(unread)
    return largest, f"{amount} unread"


def last_reassignment(snapshot: Snapshot) -> State:
    """Return the cost of the last reassignment."""
    if not snapshot.reassignments:
        return DASH, ""
    last = snapshot.reassignments[-1]
    elapsed = age(snapshot.now - last.at)
    cost = "" if last.rscore is None else f"Rscore {last.rscore:.2f}, "
    return count(last.migrations, "move"), f"{cost}{elapsed} ago"


def cause(snapshot: Snapshot) -> str:
    """Return the algorithm and why the controller last reassigned."""
    if not snapshot.phase:
        return (
            "The controller has not reported anything yet."
            if snapshot.controller_age is None
            else "The controller is running, but has made no decisions in the period shown."
        )
    algorithm = f"Algorithm: {snapshot.algorithm}."
    if not snapshot.reassignments:
        return f"{algorithm} No reassignments yet."
    return f"{algorithm} Reason for the last reassignment: {snapshot.reassignments[-1].reason}."


def nothing(snapshot: Snapshot) -> str:
    """Return why there is nothing to see; "" if there is."""
    if snapshot.bins or snapshot.unassigned:
        return ""
    if snapshot.link.trouble:
        return "Kafka is unreachable. The page resumes when Kafka is back."
    if snapshot.empty:
        return "No data yet. Start the monitor and the controller, and consumers will appear."
    return "The group has no consumers."


def notices(snapshot: Snapshot) -> Iterator[Notice]:
    """Yield a notice for each problem, the most serious first."""
    if snapshot.link.trouble:
        # Without Kafka everything else is old too, which says nothing about the roles.
        trouble = snapshot.link.trouble
        yield Notice("bad", f"Kafka is unreachable, so everything shown is old: {trouble}")
        return
    yield from _roles(snapshot)
    yield from _consumers(snapshot)
    if snapshot.follows is False:
        yield Notice("note", "The members do not hold yet what was planned.")
    if snapshot.unassigned and snapshot.bins:
        names = _named([str(block.partition) for block in snapshot.unassigned])
        yield Notice("warn", f"No consumer reads {names}.")
    limit = snapshot.capacity or float("inf")
    oversize = [str(name) for name, speed in snapshot.speeds.items() if speed > limit]
    if oversize:
        yield Notice(
            "warn",
            f"Written faster than the capacity C of one consumer: {_named(oversize)}. "
            "Only more partitions help.",
        )


def _roles(snapshot: Snapshot) -> Iterator[Notice]:
    if snapshot.speeds_age is None:
        yield Notice("warn", "The monitor has not published any speeds yet. Is it running?")
    elif snapshot.speeds_stale:
        yield Notice("bad", "The monitor is silent: the speeds shown are old.")
    if snapshot.controller_age is None:
        if snapshot.speeds or snapshot.bins:
            yield Notice("warn", "The controller has not made any decisions yet. Is it running?")
    elif snapshot.controller_stale:
        yield Notice("warn", "The controller is silent: consumers keep their current partitions.")


def _consumers(snapshot: Snapshot) -> Iterator[Notice]:
    for condition in ("lost", "silent"):
        affected = [bin_ for bin_ in snapshot.bins if bin_.condition == condition]
        if affected:
            yield Notice("bad", f"{_subject(affected)} {condition}.")
    for service, name in _AWAITED.items():
        waiting = [
            bin_
            for bin_ in snapshot.bins
            if bin_.condition == "waiting" and bin_.waiting_for == service
        ]
        if waiting:
            yield Notice("warn", f"{_subject(waiting)} waiting for {name}.")
    troubles: dict[str, list[str]] = {}
    for bin_ in snapshot.bins:
        if bin_.trouble:
            troubles.setdefault(bin_.trouble, []).append(str(bin_.consumer))
    for trouble, numbers in troubles.items():
        noun = "Consumer" if len(numbers) == 1 else "Consumers"
        yield Notice("warn", f"{noun} {_named(numbers)}: {trouble}")
    limit = max(snapshot.capacity, snapshot.limit) if snapshot.capacity else float("inf")
    full = [bin_ for bin_ in snapshot.bins if len(bin_.blocks) > 1 and bin_.load > limit]
    if full:
        yield Notice("warn", f"{_subject(full)} above the capacity C.")


def _subject(bins: Sequence[Bin]) -> str:
    """Return the consumers as the subject of a sentence, with its verb."""
    numbers = [str(bin_.consumer) for bin_ in bins]
    if len(numbers) == 1:
        return f"Consumer {numbers[0]} is"
    return f"Consumers {_named(numbers)} are"


def _named(names: list[str]) -> str:
    more = len(names) - NAMED
    if more > 0:
        return ", ".join(names[:NAMED]) + f" and {more} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
