"""Tables and lists as HTML: what charts show, for those who do not see them. Pure.

Every text is escaped here, since troubles and topic names come from outside.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from html import escape

from lagless.dashboard import bins, colours, words
from lagless.dashboard.decisions import PHASES, Timing
from lagless.dashboard.snapshot import Bin, Block, Snapshot
from lagless.dashboard.whatif import Answer

Cell = str | tuple[str, str]
"""Text, or HTML that is already escaped under the word "html"."""


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Write a table; the first cell of each row is its heading."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>"
        + f'<th scope="row">{_cell(row[0])}</th>'
        + "".join(f"<td>{_cell(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<table><caption class="unseen">{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(cell: Cell) -> str:
    return cell[1] if isinstance(cell, tuple) else escape(cell)


def partitions(seen: Snapshot) -> str:
    """List who reads what."""
    paint = colours.of_partitions([*seen.speeds, *seen.held])

    def row(block: Block, reader: str) -> list[Cell]:
        dot = f'<i class="dot" style="background:{paint[block.partition]}"></i>'
        name = ("html", f"{dot}{escape(str(block.partition))}")
        return [name, reader, bins.told(block)]

    rows = [row(block, str(one.consumer)) for one in seen.bins for block in one.blocks]
    rows += [row(block, bins.NOBODY) for block in seen.unassigned]
    return table("Partitions and who reads them", ["partition", "consumer", "speed"], rows)


def consumers(seen: Snapshot) -> str:
    """List the consumers and how they do."""
    return table(
        "Consumers and how they do",
        ["consumer", "state", "load of C", "partitions", "reads", "lag", "to read", "heard"],
        [_consumer(one, seen.capacity) for one in seen.bins],
    )


def _consumer(one: Bin, capacity: float) -> list[Cell]:
    grade = "bad" if not one.well else "good" if one.condition == "ready" else "warn"
    over = " over" if one.load > capacity else ""
    width = min(100.0, 100 * one.load / capacity) if capacity else 0
    meter = (
        f'<span class="meter{over}" aria-hidden="true"><i style="width:{width:.0f}%"></i></span>'
        f"{words.share(one.load, capacity)}"
    )
    return [
        str(one.consumer),
        ("html", f'<span class="tag {grade}">{escape(one.condition)}</span>'),
        ("html", meter),
        str(len(one.blocks)),
        words.rate(one.bytes_per_second),
        words.duration(one.lag_seconds),
        words.waiting(one.lag_bytes, one.lag_records),
        f"{words.age(one.silence)} ago",
    ]


def speeds(seen: Snapshot, offset: float = 0) -> str:
    """List the speeds over time, all together and the fastest one."""
    rows = []
    for moment in reversed(seen.moments):
        total = words.rate(sum(moment.speeds.values()))
        fastest = max(moment.speeds, key=lambda p: moment.speeds[p], default=None)
        words_ = f"{fastest}, {words.rate(moment.speeds[fastest])}" if fastest else words.DASH
        rows.append([clock(moment.at, offset), total, words_])
    return table("Speeds over time", ["time", "all partitions", "fastest"], rows)


def counts(seen: Snapshot, offset: float = 0) -> str:
    """List the consumers over time."""
    rows = [
        [
            clock(moment.at, offset),
            str(moment.consumers),
            str(moment.plain_kafka),
            f"{moment.bound:.1f}",
        ]
        for moment in reversed(seen.moments)
    ]
    return table("Consumers over time", ["time", "lagless", "plain Kafka", "Σs/C"], rows)


def reassignments(seen: Snapshot, offset: float = 0) -> str:
    """List the reassignments, the newest first."""
    rows = [
        [
            str(one.generation),
            clock(one.at, offset),
            one.reason,
            str(one.consumers),
            str(one.migrations),
            f"{one.rscore:.2f}",
            words.duration(one.dt2),
            words.duration(one.dt3),
            words.duration(one.dt4),
        ]
        for one in reversed(seen.reassignments)
    ]
    head = [
        "generation",
        "time",
        "reason",
        "consumers",
        "migrations",
        "Rscore",
        "Δt2",
        "Δt3",
        "Δt4",
    ]
    return table("Reassignments", head, rows)


def log(seen: Snapshot, offset: float = 0, lines: int = 100) -> str:
    """List what the controller did and why, the newest first."""
    rows: list[list[Cell]] = [
        [
            clock(line.at, offset),
            ("html", f'<span class="tag {line.level}">{escape(line.what)}</span>'),
            line.why,
        ]
        for line in reversed(seen.lines[-lines:])
    ]
    return table("Event log", ["time", "event", "reason"], rows)


def legend(seen: Snapshot) -> str:
    """Name the topics with their hues."""
    hues = colours.of_topics([*seen.speeds, *seen.held])
    return "".join(
        f'<span><i class="dot" style="background:{hue}"></i>{escape(topic)}</span>'
        for topic, hue in hues.items()
    )


def answers(found: Sequence[Answer], now: int, chosen: str = "") -> str:
    """List what the algorithms would give."""
    rows: list[list[Cell]] = []
    for answer in found:
        name: Cell = answer.algorithm
        if name == chosen:
            name = ("html", f"<mark>{escape(chosen)}</mark>")
        if answer.trouble:
            rows.append([name, words.DASH, words.DASH, words.DASH])
            continue
        difference = answer.consumers - now
        sign = f" ({difference:+d})".replace("-", "−") if difference else ""
        rows.append(
            [
                name,
                f"{answer.consumers}{sign}",
                str(answer.migrations),
                f"{answer.rscore:.2f}",
            ]
        )
    return table("What if", ["algorithm", "consumers", "moves", "Rscore"], rows)


def notices(seen: Snapshot) -> str:
    """List what is not as it should be."""
    return "".join(
        f'<p class="notice {notice.level}">{escape(notice.text)}</p>' for notice in seen.notices
    )


def timings(times: Sequence[Timing]) -> str:
    """Write Δt1 … Δt4 in the order in which they pass."""
    cards = "".join(
        f'<li title="{escape(one.meaning)}"><span class="name">{escape(one.name)}</span>'
        f'<span class="value">{words.duration(one.last)}</span>'
        f'<span class="sub">{_usual(one)}</span>'
        f'<span class="unseen">{escape(one.meaning)}</span></li>'
        for one in times
    )
    return f'<ol class="timings">{cards}</ol>'


def _usual(one: Timing) -> str:
    if not one.count:
        return "not seen yet"
    return f"median {words.duration(one.median)}<br>{words.count(one.count, 'time')}"


def machine(phase: str, since: str) -> str:
    """Draw the controller's state machine with the phase that it is in."""
    boxes = {
        PHASES[0]: (10, 14, "asks everyone"),
        PHASES[1]: (190, 14, "watches"),
        PHASES[2]: (190, 124, "packs"),
        PHASES[3]: (10, 124, "moves"),
    }
    drawn = []
    for name, (x, y, does) in boxes.items():
        here = name == phase
        note = since if here and since else does
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
    told = f"The controller is in {phase}" if phase else "The controller's phase is not known"
    return (
        f'<svg class="machine" viewBox="0 0 340 194" role="img" aria-label="{escape(told)}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
        f'<g class="arrows">{paths}</g>{"".join(drawn)}</svg>'
    )


def clock(at: float, offset: float = 0) -> str:
    """Write a time of day, `offset` seconds east of Greenwich."""
    zone = timezone(timedelta(seconds=offset))
    return datetime.fromtimestamp(at, zone).strftime("%H:%M:%S")
