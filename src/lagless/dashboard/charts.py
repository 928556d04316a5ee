"""Lines and bars over time, as ECharts takes them. Pure."""

from collections.abc import Sequence
from typing import Any

from lagless.dashboard import colours, words
from lagless.dashboard.colours import Theme
from lagless.dashboard.snapshot import Snapshot
from lagless.dashboard.story import Lag

Option = dict[str, Any]
LAYERS = 40
"""Partitions that speeds over time are drawn for one by one; the rest is drawn as one."""
AWAY = 60.0
"""Seconds without a word after which a line breaks."""
SHOWN = 30
"""Reassignments that are drawn."""
_NUMBER = "(value) => value == null ? '–' : Number(value).toLocaleString('en', {maximumSignificantDigits: 3})"  # noqa: E501


def speeds(seen: Snapshot, theme: Theme, moving: bool = True) -> Option:
    """Draw the speeds of all partitions on one another, so that the top is their sum."""
    largest = max((sum(moment.speeds.values()) for moment in seen.moments), default=0.0)
    unit, factor = words.scale(max(largest, seen.capacity))
    paint = colours.of_partitions([*seen.speeds, *seen.held])
    by_size = sorted(seen.speeds, key=lambda partition: -seen.speeds[partition])
    shown = sorted(by_size[:LAYERS])
    rest = set(by_size[LAYERS:])

    def layer(name: str, colour: str, points: list[list[float | None]]) -> Option:
        return {
            "type": "line",
            "name": name,
            "stack": "speed",
            "symbol": "none",
            "lineStyle": {"width": 0},
            "areaStyle": {"color": colour, "opacity": 0.9},
            "itemStyle": {"color": colour},
            "emphasis": {"focus": "series"},
            "data": points,
        }

    layers = [
        layer(
            str(partition),
            paint[partition],
            [
                [_time(moment.at), _round(moment.speeds.get(partition, 0.0) / factor)]
                for moment in seen.moments
            ],
        )
        for partition in shown
    ]
    if rest:
        points: list[list[float | None]] = [
            [
                _time(moment.at),
                _round(sum(moment.speeds.get(partition, 0.0) for partition in rest) / factor),
            ]
            for moment in seen.moments
        ]
        layers.append(layer(f"{len(rest)} others", theme.muted, points))
    option = _lines(unit, layers, theme, moving)
    option["tooltip"]["order"] = "valueDesc"
    return option


def consumers(seen: Snapshot, theme: Theme, moving: bool = True) -> Option:
    """Draw how many consumers there are, and how many plain Kafka assignment would need."""

    def line(name: str, colour: str, kind: str, values: list[float], step: bool = True) -> Option:
        return {
            "type": "line",
            "name": name,
            "step": "end" if step else False,
            "symbol": "none",
            "lineStyle": {"color": colour, "width": 2, "type": kind},
            "itemStyle": {"color": colour},
            "endLabel": {"show": True, "formatter": "{@[1]}", "color": colour, "fontSize": 12},
            "data": [
                [_time(moment.at), value]
                for moment, value in zip(seen.moments, values, strict=True)
            ],
        }

    kafka = theme.warn
    option = _lines(
        "consumers",
        [
            line("lagless", theme.accent, "solid", [moment.consumers for moment in seen.moments]),
            line("plain Kafka", kafka, "dashed", [moment.plain_kafka for moment in seen.moments]),
            line(
                "Σs/C, the least",
                theme.muted,
                "dotted",
                [_round(moment.bound) for moment in seen.moments],
                step=False,
            ),
        ],
        theme,
        moving,
    )
    option["series"][2]["endLabel"] = {"show": False}
    option["series"][0]["areaStyle"] = {"color": theme.accent, "opacity": 0.12}
    option["legend"] = _legend(theme)
    option["grid"] |= {"top": 44, "right": 34}
    option["yAxis"] |= {"minInterval": 1, "name": ""}
    return option


def lags(seen: Snapshot, theme: Theme, moving: bool = True) -> Option:
    """Draw how far behind each consumer is, in seconds."""
    names = {one.consumer for one in seen.bins}
    lines = [
        {
            "type": "line",
            "name": f"consumer {consumer}",
            "symbol": "none",
            "lineStyle": {"color": colour, "width": 1.5},
            "itemStyle": {"color": colour},
            "endLabel": {
                "show": consumer in names,
                "formatter": str(consumer),
                "color": theme.text,
                "fontSize": 11,
            },
            "labelLayout": {"moveOverlap": "shiftY"},
            "data": _unbroken(points),
        }
        for consumer, points in seen.lags.items()
        for colour in [theme.lines[(consumer - 1) % len(theme.lines)]]
    ]
    option = _lines("s", lines, theme, moving)
    option["grid"]["right"] = 34
    option["yAxis"]["min"] = 0
    return option


