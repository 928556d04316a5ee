"""The bins: consumers side by side, their partitions as blocks, against C and C̄. Pure.

A block is an item of a custom series with the partition as its id: when the partition moves,
ECharts moves the block from one bin to the other.
"""

from typing import Any

from lagless.dashboard import colours, text
from lagless.dashboard.colours import Theme
from lagless.dashboard.snapshot import Bin, Block, Snapshot

Option = dict[str, Any]
UNASSIGNED = "unassigned"
_NUMBERS = ("consumer", "from", "to", "opacity")
_DIMENSIONS = (*_NUMBERS[:3], "partition", "fill", "ink", "opacity", "stroke", "description")
"""The values of a block, in the order in which `_RENDER` takes them; others are text."""

_RENDER = """(params, api) => {
  const band = api.size([1, 0])[0];
  const width = Math.min(band * 0.74, 150);
  const top = api.coord([api.value(0), api.value(2)]);
  const bottom = api.coord([api.value(0), api.value(1)]);
  const height = Math.max(bottom[1] - top[1] - 1, 1);
  const name = String(api.value(3));
  const short = name.slice(name.lastIndexOf(":"));
  const label = height < 14 ? "" : name.length * 6.4 < width ? name : short;
  return {
    type: "rect",
    transition: ["shape", "style"],
    shape: {x: top[0] - width / 2, y: top[1], width: width, height: height, r: 2},
    style: {
      fill: api.value(4),
      opacity: api.value(6),
      stroke: api.value(7) || "transparent",
      lineWidth: api.value(7) ? 2 : 0,
      lineDash: [4, 3]
    },
    textContent: {style: {
      text: label, fill: api.value(5),
      fontSize: 11.5, fontFamily: "Roboto, system-ui, sans-serif"
    }},
    textConfig: {position: "inside"},
    emphasis: {style: {shadowBlur: 8, shadowColor: "rgba(0,0,0,.4)"}}
  };
}"""
_TIP = """(p) => p.seriesType !== "custom" ? "" :
  "<b>" + p.value[3] + "</b><br>" + p.value[8]"""


def option(snapshot: Snapshot, theme: Theme, animate: bool = True) -> Option:
    """Return the chart of the bins; with `animate`, blocks glide when they move."""
    largest = max(
        snapshot.max_rate,
        *(bin_.load for bin_ in snapshot.bins),
        sum(block.speed for block in snapshot.unassigned),
    )
    unit, factor = text.scale(largest)
    columns = [*snapshot.bins, *([None] if snapshot.unassigned else [])]
    paint = colours.of_partitions([*snapshot.speeds, *snapshot.held])
    items = []
    for column, bin_ in enumerate(columns):
        blocks, height = bin_.blocks if bin_ else snapshot.unassigned, 0.0
        for block in sorted(blocks, key=lambda block: (-block.speed, block.partition)):
            bottom, height = height, height + block.speed / factor
            rectangle = [column, round(bottom, 5), round(height, 5)]
            items.append(_block(block, bin_, rectangle, paint[block.partition], theme))
    names = categories([_label(bin_) for bin_ in columns], theme)
    names["axisLabel"] = {
        "color": theme.text,
        "interval": 0,
        "hideOverlap": False,
        "lineHeight": 16,
        "rich": {
            "n": {"color": theme.text, "fontSize": 12, "fontWeight": 600},
            "l": {"color": theme.muted, "fontSize": 11},
            "bad": {"color": theme.bad, "fontSize": 11, "fontWeight": 600},
            "warn": {"color": theme.warn, "fontSize": 11, "fontWeight": 600},
        },
    }
    heights = scale(unit, theme) | {
        "max": round(1.08 * largest / factor, 4),
        "axisLabel": {"color": theme.muted, "showMaxLabel": False},
    }
    return frame(theme, animate, {"trigger": "item", ":formatter": _TIP}) | {
        "animationDurationUpdate": 900 if animate else 0,
        "animationEasingUpdate": "cubicInOut",
        "grid": {"left": 8, "right": 76, "top": 34, "bottom": 8, "containLabel": True},
        "xAxis": names,
        "yAxis": heights,
        "series": [
            _outlines(
                len(snapshot.bins) if snapshot.capacity else 0, snapshot.capacity / factor, theme
            ),
            {
                "type": "custom",
                "name": "partitions",
                ":renderItem": _RENDER,
                "dimensions": [
                    name if name in _NUMBERS else {"name": name, "type": "ordinal"}
                    for name in _DIMENSIONS
                ],
                "encode": {"x": "consumer", "y": ["from", "to"]},
                "data": items,
                "z": 3,
            },
            _limits(snapshot, factor, theme),
        ],
    }


