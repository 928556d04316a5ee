"""Parts of the page: panels, charts with caption and table, tiles, and the what-if form."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

from nicegui import events, ui
from nicegui.elements.mixins.text_element import TextElement

from lagless.dashboard import markup, text, whatif
from lagless.dashboard.bins import Option
from lagless.dashboard.colours import Theme
from lagless.dashboard.snapshot import Snapshot
from lagless.dashboard.view import Feed

Update = Callable[[Snapshot], object]
"""Brings a part of the page up to date; NiceGUI sends only what has changed to the browser."""
T = TypeVar("T")


def panel(title: str, name: str, hint: str = "") -> ui.element:
    """Return a section with a heading, which a screen reader can jump to."""
    section = ui.element("section").classes(f"panel {name}").props(f'aria-labelledby="h-{name}"')
    with section, ui.element("header"):
        element("h2", title).props(f'id="h-{name}"')
        if hint:
            element("span", hint).classes("hint")
    return section


def element(tag: str, content: str = "") -> TextElement:
    """Return an HTML element that holds a text."""
    return TextElement(tag=tag, text=content)


def html(content: Callable[[Snapshot], str], classes: str = "", props: str = "") -> Update:
    """Add HTML from `markup`, which escapes every text."""
    box = ui.html("", sanitize=False).classes(classes).props(props)
    return lambda snapshot: box.set_content(content(snapshot))


def sentence(content: Callable[[Snapshot], str], classes: str) -> Update:
    """Add a paragraph."""
    paragraph = element("p").classes(classes)
    return lambda snapshot: paragraph.set_text(content(snapshot))


def tile(label: str, state: Callable[[Snapshot], text.State]) -> Update:
    """Add a key figure, large, with a remark."""
    with ui.element("div").classes("tile"):
        element("dt", label)
        with ui.element("dd"):
            value, remark = element("span").classes("value"), element("span").classes("sub")

    def update(snapshot: Snapshot) -> None:
        value.text, remark.text = state(snapshot)

    return update


def pill(label: str, state: Callable[[Snapshot], text.State]) -> Update:
    """Add the state of a role, with a dot in the colour of its level: good, warn or bad."""
    with ui.element("span").classes("pill") as box:
        element("span", label).classes("what")
        shown = element("span").classes("state")

    def update(snapshot: Snapshot) -> None:
        shown.text, level = state(snapshot)
        box.classes(remove="good warn bad", add=level)

    return update


class Figure:
    """A chart, a sentence that says what it shows, and its numbers as a table on request."""

    def __init__(
        self,
        name: str,
        draw: Callable[[Snapshot, Theme, bool], Option],
        caption: Callable[[Snapshot], str],
        table: Callable[[Snapshot], str],
        height: int = 240,
        opened: bool = False,
    ) -> None:
        self._draw, self._describe, self._tabulate = draw, caption, table
        self._open = opened
        self._rows: Callable[[], str] = str
        with ui.element("figure").props(f'aria-labelledby="f-{name}"'):
            self._frame = ui.element("div").classes("frame")
            with self._frame:
                self.chart = ui.echart({"series": []}, renderer="canvas")
                self.chart.classes(f"chart chart-{name}").props("aria-hidden=true")
                self.chart.style(f"height:{height}px")
            self._caption = element("figcaption").classes("caption").props(f'id="f-{name}"')
        with ui.element("details").classes("as-table").props("open" * opened) as details:
            element("summary", "Show as table")
            self._table = ui.html("", sanitize=False).classes("scroll")
            self._table.props(f'tabindex=0 role=region aria-label="{name} as a table"')
        details.on("toggle", self._toggle, js_handler="(e) => emit(e.target.open)")

    def show(self, snapshot: Snapshot, theme: Theme, animate: bool, visible: bool) -> None:
        """Show caption, chart (if `visible`) and table (if open)."""
        self._frame.set_visibility(visible)
        option = self._draw(snapshot, theme, animate)
        if option != self.chart.options:
            self.chart.options.clear()
            self.chart.options.update(option)
            self.chart.update()
        self._caption.text = self._describe(snapshot)
        self._rows = partial(self._tabulate, snapshot)
        self._fill()

    def _toggle(self, event: events.GenericEventArguments) -> None:
        self._open = bool(event.args)
        self._fill()

    def _fill(self) -> None:
        if self._open:
            self._table.content = self._rows()


class WhatIf:
    """Fields for algorithm, slack and capacity, and what they would do with the current speeds."""

    def __init__(self, feed: Feed) -> None:
        settings = feed.settings
        self._snapshot = feed.snapshot
        self._question: object = None
        unit, self._factor = text.scale(settings.capacity)
        names = whatif.algorithms()
        chosen = settings.controller.algorithm.partition(":")[0]
        value = chosen if chosen in names else names[0]
        with ui.element("div").classes("fields"):
            self._algorithm = ui.select(names, label="Algorithm", value=value, on_change=self._ask)
            self._algorithm.props("outlined dense options-dense")
            self._slack = ui.number(
                "Slack", value=settings.controller.slack, min=0, max=1, step=0.05,
                on_change=self._ask,
            ).props("outlined dense")  # fmt: skip
            self._capacity = ui.number(
                f"Capacity C in {unit}",
                value=round(settings.capacity / self._factor, 3),
                min=0.001, step=round(settings.capacity / self._factor / 10, 3) or 0.001,
                on_change=self._ask,
            ).props("outlined dense")  # fmt: skip
        self._answer = element("p").classes("answer").props("role=status aria-live=polite")
        self._all = ui.html("", sanitize=False).classes("scroll")

    def show(self, snapshot: Snapshot) -> None:
        """Compute the answers again if speeds or assignment have changed."""
        before, self._snapshot = self._snapshot, snapshot
        changed = (snapshot.speeds, snapshot.held) != (before.speeds, before.held)
        if changed or self._question is None:
            ui.timer(0, self._ask, once=True)

    async def _ask(self) -> None:
        snapshot = self._snapshot
        capacity = (self._capacity.value or 0) * self._factor
        slack = self._slack.value or 0.0
        self._slack.set_enabled(whatif.takes_slack(self._algorithm.value))
        if not snapshot.speeds:
            self._answer.text = "No speeds have been measured yet."
            return
        if not capacity > 0:
            self._answer.text = "The capacity must be greater than 0."
            return
        first, chosen = self._question is None, self._algorithm.value
        self._question = question = object()
        if first:
            self._answer.text = (
                f"Computing {chosen} … On first use it is compiled, which can take a minute."
            )
        ask = partial(whatif.ask, snapshot.speeds, capacity, snapshot.held, slack=slack)
        answer = await _in_thread(lambda: ask(chosen))
        if question is not self._question:
            return  # the fields have changed meanwhile
        self._answer.text = _sentence(answer, len(snapshot.bins))
        answers = await _in_thread(
            lambda: [answer if name == chosen else ask(name) for name in whatif.algorithms()]
        )
        if question is self._question:
            self._all.content = markup.answers(answers, len(snapshot.bins), chosen)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run the work in a daemon thread, which does not delay the end of the process.

    The first packing compiles its kernels, too long to wait for after Ctrl-C.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            report = partial(done.set_result, work())
        except Exception as error:
            report = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if done.done() else report())

    Thread(target=run, name="what if", daemon=True).start()
    return await done


def _sentence(answer: whatif.Answer, now: int) -> str:
    if answer.trouble:
        return f"{answer.algorithm}: {answer.trouble}"
    more = answer.consumers - now
    change = f"{abs(more)} {'more' if more > 0 else 'fewer'} than now" if more else "as many as now"
    sentence = (
        f"{answer.algorithm} would use {text.count(answer.consumers, 'consumer')} ({change}) "
        f"and move {text.count(answer.migrations, 'partition')} (Rscore {answer.rscore:.2f})."
    )
    if answer.oversize:
        sentence += f" Partitions faster than C: {len(answer.oversize)}."
    return sentence
