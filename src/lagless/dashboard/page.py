"""The page, as one person sees it: built once, then kept up to date from snapshots."""

from collections.abc import Callable

from nicegui import events, ui

from lagless.dashboard import bins, captions, charts, colours, tables, words
from lagless.dashboard.desk import Desk
from lagless.dashboard.panels import Figure, Markup, Pill, Text, Tile, panel
from lagless.dashboard.panels import words as text
from lagless.dashboard.questions import Questions
from lagless.dashboard.snapshot import Snapshot

_EYES = """
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const tell = () => emitEvent("eyes", {
    dark: dark.matches, still: still.matches,
    chosen: localStorage.getItem("lagless-theme") || "auto",
    offset: -60 * new Date().getTimezoneOffset()
  });
  dark.addEventListener("change", tell);
  still.addEventListener("change", tell);
  tell();
})();
"""
_CHOICES = {"auto": None, "light": False, "dark": True}
_ICONS = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}


class Page:
    """One person's page."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._dark = False
        self._moving = True
        self._choice = "auto"
        self._offset = 0.0
        self._ready = False
        self._build()
        ui.on("eyes", self._eyes)
        ui.run_javascript(_EYES)
        ui.timer(1.0, self.show)
        self.show()

    def _eyes(self, event: events.GenericEventArguments) -> None:
        """Learn how this person sees: light or dark, with or without motion, and where."""
        chosen = str(event.args.get("chosen"))
        self._choice = chosen if chosen in _CHOICES else "auto"
        self._system_dark = bool(event.args.get("dark"))
        self._moving = not event.args.get("still")
        self._offset = float(event.args.get("offset") or 0)
        self._ready = True
        self._paint()

    def _paint(self) -> None:
        value = _CHOICES[self._choice]
        self._mode.value = value
        self._dark = self._system_dark if value is None else value
        self._button.props(f'icon={_ICONS[self._choice]} aria-label="Theme: {self._choice}"')
        self.show()

    def _next_theme(self) -> None:
        names = list(_CHOICES)
        self._choice = names[(names.index(self._choice) + 1) % len(names)]
        ui.run_javascript(f'localStorage.setItem("lagless-theme", "{self._choice}")')
        self._paint()

    def _build(self) -> None:
        self._mode = ui.dark_mode(None)
        self._system_dark = False
        with ui.element("header").classes("top"):
            with ui.element("div").classes("brand"):
                text("h1", "lagless")
                text("span", self._desk.settings.group).classes("who")
            with ui.element("div").classes("pills").props('role=group aria-label="Connections"'):
                self._kafka = Pill("Kafka")
                self._monitor = Pill("Monitor")
                self._controller = Pill("Controller")
            self._button = ui.button(on_click=self._next_theme, color=None).props(
                'flat round dense icon=brightness_auto aria-label="Theme: auto"'
            )
        with ui.element("div").classes("content") as main:
            self._notices = Markup(classes="notices", props="role=status aria-live=polite")
            self._tiles()
            with ui.element("div").classes("board"):
                self._group()
                self._state()
                self._lines()
                self._log_and_questions()
        with ui.element("footer").classes("foot"):
            text("p", "This page only reads: it cannot change the group.")
        ui.skip_link("Skip to the group", target=main)

    def _tiles(self) -> None:
        with ui.element("dl").classes("tiles"):
            self._count = Tile("Consumers")
            self._plain = Tile("Plain Kafka would need")
            self._speed = Tile("Written")
            self._lag = Tile("Largest lag")
            self._last = Tile("Last reassignment")

    def _group(self) -> None:
        with panel("Consumers and their partitions", "group", "height is speed"):
            self._legend = Markup(classes="legend")
            self._nothing = Text("p", "nothing")
            self._bins = Figure("bins", 380, width=64)

    def _state(self) -> None:
        with ui.element("div").classes("side"):
            with panel("Controller", "controller"):
                self._machine = Markup()
                self._why = Text("p", "caption")
            with panel("Response times", "timings"):
                self._timings = Markup()

    def _lines(self) -> None:
        with panel("Speeds", "speeds"):
            self._speeds = Figure("speeds", 240)
        with panel("Consumers over time", "counts"):
            self._counts = Figure("counts", 240)
        with panel("Lag", "lag"):
            self._lags = Figure("lag", 240)
        with panel("Reassignments", "moves"):
            self._moves = Figure("moves", 240)
        with panel("Each consumer", "each"):
            self._each = Markup(
                classes="scroll", props='tabindex=0 role=region aria-label="Each consumer"'
            )

    def _log_and_questions(self) -> None:
        with panel("Events", "log", "what the controller did, and why"):
            self._log = Markup(
                classes="scroll tall", props='tabindex=0 role=log aria-label="Events"'
            )
        with panel("What if", "whatif", "tried on the speeds of now; nothing is changed"):
            self._questions = Questions(self._desk)

    def show(self) -> None:
        """Show the newest snapshot; only what differs is sent."""
        seen = self._desk.snapshot
        theme = colours.DARK if self._dark else colours.LIGHT
        self._show_head(seen)
        columns = len(seen.bins) + bool(seen.unassigned)
        figures: tuple[tuple[Figure, bins.Option, str, Callable[[], str]], ...] = (
            (
                self._bins,
                bins.option(seen, theme, self._moving),
                captions.bins(seen),
                lambda: tables.partitions(seen),
            ),
            (
                self._speeds,
                charts.speeds(seen, theme, self._moving),
                captions.speeds(seen),
                lambda: tables.speeds(seen, self._offset),
            ),
            (
                self._counts,
                charts.consumers(seen, theme, self._moving),
                captions.consumers(seen),
                lambda: tables.counts(seen, self._offset),
            ),
            (
                self._lags,
                charts.lags(seen, theme, self._moving),
                captions.lags(seen),
                lambda: tables.consumers(seen),
            ),
            (
                self._moves,
                charts.reassignments(seen, theme, self._moving),
                captions.reassignments(seen),
                lambda: tables.reassignments(seen, self._offset),
            ),
        )
        there = {self._bins: columns, self._moves: len(seen.reassignments)}
        for figure, option, caption, table in figures:
            empty = not there.get(figure, len(seen.moments))
            figure.show(option, caption, table, columns, empty)
        self._legend.show(tables.legend(seen))
        self._each.show(tables.consumers(seen))
        self._timings.show(tables.timings(seen.timings))
        since = words.age(seen.phase_age) if seen.phase_age is not None else ""
        self._machine.show(tables.machine(seen.phase, f"for {since}" if since else ""))
        self._why.show(captions.phase(seen))
        self._log.show(tables.log(seen, self._offset))
        self._questions.follow(seen)

    def _show_head(self, seen: Snapshot) -> None:
        self._kafka.show(*captions.link(seen))
        self._monitor.show(*captions.monitor(seen))
        self._controller.show(*captions.controller(seen))
        self._notices.show(tables.notices(seen))
        self._count.show(*captions.count(seen))
        self._plain.show(*captions.plain(seen))
        self._speed.show(*captions.written(seen))
        self._lag.show(*captions.lag(seen))
        self._last.show(*captions.last(seen))
        self._nothing.show(captions.nothing(seen))
