"""One sentence under each chart, which says what it shows to those who cannot see it. Pure."""

from lagless.dashboard import words
from lagless.dashboard.snapshot import Snapshot


def bins(seen: Snapshot) -> str:
    """Sum up who carries how much."""
    if not seen.bins:
        return "No consumers are there yet."
    fullest = max(seen.bins, key=lambda one: one.load)
    text = (
        f"{words.count(len(seen.bins), 'consumer')} for "
        f"{words.count(len(seen.speeds) or len(seen.held), 'partition')}, "
        f"{words.rate(seen.total)} in all. Consumer {fullest.consumer} is the fullest, "
        f"with {words.share(fullest.load, seen.capacity)} of C."
    )
    if seen.unassigned:
        text += f" {words.count(len(seen.unassigned), 'partition')} without a consumer."
    moving = sum(block.target is not None for one in seen.bins for block in one.blocks)
    return text + (f" {words.count(moving, 'partition')} about to move." if moving else "")


def speeds(seen: Snapshot) -> str:
    """Sum up what is written."""
    if not seen.moments:
        return "Nothing was measured yet."
    sums = [sum(moment.speeds.values()) for moment in seen.moments]
    span = words.duration(seen.moments[-1].at - seen.moments[0].at)
    return (
        f"Bytes written per second, all partitions on one another: {words.rate(sums[-1])} now, "
        f"between {words.rate(min(sums))} and {words.rate(max(sums))} in the last {span}."
    )


def consumers(seen: Snapshot) -> str:
    """Sum up how many consumers there are, and how many plain Kafka would need."""
    if not seen.moments:
        return "Nothing was measured yet."
    now = len(seen.bins)
    saved = seen.plain_kafka - now
    text = (
        f"{words.count(now, 'consumer')} now; dealing partitions out by their number, as Kafka "
        f"does, would need {seen.plain_kafka} to keep everyone within C"
    )
    return text + (f", {saved} more." if saved > 0 else ".")


def lags(seen: Snapshot) -> str:
    """Sum up how far behind consumers are."""
    if not seen.bins:
        return "No consumers are there yet."
    worst = max(seen.bins, key=lambda one: one.lag_seconds)
    return (
        f"Age of the oldest record that is not read yet, per consumer: at most "
        f"{words.duration(worst.lag_seconds)}, at consumer {worst.consumer}."
    )


def reassignments(seen: Snapshot) -> str:
    """Sum up what reassignments cost."""
    if not seen.reassignments:
        return "Nothing was reassigned yet."
    last = seen.reassignments[-1]
    return (
        f"{words.count(len(seen.reassignments), 'reassignment')}; the last one moved "
        f"{words.count(last.migrations, 'partition')}, which carry {last.rscore:.2f} times "
        "what a consumer may be given."
    )


def phase(seen: Snapshot) -> str:
    """Say why the controller last reassigned."""
    if not seen.phase:
        return (
            "The controller has not said anything yet."
            if seen.controller_age is None
            else "It is there, and has decided nothing in the time that this page looks back on."
        )
    packs = f"Packs with {seen.algorithm}"
    if not seen.reassignments:
        return f"{packs}; nothing was reassigned yet."
    return f"{packs}; last reassigned because: {seen.reassignments[-1].reason}."


State = tuple[str, str]
"""A word or a number, and its level or what stands beside it."""


def link(seen: Snapshot) -> State:
    """Say how the connection to Kafka is."""
    if seen.link.trouble:
        return "out of reach", "bad"
    return ("connected", "good") if seen.link.heard else ("connecting", "warn")


def monitor(seen: Snapshot) -> State:
    """Say how old the speeds are."""
    if seen.speeds_age is None:
        return "not heard yet", "warn"
    text = f"{words.age(seen.speeds_age)} ago"
    return (f"silent, {text}", "bad") if seen.speeds_stale else (text, "good")


def controller(seen: Snapshot) -> State:
    """Say what the controller does."""
    if seen.controller_age is None:
        return "not heard yet", "warn"
    if seen.controller_stale:
        return f"silent, {words.age(seen.controller_age)} ago", "warn"
    return seen.phase or "heard", "good"


def count(seen: Snapshot) -> State:
    """Count the consumers."""
    bad = sum(not one.well for one in seen.bins)
    unready = sum(one.condition != "ready" for one in seen.bins)
    if bad:
        return str(len(seen.bins)), f"{bad} silent or lost"
    if unready:
        return str(len(seen.bins)), f"{unready} not ready"
    return str(len(seen.bins)), "all well" if seen.bins else ""


def plain(seen: Snapshot) -> State:
    """Count the consumers that plain Kafka assignment would need."""
    if not seen.speeds:
        return words.DASH, ""
    saved = seen.plain_kafka - len(seen.bins)
    if not seen.bins or saved == 0:
        return str(seen.plain_kafka), ""
    return str(seen.plain_kafka), f"{abs(saved)} {'more' if saved > 0 else 'fewer'}"


def written(seen: Snapshot) -> State:
    """Sum the speeds up."""
    if not seen.speeds:
        return words.DASH, ""
    return words.rate(seen.total), f"{words.count(len(seen.speeds), 'partition')}"


def lag(seen: Snapshot) -> State:
    """Give the largest lag."""
    if not seen.bins:
        return words.DASH, ""
    if seen.unassigned:
        # Nobody knows how far behind a partition is that nobody reads.
        alone = words.count(len(seen.unassigned), "partition")
        return words.duration(seen.lag), f"and {alone} not read"
    sizes = sum(one.lag_bytes for one in seen.bins)
    if not sizes and (records := sum(one.lag_records for one in seen.bins)):
        return words.duration(seen.lag), f"{words.count(records, 'record')} to read"
    return words.duration(seen.lag), f"{words.size(sizes)} to read"


def last(seen: Snapshot) -> State:
    """Say what the last reassignment cost."""
    if not seen.reassignments:
        return words.DASH, ""
    one = seen.reassignments[-1]
    return (
        words.count(one.migrations, "move"),
        f"Rscore {one.rscore:.2f}, {words.age(seen.now - one.at)} ago",
    )


def nothing(seen: Snapshot) -> str:
    """Say why there is nothing to see; "" if there is."""
    if seen.bins or seen.unassigned:
        return ""
    if seen.link.trouble:
        return "Kafka cannot be reached. The page goes on by itself as soon as it can."
    if seen.empty:
        return "Nothing was heard yet. Start the monitor and the controller, and consumers appear."
    return "There are no consumers."
