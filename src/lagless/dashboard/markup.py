"""Tables and lists as HTML, among them the numbers behind each chart. Pure.

Every text is escaped here, since error messages and topic names come from outside.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from html import escape

from lagless.dashboard import bins, colours, text
from lagless.dashboard.snapshot import Bin, Block, Snapshot, Timing
from lagless.dashboard.whatif import Answer
from lagless.model import Phase

Cell = str | int | tuple[str, str]
"""Text, a number, or a pair of "html" and HTML that is already escaped."""


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table; the first cell of each row is its heading."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{_cell(first)}</th>'
        + "".join(f"<td>{_cell(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<table><caption class="unseen">{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(cell: Cell) -> str:
    return cell[1] if isinstance(cell, tuple) else escape(str(cell))


def partitions(snapshot: Snapshot) -> str:
    """Return the partitions with their consumers."""
    paint = colours.of_partitions([*snapshot.speeds, *snapshot.held])

    def row(block: Block, consumer: int | str) -> list[Cell]:
        name = ("html", _dot(paint[block.partition], str(block.partition)))
        return [name, consumer, bins.describe(block)]

    rows = [row(block, bin_.consumer) for bin_ in snapshot.bins for block in bin_.blocks]
    rows += [row(block, bins.UNASSIGNED) for block in snapshot.unassigned]
    return table("Partitions and their consumers", ["partition", "consumer", "speed"], rows)


def consumers(snapshot: Snapshot) -> str:
    """Return the consumers with state, load and lag."""
    return table(
        "State, load and lag of each consumer",
        ["consumer", "state", "load / C", "partitions", "reads", "lag", "unread", "last message"],
        [_consumer(bin_, snapshot.capacity) for bin_ in snapshot.bins],
    )


def _consumer(bin_: Bin, capacity: float) -> list[Cell]:
    grade = "bad" if not bin_.well else "good" if bin_.fine else "warn"
    over = " over" if 0 < capacity < bin_.load else ""
    width = min(100.0, 100 * bin_.load / capacity) if capacity else 0
    meter = (
        f'<span class="meter{over}" aria-hidden="true"><i style="width:{width:.0f}%"></i></span>'
        f"{text.share(bin_.load, capacity)}"
    )
    return [
        f"{bin_.consumer}: {bin_.name}" if bin_.name else bin_.consumer,
        _tag(grade, bin_.condition),
        ("html", meter),
        len(bin_.blocks),
        text.DASH if bin_.bytes_per_second is None else text.rate(bin_.bytes_per_second),
        text.duration(bin_.lag_seconds),
        text.backlog(bin_.lag_bytes, bin_.lag_records),
        f"{text.age(bin_.silence)} ago",
    ]


def speeds(snapshot: Snapshot, offset: float = 0) -> str:
    """Return the speeds over time: the total and the fastest partition."""
    rows = []
    for moment in reversed(snapshot.moments):
        total = text.rate(sum(moment.speeds.values()))
        fastest = max(moment.speeds, key=lambda p: moment.speeds[p], default=None)
        top = f"{fastest}, {text.rate(moment.speeds[fastest])}" if fastest else text.DASH
        rows.append([clock(moment.at, offset), total, top])
    return table("Speeds over time", ["time", "total", "fastest partition"], rows)


def counts(snapshot: Snapshot, offset: float = 0) -> str:
    """Return the number of consumers over time."""
    rows: list[list[Cell]] = [
        [
            clock(moment.at, offset),
            moment.consumers,
            moment.plain_kafka or text.DASH,
            f"{moment.bound:.1f}" if moment.bound else text.DASH,
        ]
        for moment in reversed(snapshot.moments)
    ]
    return table("Consumers over time", ["time", "lagless", "plain Kafka", "Σs/C"], rows)


def reassignments(snapshot: Snapshot, offset: float = 0) -> str:
    """Return the reassignments, newest first."""
    rows: list[list[Cell]] = [
        [
            move.generation,
            clock(move.at, offset),
            move.reason,
            move.consumers,
            move.migrations,
            text.DASH if move.rscore is None else f"{move.rscore:.2f}",
            *map(text.duration, (move.dt2, move.dt3, move.dt4)),
        ]
        for move in reversed(snapshot.reassignments)
    ]
    head = ["generation", "time", "reason", "consumers", "migrations", "Rscore"]
    return table("Reassignments", [*head, "Δt2", "Δt3", "Δt4"], rows)


def log(snapshot: Snapshot, offset: float = 0, lines: int = 100) -> str:
    """Return what the controller did and why, newest first."""
    rows = [
        [clock(line.at, offset), _tag(line.level, line.what), line.why]
        for line in reversed(snapshot.lines[-lines:])
    ]
    return table("Event log", ["time", "event", "reason"], rows)


def legend(snapshot: Snapshot) -> str:
    """Return the topics with their hues."""
    hues = colours.of_topics([*snapshot.speeds, *snapshot.held])
    return "".join(f"<span>{_dot(hue, topic)}</span>" for topic, hue in hues.items())


def _dot(colour: str, name: str) -> str:
    return f'<i class="dot" style="background:{colour}"></i>{escape(name)}'


def _tag(level: str, word: str) -> Cell:
    return "html", f'<span class="tag {level}">{escape(word)}</span>'


def answers(results: Sequence[Answer], now: int, chosen: str = "") -> str:
    """Return what each algorithm would do; `now` is the present number of consumers."""
    rows: list[list[Cell]] = []
    for answer in results:
        name: Cell = answer.algorithm
        if name == chosen:
            name = ("html", f"<mark>{escape(chosen)}</mark>")
        if answer.trouble:
            rows.append([name, text.DASH, text.DASH, text.DASH])
            continue
        difference = answer.consumers - now
        sign = f" ({difference:+d})".replace("-", "−") if difference else ""
        consumers = f"{answer.consumers}{sign}"
        rows.append([name, consumers, answer.migrations, f"{answer.rscore:.2f}"])
    return table("What if", ["algorithm", "consumers", "moves", "Rscore"], rows)


def notices(snapshot: Snapshot) -> str:
    """Return what is wrong."""
    return "".join(
        f'<p class="notice {notice.level}">{escape(notice.text)}</p>' for notice in snapshot.notices
    )


def timings(times: Sequence[Timing]) -> str:
    """Return Δt1 … Δt4 in the order in which they pass."""
    cards = "".join(
        f'<li title="{escape(timing.meaning)}"><span class="name">{escape(timing.name)}</span>'
        f'<span class="value">{text.duration(timing.last)}</span>'
        f'<span class="sub">{_median(timing)}</span>'
        f'<span class="unseen">{escape(timing.meaning)}</span></li>'
        for timing in times
    )
    return f'<ol class="timings">{cards}</ol>'


def _median(timing: Timing) -> str:
    if not timing.count:
        return "no data yet"
    median = text.duration(timing.median).replace(" ", "&nbsp;")
    return f"median {median}<br>{text.count(timing.count, 'sample')}"


def machine(phase: str, since: str) -> str:
    """Return the controller's state machine with the current phase highlighted."""
    boxes = {
        Phase.SYNCHRONIZE: (10, 14, "queries consumers"),
        Phase.SENTINEL: (190, 14, "watches speeds"),
        Phase.REASSIGN: (190, 124, "packs partitions"),
        Phase.MANAGEMENT: (10, 124, "moves partitions"),
    }
    drawn = []
    for name, (x, y, action) in boxes.items():
        here = name == phase
        note = since if here and since else action
        drawn.append(
            f'<g class="phase{" here" if here else ""}">'
            f'<rect x="{x}" y="{y}" width="140" height="56" rx="9"/>'
            f'<text x="{x + 70}" y="{y + 25}">{name}</text>'
            f'<text class="sub" x="{x + 70}" y="{y + 43}">{escape(note)}</text></g>'
        )
    arrows = (
        "M150 42 H184",
        "M275 70 V118",
        "M190 152 H156",
        "M110 124 C110 96 190 104 222 76",
        "M60 124 V76",
    )
    paths = "".join(f'<path d="{d}" marker-end="url(#tip)"/>' for d in arrows)
    label = f"The controller is in {phase}" if phase else "The controller's phase is not known"
    return (
        f'<svg class="machine" viewBox="0 0 340 194" role="img" aria-label="{escape(label)}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
        f'<g class="arrows">{paths}</g>{"".join(drawn)}</svg>'
    )


def clock(at: float, offset: float = 0) -> str:
    """Return the time of day in the zone `offset` seconds ahead of UTC."""
    zone = timezone(timedelta(seconds=offset))
    return datetime.fromtimestamp(at, zone).strftime("%H:%M:%S")
