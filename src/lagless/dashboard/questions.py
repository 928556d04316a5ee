"""The what-if panel: other settings tried on the speeds of now. Nothing is changed by it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

from nicegui import ui

from lagless.dashboard import tables, whatif, words
from lagless.dashboard.desk import Desk
from lagless.dashboard.panels import Markup, Text
from lagless.dashboard.snapshot import Snapshot

T = TypeVar("T")


class Questions:
    """Fields for algorithm, slack and capacity, and what they would give."""

    def __init__(self, desk: Desk) -> None:
        settings = desk.settings
        self._seen = desk.snapshot
        self._asked: object = None
        unit, self._factor = words.scale(settings.capacity)
        names = whatif.algorithms()
        chosen = settings.controller.algorithm.partition(":")[0]
        with ui.element("div").classes("fields"):
            self._algorithm = ui.select(
                names,
                label="Algorithm",
                value=chosen if chosen in names else names[0],
                on_change=self._ask,
            ).props("outlined dense options-dense")
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
        self._answer = Text("p", "answer")
        self._answer.props("role=status aria-live=polite")
        self._all = Markup(classes="scroll")

    def follow(self, seen: Snapshot) -> None:
        """Ask again when there are other speeds or another assignment."""
        before = self._seen
        self._seen = seen
        if (seen.speeds, seen.held) != (before.speeds, before.held) or self._asked is None:
            ui.timer(0, self._ask, once=True)

    async def _ask(self) -> None:
        seen = self._seen
        capacity = (self._capacity.value or 0) * self._factor
        slack = self._slack.value or 0.0
        self._slack.set_enabled(whatif.takes_slack(self._algorithm.value))
        if not seen.speeds:
            self._answer.show("There are no speeds to try it on yet.")
            return
        if not capacity > 0:
            self._answer.show("The capacity should be more than 0.")
            return
        first, chosen = self._asked is None, self._algorithm.value
        self._asked = asked = object()
        if first:
            self._answer.show(
                f"Trying {chosen} … A new machine compiles it first, for up to a minute."
            )
        ask = partial(whatif.ask, seen.speeds, capacity, seen.held, slack=slack)
        answer = await _aside(lambda: ask(chosen))
        if asked is not self._asked:
            return  # somebody typed on meanwhile
        self._answer.show(_sentence(answer, len(seen.bins)))
        found = await _aside(
            lambda: [answer if name == chosen else ask(name) for name in whatif.algorithms()]
        )
        if asked is self._asked:
            self._all.show(tables.answers(found, len(seen.bins), chosen))


async def _aside(work: Callable[[], T]) -> T:
    """Let a thread do the work, one that is not waited for when the process ends.

    The first packing compiles its kernels, which can take longer than anybody waits for Ctrl-C.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def go() -> None:
        try:
            told = partial(done.set_result, work())
        except Exception as error:
            told = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if done.done() else told())

    Thread(target=go, name="what if", daemon=True).start()
    return await done


def _sentence(answer: whatif.Answer, now: int) -> str:
    if answer.trouble:
        return f"{answer.algorithm}: {answer.trouble}"
    more = answer.consumers - now
    change = "as many as now" if not more else f"{abs(more)} {'more' if more > 0 else 'fewer'}"
    text = (
        f"{answer.algorithm} would give {words.count(answer.consumers, 'consumer')}, {change}, and "
        f"move {words.count(answer.migrations, 'partition')} (Rscore {answer.rscore:.2f})."
    )
    if answer.oversize:
        text += f" {words.count(len(answer.oversize), 'partition')} would be faster than C."
    return text