def reassignments(seen: Snapshot, theme: Theme, moving: bool = True) -> Option:
    """Draw the Rscore and the migrations of each reassignment, one over the other."""
    shown = seen.reassignments[-SHOWN:]
    names = [str(one.generation) for one in shown]
    panes = (
        ("Rscore", [round(one.rscore, 4) for one in shown], theme.accent, "11%"),
        ("migrations", [one.migrations for one in shown], theme.good, "60%"),
    )
    return {
        "animation": moving,
        "textStyle": {"fontFamily": "Roboto, system-ui, sans-serif"},
        "grid": [{"left": 44, "right": 12, "top": top, "height": "28%"} for _, _, _, top in panes],
        "tooltip": _tooltip(theme),
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "xAxis": [
            {
                "type": "category",
                "gridIndex": place,
                "data": names,
                "axisTick": {"show": False},
                "axisLine": {"lineStyle": {"color": theme.muted}},
                "axisLabel": {"show": place == 1, "color": theme.muted, "fontSize": 11},
            }
            for place in (0, 1)
        ],
        "yAxis": [
            {
                "type": "value",
                "gridIndex": place,
                "name": name,
                "splitNumber": 3,
                "minInterval": place,
                "nameGap": 8,
                "nameTextStyle": {"color": theme.muted, "align": "left", "padding": [0, 0, 0, -30]},
                "axisLabel": {"color": theme.muted, "fontSize": 11},
                "splitLine": {"lineStyle": {"color": theme.line}},
            }
            for place, (name, _, _, _) in enumerate(panes)
        ],
        "series": [
            {
                "type": "bar",
                "name": name,
                "xAxisIndex": place,
                "yAxisIndex": place,
                "barMaxWidth": 18,
                "itemStyle": {"color": colour, "borderRadius": [2, 2, 0, 0]},
                "data": values,
            }
            for place, (name, values, colour, _) in enumerate(panes)
        ],
    }


def _lines(unit: str, series: list[Option], theme: Theme, moving: bool) -> Option:
    return {
        "animation": moving,
        "animationDurationUpdate": 300 if moving else 0,
        "textStyle": {"fontFamily": "Roboto, system-ui, sans-serif"},
        "grid": {"left": 8, "right": 14, "top": 34, "bottom": 6, "containLabel": True},
        "tooltip": _tooltip(theme),
        "xAxis": {
            "type": "time",
            "axisLine": {"lineStyle": {"color": theme.muted}},
            "axisLabel": {"color": theme.muted, "fontSize": 11, "hideOverlap": True},
            "splitLine": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "name": unit,
            "nameTextStyle": {"color": theme.muted, "align": "right"},
            "axisLabel": {"color": theme.muted, "fontSize": 11},
            "splitLine": {"lineStyle": {"color": theme.line}},
            "splitNumber": 4,
        },
        "series": series,
    }


def _tooltip(theme: Theme) -> Option:
    return {
        "trigger": "axis",
        "confine": True,
        "backgroundColor": theme.surface,
        "borderColor": theme.line,
        "textStyle": {"color": theme.text, "fontSize": 12},
        ":valueFormatter": _NUMBER,
    }


def _legend(theme: Theme) -> Option:
    return {
        "top": 0,
        "left": 0,
        "icon": "roundRect",
        "itemWidth": 14,
        "itemHeight": 3,
        "textStyle": {"color": theme.text, "fontSize": 12},
    }


def _unbroken(lags: Sequence[Lag]) -> list[list[float | None]]:
    """Give the points of a line that breaks where its consumer was away."""
    points: list[list[float | None]] = []
    for place, lag in enumerate(lags):
        if place and lag.at - lags[place - 1].at > AWAY:
            points.append([_time(lag.at) - 1, None])
        points.append([_time(lag.at), _round(lag.seconds)])
    return points


def _time(at: float) -> int:
    """Give milliseconds, as ECharts counts time."""
    return round(at * 1000)


def _round(value: float) -> float:
    """Leave out digits that nobody sees, since every digit travels."""
    return float(f"{value:.4g}")
