"""Lines and bars over time as ECharts options, each with a sentence that sums it up. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lagless.dashboard import bins, colours, text
from lagless.dashboard.bins import Option
from lagless.dashboard.colours import Theme
from lagless.dashboard.observations import Lag, Sample
from lagless.dashboard.snapshot import Snapshot
from lagless.model import TopicPartition

LAYERS = 40
"""Partitions that are drawn as a layer of their own; the slower ones share a layer."""
AWAY = 60.0
"""Seconds without a heartbeat after which a line breaks."""
SHOWN = 30
"""Number of reassignments that are drawn."""
_TIP = {
    "trigger": "axis",
    ":valueFormatter": "(value) => value == null ? '–' : Number(value).toLocaleString('en', {maximumSignificantDigits: 3})",  # noqa: E501
}


def speeds(snapshot: Snapshot, theme: Theme, animate: bool = True) -> Option:
    """Return the speeds of all partitions, stacked, so that the top is the total."""
    largest = max((sum(moment.speeds.values()) for moment in snapshot.moments), default=0.0)
    unit, factor = text.scale(max(largest, snapshot.capacity))
    paint = colours.of_partitions([*snapshot.speeds, *snapshot.held])
    by_size = sorted(snapshot.speeds, key=lambda partition: -snapshot.speeds[partition])

    def layer(name: str, colour: str, members: Iterable[TopicPartition]) -> Option:
        points = [
            [_time(moment.at), _round(sum(moment.speeds.get(p, 0.0) for p in members) / factor)]
            for moment in snapshot.moments
        ]
        area = {"lineStyle": {"width": 0}, "areaStyle": {"color": colour, "opacity": 0.9}}
        return _line(name, colour, points, stack="speed", emphasis={"focus": "series"}, **area)

    layers = [layer(str(p), paint[p], [p]) for p in sorted(by_size[:LAYERS])]
    if rest := set(by_size[LAYERS:]):
        layers.append(layer(f"{len(rest)} others", theme.muted, rest))
    option = _lines(unit, layers, theme, animate)
    option["tooltip"]["order"] = "valueDesc"
    return option


def speeds_caption(snapshot: Snapshot) -> str:
    """Return a sentence on the speeds."""
    if not snapshot.moments:
        return "No measurements yet."
    sums = [sum(moment.speeds.values()) for moment in snapshot.moments]
    sentence = f"Bytes written per second, stacked by partition: {text.rate(sums[-1])} now"
    if len(sums) == 1:
        return f"{sentence}."
    span = text.age(snapshot.moments[-1].at - snapshot.moments[0].at)
    return (
        f"{sentence}, between {text.rate(min(sums))} and {text.rate(max(sums))} "
        f"over the last {span}."
    )


def consumers(snapshot: Snapshot, theme: Theme, animate: bool = True) -> Option:
    """Return the number of consumers, and how many plain Kafka assignment would need."""

    def line(
        name: str, colour: str, kind: str, value: Callable[[Sample], float], **more: Any
    ) -> Option:
        points = [[_time(moment.at), value(moment)] for moment in snapshot.moments]
        stroke = {"color": colour, "width": 2, "type": kind}
        label = {"show": True, "formatter": "{@[1]}", "color": colour, "fontSize": 12}
        options = {"step": "end", "endLabel": label, "lineStyle": stroke} | more
        return _line(name, colour, points, **options)

    filled = {"color": theme.accent, "opacity": 0.12}
    plain = {"step": False, "endLabel": {"show": False}}
    counted = line("lagless", theme.accent, "solid", lambda at: at.consumers, areaStyle=filled)
    series = [
        counted,
        line("plain Kafka", theme.warn, "dashed", lambda at: at.plain_kafka),
        line("Σs/C, lower bound", theme.muted, "dotted", lambda at: _round(at.bound), **plain),
    ]
    if not snapshot.capacity:  # the others are relative to C
        series = [counted]
    option = _lines("", series, theme, animate)
    option["legend"] = _legend(theme)
    option["grid"] |= {"top": 44, "right": 34}
    option["yAxis"]["minInterval"] = 1
    return option


def consumers_caption(snapshot: Snapshot) -> str:
    """Return a sentence on the number of consumers."""
    if not snapshot.moments:
        return "No measurements yet."
    now = len(snapshot.bins)
    if not snapshot.capacity:
        return f"{text.count(now, 'consumer')} now. What one can read is not known yet."
    more = f" ({snapshot.plain_kafka - now} more)" if snapshot.plain_kafka > now else ""
    return (
        f"{text.count(now, 'consumer')} now. Assigning partitions by count, as Kafka does, would "
        f"need {snapshot.plain_kafka}{more} to keep every consumer within C."
    )


def lags(snapshot: Snapshot, theme: Theme, animate: bool = True) -> Option:
    """Return the lag of each consumer, in seconds."""
    lines = [
        _line(f"consumer {n}", colour, _broken(lags), lineStyle={"color": colour, "width": 1.5})
        for n, lags in snapshot.lags.items()
        for colour in [theme.lines[(n - 1) % len(theme.lines)]]
    ]
    option = _lines("seconds", lines, theme, animate)
    names = {"type": "scroll", "data": [f"consumer {bin_.consumer}" for bin_ in snapshot.bins]}
    arrows = {"pageIconColor": theme.accent, "pageIconInactiveColor": theme.line}
    option["legend"] = _legend(theme, 10, 10) | names | arrows
    option["legend"]["pageTextStyle"] = {"color": theme.muted}
    option["grid"]["top"] = 60
    option["yAxis"]["min"] = 0
    return option


def lags_caption(snapshot: Snapshot) -> str:
    """Return a sentence on the lags."""
    if not snapshot.bins:
        return "No consumers yet."
    known = [
        (bin_.lag_seconds, bin_.consumer) for bin_ in snapshot.bins if bin_.lag_seconds is not None
    ]
    if not known:
        return "How old the oldest unread record of these consumers is, is not known."
    seconds, worst = max(known)
    return (
        f"Age of the oldest unread record of each consumer: at most "
        f"{text.duration(seconds)}, on consumer {worst}."
    )


def reassignments(snapshot: Snapshot, theme: Theme, animate: bool = True) -> Option:
    """Return the Rscore and the migrations of each reassignment, one chart above the other."""
    shown = snapshot.reassignments[-SHOWN:]
    panes = (
        ("Rscore", [round(move.rscore or 0.0, 4) for move in shown], theme.accent, "11%"),
        ("migrations", [move.migrations for move in shown], theme.good, "60%"),
    )
    option: Option = {key: [] for key in ("grid", "xAxis", "yAxis", "series")}
    option |= bins.frame(theme, animate, _TIP)
    option["axisPointer"] = {"link": [{"xAxisIndex": "all"}]}
    for pane, (name, values, colour, top) in enumerate(panes):
        option["grid"].append({"left": 44, "right": 12, "top": top, "height": "28%"})
        names = bins.categories([str(move.generation) for move in shown], theme)
        names["axisLabel"] = {"show": pane == 1, "color": theme.muted, "fontSize": 11}
        option["xAxis"].append(names | {"gridIndex": pane})
        scale = bins.scale(name, theme)
        scale["nameTextStyle"]["padding"] = [0, 0, 0, -30]
        option["yAxis"].append(
            scale | {"gridIndex": pane, "splitNumber": 3, "minInterval": pane, "nameGap": 14}
        )
        bar = {"type": "bar", "xAxisIndex": pane, "yAxisIndex": pane, "barMaxWidth": 18}
        style = {"color": colour, "borderRadius": [2, 2, 0, 0]}
        option["series"].append(bar | {"name": name, "itemStyle": style, "data": values})
    return option


def reassignments_caption(snapshot: Snapshot) -> str:
    """Return a sentence on the cost of reassignments."""
    if not snapshot.reassignments:
        return "No reassignments yet."
    last = snapshot.reassignments[-1]
    cost = "" if last.rscore is None else f" (Rscore {last.rscore:.2f}: the speed moved, over C)"
    return (
        f"{text.count(len(snapshot.reassignments), 'reassignment')}. The last one moved "
        f"{text.count(last.migrations, 'partition')}{cost}."
    )


def _lines(unit: str, series: list[Option], theme: Theme, animate: bool) -> Option:
    return bins.frame(theme, animate, _TIP) | {
        "animationDurationUpdate": 300 if animate else 0,
        "grid": {"left": 8, "right": 14, "top": 34, "bottom": 6, "containLabel": True},
        "xAxis": {
            "type": "time",
            "axisLine": {"lineStyle": {"color": theme.muted}},
            "axisLabel": {"color": theme.muted, "fontSize": 11, "hideOverlap": True},
            "splitLine": {"show": False},
        },
        "yAxis": bins.scale(unit, theme) | {"splitNumber": 4},
        "series": series,
    }


def _line(name: str, colour: str, points: Sequence[Sequence[float | None]], **more: Any) -> Option:
    line = {"type": "line", "name": name, "symbol": "none", "data": points}
    return line | {"itemStyle": {"color": colour}} | more


def _legend(theme: Theme, width: int = 14, height: int = 3) -> Option:
    marks = {"icon": "roundRect", "itemWidth": width, "itemHeight": height}
    return marks | {"top": 0, "left": 0, "textStyle": {"color": theme.text, "fontSize": 12}}


def _broken(lags: Sequence[Lag]) -> list[list[float | None]]:
    """Return the points of a line that breaks where its consumer was away."""
    points: list[list[float | None]] = []
    for index, lag in enumerate(lags):
        if index and lag.at - lags[index - 1].at > AWAY:
            points.append([_time(lag.at) - 1, None])
        points.append([_time(lag.at), _round(lag.seconds)])
    return points


def _time(at: float) -> int:
    """Return milliseconds, the unit of time in ECharts."""
    return round(at * 1000)


def _round(value: float) -> float:
    """Return four significant digits: more cannot be seen, and every digit is sent."""
    return float(f"{value:.4g}")
