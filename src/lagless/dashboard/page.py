"""The page as one visitor sees it: built once, then kept up to date from snapshots."""

from collections.abc import Callable

from nicegui import events, ui

from lagless.dashboard import bins, charts, colours, markup, target_costs, text
from lagless.dashboard.panels import Figure, WhatIf, element, html, panel, pill, sentence, tile
from lagless.dashboard.snapshot import Snapshot
from lagless.dashboard.view import Feed

_PREFERENCES = """
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const send = () => emitEvent("preferences", {
    dark: dark.matches, still: still.matches,
    chosen: localStorage.getItem("lagless-theme") || "auto",
    offset: -60 * new Date().getTimezoneOffset()
  });
  dark.addEventListener("change", send);
  still.addEventListener("change", send);
  send();
})();
"""
_CHOICES = {"auto": None, "light": False, "dark": True}
_ICONS = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}


class Page:
    """The page of one visitor."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._system_dark = False
        self._dark = False
        self._animate = True
        self._choice = "auto"
        self._offset = 0.0
        self._build()
        ui.on("preferences", self._prefer)
        ui.run_javascript(_PREFERENCES)
        ui.timer(1.0, self.show)
        self.show()

    def _prefer(self, event: events.GenericEventArguments) -> None:
        """Take the visitor's preferences: light or dark, with or without motion, time zone."""
        chosen = str(event.args.get("chosen"))
        self._choice = chosen if chosen in _CHOICES else "auto"
        self._system_dark = bool(event.args.get("dark"))
        self._animate = not event.args.get("still")
        self._offset = float(event.args.get("offset") or 0)
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
        with ui.element("header").classes("top"):
            with ui.element("div").classes("brand"):
                element("h1", "lagless")
                element("span", self._feed.settings.group).classes("who")
            with ui.element("div").classes("pills").props('role=group aria-label="Connections"'):
                self._updates = [
                    pill("Kafka", text.kafka),
                    pill("Monitor", text.monitor),
                    pill("Controller", text.controller),
                ]
            self._button = ui.button(on_click=self._next_theme, color=None).props(
                'flat round dense icon=brightness_auto aria-label="Theme: auto"'
            )
        with ui.element("div").classes("content") as main:
            self._updates += [html(markup.notices, "notices", "role=status aria-live=polite")]
            with ui.element("dl").classes("tiles"):
                self._updates += [
                    tile("Consumers", text.consumers),
                    tile("Plain Kafka would need", text.plain_kafka),
                    tile("Write speed", text.write_speed),
                    tile("Largest lag", text.lag),
                    tile("Last reassignment", text.last_reassignment),
                ]
            with ui.element("div").classes("board"):
                self._board()
        with ui.element("footer").classes("foot"):
            element("p", "This page is read-only: it cannot change the group.")
            ui.link("Groups of this cluster", f"{self._feed.settings.dashboard.path}/groups")
        ui.skip_link("Skip to the group", target=main)

    def _board(self) -> None:
        with panel("Consumers and their partitions", "group", "block height: write speed"):
            self._updates += [html(markup.legend, "legend"), sentence(text.nothing, "nothing")]
            self._bins = Figure("bins", bins.option, bins.caption, markup.partitions, height=380)
        with ui.element("div").classes("side"):
            with panel("Controller", "controller"):
                self._updates += [html(_machine), sentence(text.cause, "caption")]
            with panel("Response times", "timings"):
                self._updates.append(html(lambda snapshot: markup.timings(snapshot.timings)))
        with panel("Write speed over time", "speeds"):
            table = self._timed(markup.speeds)
            speeds = Figure("speeds", charts.speeds, charts.speeds_caption, table)
        with panel("Consumers over time", "counts"):
            table = self._timed(markup.counts)
            counts = Figure("counts", charts.consumers, charts.consumers_caption, table)
        with panel("Lag over time", "lag"):
            lags = Figure("lag", charts.lags, charts.lags_caption, markup.consumers)
        with panel("Reassignments", "moves"):
            table = self._timed(markup.reassignments)
            moves = Figure("moves", charts.reassignments, charts.reassignments_caption, table)
        self._figures = (self._bins, speeds, counts, lags, moves)
        with panel("Consumers in detail", "each"):
            props = 'tabindex=0 role=region aria-label="Consumers in detail"'
            self._updates.append(html(markup.consumers, "scroll", props))
        with panel("Events", "log", "what the controller did, and why"):
            props = 'tabindex=0 role=log aria-label="Events"'
            self._updates.append(html(self._timed(markup.log), "scroll tall", props))
        with panel("What if", "whatif", "computed from the current speeds; changes nothing"):
            self._updates.append(WhatIf(self._feed).show)
        hint = "recent traffic replayed under each; changes nothing"
        with panel("Delay against consumers", "targets", hint):
            draw, told, rows = target_costs.option, target_costs.caption, target_costs.table
            self._costs = Figure("targets", draw, told, rows, opened=True)

    def _timed(self, table: Callable[[Snapshot, float], str]) -> Callable[[Snapshot], str]:
        """Return a table whose times are in the visitor's zone."""
        return lambda snapshot: table(snapshot, self._offset)

    def show(self) -> None:
        """Show the newest snapshot."""
        self._feed.visit()
        snapshot = self._feed.snapshot
        theme = colours.DARK if self._dark else colours.LIGHT
        for update in self._updates:
            update(snapshot)
        columns = len(snapshot.bins) + bool(snapshot.unassigned)
        line = len(snapshot.moments) > 1
        visible = (columns > 0, line, line, line, bool(snapshot.reassignments))
        for figure, shown in zip(self._figures, visible, strict=True):
            figure.show(snapshot, theme, self._animate, shown)
        self._costs.show(snapshot, theme, self._animate, bool(snapshot.costs.rows))
        # A screen that is too narrow for the bins scrolls them.
        self._bins.chart.style(f"min-width:{columns * 64 + 90}px")


def _machine(snapshot: Snapshot) -> str:
    age = snapshot.phase_age
    return markup.machine(snapshot.phase, "" if age is None else f"for {text.age(age)}")
