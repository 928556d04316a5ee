"""Draw the paper's diagrams of this system when the docs are built."""

from dataclasses import dataclass, field
from html import escape

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from lagless.controller import machine
from lagless.model import Phase

STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1b1b1b; }
text.small { font-size: 12px; fill: #555; }
rect { fill: #e6f2f1; stroke: #00695c; stroke-width: 1.5; }
rect.plain { fill: #fff8e6; stroke: #b26a00; }
rect.area { fill: none; stroke: #999; stroke-dasharray: 5 4; }
path { stroke: #333; stroke-width: 1.5; fill: none; marker-end: url(#tip); }
marker path { fill: #555; stroke: none; marker-end: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #eee; } text.small { fill: #bbb; } path { stroke: #ccc; }
  rect { fill: #12403b; stroke: #4db6ac; } rect.plain { fill: #4a3510; stroke: #ffb74d; }
  marker path { fill: #ccc; }
}
"""


@dataclass
class Drawing:
    """An SVG picture of boxes and arrows."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, w: int, h: int, text: str, kind: str = "") -> None:
        """Draw a box with lines of text in its middle."""
        lines = text.split("\n")
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="6"/>')
        for number, line in enumerate(lines):
            at = y + h / 2 + 5 + 17 * (number - (len(lines) - 1) / 2)
            small = ' class="small"' if number else ""
            self.parts.append(
                f'<text{small} x="{x + w / 2}" y="{at}" text-anchor="middle">{escape(line)}</text>'
            )

    def area(self, x: int, y: int, w: int, h: int, text: str) -> None:
        """Draw a dashed frame with a name at its upper left corner."""
        self.parts.append(f'<rect class="area" x="{x}" y="{y}" width="{w}" height="{h}" rx="8"/>')
        self.note(x + 8, y + 16, text)

    def arrow(self, points: str, text: str = "", x: int = 0, y: int = 0) -> None:
        """Draw an arrow along points, and its text at a place."""
        self.parts.append(f'<path d="M {points}"/>')
        if text:
            self.note(x, y, text)

    def note(self, x: int, y: int, text: str) -> None:
        """Write small text."""
        self.parts.append(f'<text class="small" x="{x}" y="{y}">{escape(text)}</text>')

    def svg(self) -> str:
        """Return the picture."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" '
            f'role="img" aria-label="{escape(self.title)}"><title>{escape(self.title)}</title>'
            f"<style>{STYLE}</style>"
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M 0 0 L 10 5 L 0 10 z"/></marker></defs>'
            + "".join(self.parts)
            + "</svg>\n"
        )


def domains() -> Drawing:
    """Draw who produces and who consumes."""
    d = Drawing(760, 300, "Production and consumption domains around the broker")
    d.area(10, 10, 190, 280, "Production")
    d.area(230, 10, 260, 280, "Kafka: partitions, each with its speed")
    d.area(520, 10, 230, 280, "Consumption: one group")
    for number in range(3):
        d.box(30, 50 + 80 * number, 150, 44, f"producer {number + 1}")
    for number, (speed, consumer) in enumerate([(90, 0), (40, 1), (30, 1), (70, 2)]):
        y = 40 + 60 * number
        d.box(260, y, 60 + speed, 40, f"p{number}\n{speed} kB/s", "plain")
        d.arrow(f"{320 + speed} {y + 20} L 545 {72 + 80 * consumer}")
        d.arrow(f"180 {72 + 80 * min(number, 2)} L 258 {y + 20}")
    for number, load in enumerate([90, 70, 70]):
        d.box(548, 50 + 80 * number, 180, 44, f"consumer {number + 1}\n{load} of C = 100 kB/s")
    return d


def architecture() -> Drawing:
    """Draw the roles and the topics between them."""
    d = Drawing(860, 400, "The three roles, the topics between them, and the way of the data")
    d.box(20, 30, 150, 56, "Kafka's logs\nyour topics", "plain")
    d.box(20, 300, 150, 56, "Delta lake\na table per topic", "plain")
    d.box(240, 30, 150, 56, "monitor\nbytes/s per partition")
    d.box(460, 30, 170, 56, "monitor.writeSpeed\ntopic", "plain")
    d.box(690, 30, 150, 56, "controller\npacks, orders")
    d.box(690, 165, 150, 56, "provisioner\nprocesses, Kubernetes")
    d.box(460, 165, 170, 56, "consumer.metadata\ntopic: 0, 1, 2, … N", "plain")
    d.box(240, 165, 150, 56, "consumers 1 … N\nfour-phase cycle")
    d.box(240, 300, 150, 56, "Spark\nread, parse, write")
    d.arrow("170 58 L 238 58", "log sizes", 176, 50)
    d.arrow("390 58 L 458 58", "speeds", 402, 50)
    d.arrow("630 58 L 688 58")
    d.arrow("765 86 L 765 163", "create, delete", 772, 128)
    d.arrow("720 86 L 600 163")
    d.arrow("540 163 L 695 80")
    d.arrow("460 180 L 392 180", "orders", 405, 172)
    d.arrow("390 208 L 458 208", "receipts", 402, 224)
    d.arrow("95 86 L 95 193 L 238 193", "records", 104, 140)
    d.arrow("315 221 L 315 298", "frames", 322, 265)
    d.arrow("238 328 L 172 328", "Parquet", 182, 318)
    d.arrow("250 221 L 160 298", "commit: files + offsets", 68, 256)
    d.arrow("690 205 C 600 300, 430 300, 352 223", "starts and stops", 560, 296)
    return d


def cycle() -> Drawing:
    """Draw the consumer's cycle."""
    d = Drawing(860, 230, "The consumer's cycle")
    steps = [
        "1 gather\n5 MB or 1 s",
        "2 read, parse, transform\nSpark, a frame per topic",
        "3 write and commit\nfiles + offsets together",
        "4 offsets and orders\nthen persist, then receipts",
    ]
    for number, text in enumerate(steps):
        d.box(10 + 214 * number, 40, 194, 64, text)
        if number < 3:
            d.arrow(f"{204 + 214 * number} 72 L {223 + 214 * number} 72")
    d.arrow("749 104 L 749 170 L 107 170 L 107 106", "again, until retired", 370, 162)
    d.note(10, 215, "A crash anywhere: the table's own log says where to go on. See Exactly once.")
    return d


def response() -> Drawing:
    """Draw the sequence of response events."""
    d = Drawing(860, 180, "Sequence of response events, Δt1 to Δt4")
    marks = [
        (40, "speed changes"),
        (250, "monitor shows it"),
        (410, "creation requested"),
        (590, "consumers ready"),
        (790, "last receipt"),
    ]
    d.arrow("20 120 L 845 120")
    for x, text in marks:
        d.parts.append(f'<path style="marker-end:none" d="M {x} 105 L {x} 135"/>')
        d.note(x - 25, 158, text)
    names = [
        "Δt1: window of the monitor",
        "Δt2: pack, decide",
        "Δt3: start consumers",
        "Δt4: stop, start, receipts",
    ]
    for (left, _), (right, _), name in zip(marks, marks[1:], names, strict=False):
        d.arrow(f"{left + 4} 80 L {right - 4} 80")
        d.note(left + 8, 70, name)
    return d


PLACES = {
    Phase.SYNCHRONIZE: (20, 40),
    Phase.SENTINEL: (20, 270),
    Phase.REASSIGN: (560, 270),
    Phase.MANAGEMENT: (560, 460),
}
"""Where each phase of the controller is drawn."""
ROUTES = {
    (Phase.SYNCHRONIZE, Phase.SENTINEL): ("80 96 L 80 268", 90, 180),
    (Phase.SENTINEL, Phase.REASSIGN): ("190 286 L 558 286", 310, 155),
    (Phase.REASSIGN, Phase.SENTINEL): ("560 312 L 192 312", 310, 330),
    (Phase.REASSIGN, Phase.MANAGEMENT): ("600 326 L 600 458", 480, 395),
    (Phase.MANAGEMENT, Phase.REASSIGN): ("690 460 L 690 328", 700, 370),
    (Phase.MANAGEMENT, Phase.SENTINEL): ("560 480 L 150 480 L 150 328", 250, 472),
    (Phase.SYNCHRONIZE, Phase.SYNCHRONIZE): ("190 52 C 245 40, 245 95, 192 84", 244, 72),
    (Phase.SENTINEL, Phase.SYNCHRONIZE): ("45 270 L 45 98", 0, 0),
    (Phase.MANAGEMENT, Phase.SYNCHRONIZE): ("560 505 L 8 505 L 8 68 L 18 68", 0, 0),
}
"""The way of the arrow between two phases, and where its causes are written, if not elsewhere."""


def phases() -> Drawing:
    """Draw the controller's phases from its table; a way without a route is an error."""
    d = Drawing(860, 550, "The controller's phases, and what leads from one to the next")
    ways: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, cause), after in machine.TRANSITIONS.items():
        ways.setdefault((phase, after), []).append(cause.value)
    for phase, (x, y) in PLACES.items():
        d.box(x, y, 170 if x < 100 else 180, 56, phase.value)
    for way, causes in ways.items():
        points, x, y = ROUTES[way]
        d.arrow(points)
        # The causes of the arrows without a place are those of the loop beside Synchronize.
        for number, name in enumerate(causes if x else ()):
            d.note(x, y + 17 * number, name)
    d.arrow("105 8 L 105 38", "start", 114, 22)
    d.note(20, 538, "The arrows back to Synchronize have the cause of the loop beside it.")
    return d


PICTURES = {
    "phases": phases,
    "domains": domains,
    "architecture": architecture,
    "consumer-cycle": cycle,
    "response": response,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures to the docs."""
    for name, draw in PICTURES.items():
        files.append(File.generated(config, f"img/{name}.svg", content=draw().svg()))
    return files