def frame(theme: Theme, animate: bool, tooltip: Option) -> Option:
    """Return what all charts have in common: motion, font and the look of tooltips."""
    look = {
        "confine": True,
        "backgroundColor": theme.surface,
        "borderColor": theme.line,
        "textStyle": {"color": theme.text, "fontSize": 12},
    }
    font = {"fontFamily": "Roboto, system-ui, sans-serif"}
    return {"animation": animate, "textStyle": font, "tooltip": look | tooltip}


def categories(names: list[str], theme: Theme) -> Option:
    """Return a horizontal axis with these names."""
    return {
        "type": "category",
        "data": names,
        "axisTick": {"show": False},
        "axisLine": {"lineStyle": {"color": theme.muted}},
    }


def scale(name: str, theme: Theme) -> Option:
    """Return a vertical axis of numbers."""
    return {
        "type": "value",
        "name": name,
        "nameTextStyle": {"color": theme.muted, "align": "left"},
        "axisLabel": {"color": theme.muted, "fontSize": 11},
        "splitLine": {"lineStyle": {"color": theme.line}},
    }


def caption(snapshot: Snapshot) -> str:
    """Return a sentence on the load of the consumers."""
    if not snapshot.bins:
        return "No consumers yet."
    fullest = max(snapshot.bins, key=lambda bin_: bin_.load)
    partitions = len(snapshot.speeds) or len(snapshot.held)
    share = f"{text.share(fullest.load, snapshot.capacity)} of C"
    fullness = share if snapshot.capacity else text.rate(fullest.load)
    sentence = (
        f"{text.count(len(snapshot.bins), 'consumer')} for {text.count(partitions, 'partition')}, "
        f"{text.rate(snapshot.total)} in total. Consumer {fullest.consumer} is the fullest, "
        f"at {fullness}."
    )
    if snapshot.unassigned:
        sentence += f" Partitions without a consumer: {len(snapshot.unassigned)}."
    moving = sum(block.target is not None for bin_ in snapshot.bins for block in bin_.blocks)
    return sentence + (f" Partitions about to move: {moving}." if moving else "")


def _label(bin_: Bin | None) -> str:
    if bin_ is None:
        return f"{{bad|{UNASSIGNED}}}"
    name = f"{{n|{bin_.name[:12] or bin_.consumer}}}"
    if bin_.condition == "ready":
        return f"{name}\n{{l|{text.rate(bin_.load)}}}"
    if not bin_.well:
        return f"{name}\n{{bad|{bin_.condition} {text.age(bin_.silence)}}}"
    if bin_.condition == "waiting":
        return f"{name}\n{{warn|waits for {bin_.waiting_for}}}"
    style = "l" if bin_.fine else "warn"
    return f"{name}\n{{{style}|{bin_.condition}}}"


def _block(
    block: Block, bin_: Bin | None, rectangle: list[float], fill: str, theme: Theme
) -> Option:
    """Return a block with what `_RENDER` draws; `rectangle` is its column, bottom and top."""
    name = str(block.partition)
    faded = block.stale or (bin_ is not None and not bin_.well)
    ink, opacity = (theme.text, 0.45) if faded else (colours.on(fill), 1)
    stroke = theme.bad if bin_ is None else theme.text if block.target is not None else ""
    value = [*rectangle, name, fill, ink, opacity, stroke, describe(block)]
    return {"name": name, "id": name, "value": value}


def describe(block: Block) -> str:
    """Return a block's speed and what is special about it."""
    parts = [text.rate(block.speed) if block.measured else "not measured yet"]
    if block.stale:
        parts.append("an old measurement")
    if block.backlog:
        parts.append(f"{text.size(block.backlog)} unread")
    if block.target is not None:
        parts.append(f"moving to consumer {block.target}")
    return ", ".join(parts)


def _outlines(count: int, capacity: float, theme: Theme) -> Option:
    """Return the outline of each bin, as high as C."""
    bar = {"type": "bar", "name": "capacity", "barWidth": "74%", "barMaxWidth": 150}
    data = {"data": [round(capacity, 5)] * count, "silent": True, "animation": False, "z": 1}
    border = {"borderColor": theme.line, "borderWidth": 1, "borderRadius": [3, 3, 0, 0]}
    return bar | data | {"itemStyle": {"color": theme.ground} | border}


def _limits(snapshot: Snapshot, factor: float, theme: Theme) -> Option:
    lines = (
        ("C̄", snapshot.max_rate, theme.bad, "solid"),
        ("C", snapshot.capacity, theme.accent, "dashed"),
    )
    marks = [
        {
            "name": name,
            "yAxis": round(value / factor, 5),
            "lineStyle": {"color": colour, "type": kind, "width": 1.5},
            "label": {
                "formatter": f"{name}\n{text.rate(value)}",
                "color": colour,
                "position": "end",
                "fontSize": 11,
                "lineHeight": 13,
            },
        }
        for name, value, colour, kind in lines
        if value > 0
    ]
    return {
        "type": "line",
        "name": "limits",
        "data": [],
        "markLine": {"symbol": "none", "silent": True, "animation": False, "data": marks},
        "z": 4,
    }
