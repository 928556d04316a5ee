"""What other targets for the delay would cost: a curve, a sentence and a table. Pure."""

from collections.abc import Iterable, Sequence
from html import escape

from lagless.dashboard import bins, markup, text
from lagless.dashboard.bins import Option
from lagless.dashboard.colours import Theme
from lagless.dashboard.snapshot import Cost, Snapshot

_TIP = """(p) => "<b>a delay of " + p.value[2] + "</b><br>" + p.value[3]"""


def option(snapshot: Snapshot, theme: Theme, animate: bool = True) -> Option:
    """Return the curve: consumers to the right, the delay upwards, a point for each target."""
    points = [_point(costs, theme) for costs in _places(snapshot.costs.rows)]
    label = {
        "show": True,
        "formatter": "{@[2]}",
        "position": "top",
        "color": theme.text,
        "fontSize": 11,
    }
    series = {
        "type": "line",
        "name": "targets",
        "data": points,
        "symbol": "circle",
        "symbolSize": 9,
        "label": label,
        "labelLayout": {"moveOverlap": "shiftY"},
        "lineStyle": {"color": theme.accent, "width": 1.5},
        "itemStyle": {"color": theme.accent},
    }
    across = bins.scale("consumers", theme) | {
        "scale": True,
        "nameLocation": "end",
        "nameTextStyle": {
            "color": theme.muted,
            "align": "right",
            "verticalAlign": "top",
            "padding": [24, 0, 0, 0],
        },
        "axisLine": {"show": True, "lineStyle": {"color": theme.muted}},
        "splitLine": {"show": False},
    }
    up = bins.scale("99 % of the bytes within (s)", theme)
    tip = {"trigger": "item", ":formatter": _TIP}
    return bins.frame(theme, animate, tip) | {
        "grid": {"left": 8, "right": 24, "top": 34, "bottom": 22, "containLabel": True},
        "xAxis": across,
        "yAxis": up | {"min": 0},
        "series": [series],
    }


def _places(costs: Sequence[Cost]) -> Iterable[list[Cost]]:
    """Return the costs from left to right, those that cost the same together."""
    places: dict[tuple[float, float], list[Cost]] = {}
    for cost in costs:
        places.setdefault((round(cost.consumers, 3), round(cost.reached, 3)), []).append(cost)
    return (places[place] for place in sorted(places))


def _point(costs: Sequence[Cost], theme: Theme) -> Option:
    cost, names = costs[0], ", ".join(text.age(cost.delay) for cost in costs)
    shown = (
        f"99 % within {text.duration(cost.reached)}<br>{cost.consumers:.2f} consumers<br>"
        f"{100 * cost.late:.2f} % late"
    )
    colour = theme.warn if any(cost.chosen for cost in costs) else theme.accent
    value = [round(cost.consumers, 3), round(cost.reached, 3), names, shown]
    return {"value": value, "itemStyle": {"color": colour}}


def caption(snapshot: Snapshot) -> str:
    """Return a sentence on what a shorter delay costs."""
    costs = snapshot.costs
    if costs.trouble:
        return costs.trouble
    if not costs.rows:
        return "Appears once enough measurements have arrived."
    short, long = costs.rows[0], costs.rows[-1]
    own = next((cost for cost in costs.rows if cost.chosen), None)
    target = (
        f"The target is {text.age(own.delay)}."
        if own is not None
        else "No target is set; the defaults are those of 20 s."
    )
    return (
        f"The last {text.age(costs.seconds)} of traffic, replayed under each target: "
        f"{text.age(short.delay)} would have taken {short.consumers:.1f} consumers, "
        f"{text.age(long.delay)} {long.consumers:.1f}. {target}"
    )


def table(snapshot: Snapshot) -> str:
    """Return the costs as a table."""
    rows: list[list[markup.Cell]] = []
    for cost in snapshot.costs.rows:
        name = escape(text.age(cost.delay))
        rows.append(
            [
                ("html", f"<mark>{name}</mark>") if cost.chosen else text.age(cost.delay),
                text.duration(cost.reached),
                f"{100 * cost.late:.2f} %",
                f"{cost.consumers:.2f}",
                f"{cost.moves:.0f}",
            ]
        )
    head = ["target", "99 % within", "late bytes", "consumers", "moves/h"]
    return markup.table("What other targets would cost", head, rows)
