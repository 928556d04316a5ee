"""Parts of the page: a panel with a heading, a chart with its sentence and its table."""

from collections.abc import Callable

from nicegui import events, ui
from nicegui.elements.mixins.text_element import TextElement

from lagless.dashboard.bins import Option


def panel(title: str, name: str, hint: str = "") -> ui.element:
    """Open a section with a heading, which a screen reader can jump to."""
    section = ui.element("section").classes(f"panel {name}").props(f'aria-labelledby="h-{name}"')
    with section, ui.element("header"):
        words("h2", title).props(f'id="h-{name}"')
        if hint:
            words("span", hint).classes("hint")
    return section


def words(tag: str, text: str) -> TextElement:
    """Put a text into an element of HTML."""
    return TextElement(tag=tag, text=text)


class Text:
    """A text that is sent only when it changes."""

    def __init__(self, tag: str = "p", classes: str = "") -> None:
        self._label = words(tag, "").classes(classes)

    def props(self, props: str) -> None:
        """Set attributes."""
        self._label.props(props)

    def show(self, text: str) -> None:
        """Show this text."""
        if self._label.text != text:
            self._label.set_text(text)


class Markup:
    """HTML of `tables`, where every text is escaped; sent only when it changes."""

    def __init__(self, tag: str = "div", classes: str = "", props: str = "") -> None:
        self._html = ui.html("", sanitize=False, tag=tag).classes(classes).props(props)

    def show(self, markup: str) -> None:
        """Show this HTML."""
        if self._html.content != markup:
            self._html.set_content(markup)


class Figure:
    """A chart, a sentence that says what it shows, and the same as a table for who asks for it."""

    def __init__(self, name: str, height: int, width: int = 0) -> None:
        self._option: Option = {}
        self._width = width
        self._open = False
        self._table: Callable[[], str] = str
        with ui.element("figure").props(f'aria-labelledby="f-{name}"'):
            self._frame = ui.element("div").classes("frame")
            with self._frame:
                self.chart = ui.echart({"series": []}, renderer="canvas")
                self.chart.classes(f"chart chart-{name}").props("aria-hidden=true")
                self.chart.style(f"height:{height}px")
            self._caption = Text("figcaption", "caption")
            self._caption.props(f'id="f-{name}"')
        with ui.element("details").classes("as-table") as details:
            words("summary", "Show as a table")
            self._markup = Markup(
                classes="scroll", props=f'tabindex=0 role=region aria-label="{name} as a table"'
            )
        details.on("toggle", self._toggled, js_handler="(e) => emit(e.target.open)")

    def show(
        self,
        option: Option,
        caption: str,
        table: Callable[[], str],
        columns: int = 0,
        empty: bool = False,
    ) -> None:
        """Draw, say and, if it is open, list."""
        self._frame.set_visibility(not empty)
        if option != self._option:
            self._option = option
            self.chart.options.clear()
            self.chart.options.update(option)
            self.chart.update()
        self._caption.show(caption)
        self._table = table
        if self._width:
            self.chart.style(f"min-width:{columns * self._width + 90}px")
        if self._open:
            self._markup.show(table())

    def _toggled(self, event: events.GenericEventArguments) -> None:
        self._open = bool(event.args)
        if self._open:
            self._markup.show(self._table())


class Tile:
    """A number with what it means, large."""

    def __init__(self, label: str) -> None:
        with ui.element("div").classes("tile"):
            words("dt", label)
            with ui.element("dd"):
                self._value = Text("span", "value")
                self._sub = Text("span", "sub")

    def show(self, value: str, sub: str = "") -> None:
        """Show the number and what is beside it."""
        self._value.show(value)
        self._sub.show(sub)


class Pill:
    """A state in a word, with a dot whose colour says it too."""

    def __init__(self, label: str) -> None:
        self._level = ""
        with ui.element("span").classes("pill") as self._box:
            words("span", label).classes("what")
            self._text = Text("span", "state")

    def show(self, text: str, level: str) -> None:
        """Show the state; `level` is good, warn, bad or none."""
        self._text.show(text)
        if level != self._level:
            self._box.classes(remove=self._level, add=level)
            self._level = level
