"""The bins: consumers side by side, their partitions as blocks, against C and C̄. Pure.

A block is one item of a custom series, found again by its name: when its partition moves, ECharts
moves the block from one bin to the other.
"""

from typing import Any

from lagless.dashboard import colours, words
from lagless.dashboard.colours import Theme
from lagless.dashboard.snapshot import Bin, Block, Snapshot

Option = dict[str, Any]
NOBODY = "nobody"

_RENDER = """(params, api) => {
  const band = api.size([1, 0])[0];
  const width = Math.min(band * 0.74, 150);
  const top = api.coord([api.value(0), api.value(2)]);
  const bottom = api.coord([api.value(0), api.value(1)]);
  const height = Math.max(bottom[1] - top[1] - 1, 1);
  const name = String(api.value(3));
  const short = name.slice(name.lastIndexOf(":"));
  const text = height < 14 ? "" : name.length * 6.4 < width ? name : short;
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
      text: text, fill: api.value(5), opacity: api.value(6),
      fontSize: 11.5, fontFamily: "Roboto, system-ui, sans-serif"
    }},
    textConfig: {position: "inside"},
    emphasis: {style: {shadowBlur: 8, shadowColor: "rgba(0,0,0,.4)"}}
  };
}"""
_TIP = """(p) => p.seriesType !== "custom" ? "" :
  "<b>" + p.value[3] + "</b><br>" + p.value[8]"""


def option(seen: Snapshot, theme: Theme, moving: bool = True) -> Option:
    """Draw the bins; `moving` says whether blocks glide when they move."""
    largest = max(
        [seen.max_rate, *(one.load for one in seen.bins), sum(b.speed for b in seen.unassigned)]
    )
    unit, factor = words.scale(largest)
    columns: list[tuple[str, tuple[Block, ...], Bin | None]] = [
        (_label(one), one.blocks, one) for one in seen.bins
    ]
    if seen.unassigned:
        columns.append((f"{{bad|{NOBODY}}}", seen.unassigned, None))
    paint = colours.of_partitions([*seen.speeds, *seen.held])
    items = [
        item
        for place, (_, blocks, one) in enumerate(columns)
        for item in _stack(place, blocks, one, factor, paint, theme)
    ]
    return {
        "animation": moving,
        "animationDurationUpdate": 900 if moving else 0,
        "animationEasingUpdate": "cubicInOut",
        "textStyle": {"fontFamily": "Roboto, system-ui, sans-serif"},
        "grid": {"left": 8, "right": 76, "top": 34, "bottom": 8, "containLabel": True},
        "tooltip": {
            "trigger": "item",
            "confine": True,
            "backgroundColor": theme.surface,
            "borderColor": theme.line,
            "textStyle": {"color": theme.text, "fontSize": 12},
            ":formatter": _TIP,
        },
        "xAxis": {
            "type": "category",
            "data": [label for label, _, _ in columns],
            "axisTick": {"show": False},
            "axisLine": {"lineStyle": {"color": theme.muted}},
            "axisLabel": {
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
            },
        },
        "yAxis": {
            "type": "value",
            "name": unit,
            "max": round(1.08 * largest / factor, 4),
            "nameTextStyle": {"color": theme.muted, "align": "right"},
            "axisLabel": {"color": theme.muted, "showMaxLabel": False},
            "splitLine": {"lineStyle": {"color": theme.line}},
        },
        "series": [
            _outlines(len(seen.bins), seen.capacity / factor, theme),
            {
                "type": "custom",
                "name": "partitions",
                ":renderItem": _RENDER,
                "dimensions": [
                    "consumer", "from", "to",
                    {"name": "partition", "type": "ordinal"},
                    {"name": "fill", "type": "ordinal"},
                    {"name": "ink", "type": "ordinal"},
                    "opacity",
                    {"name": "stroke", "type": "ordinal"},
                    {"name": "words", "type": "ordinal"},
                ],
                "encode": {"x": "consumer", "y": ["from", "to"]},
                "data": items,
                "z": 3,
            },
            _limits(seen, factor, theme),
        ],
    }  # fmt: skip


def _label(one: Bin) -> str:
    name = f"{{n|{one.consumer}}}"
    if one.condition == "ready":
        return f"{name}\n{{l|{words.rate(one.load)}}}"
    if not one.well:
        return f"{name}\n{{bad|{one.condition} {words.age(one.silence)}}}"
    if one.condition == "waiting":
        return f"{name}\n{{warn|waits for {one.waiting_for}}}"
    return f"{name}\n{{warn|{one.condition}}}"


def _stack(
    place: int,
    blocks: tuple[Block, ...],
    one: Bin | None,
    factor: float,
    paint: dict[Any, str],
    theme: Theme,
) -> list[Option]:
    """Put blocks on one another, the fastest at the bottom."""
    items, height = [], 0.0
    for block in sorted(blocks, key=lambda block: (-block.speed, block.partition)):
        top = height + block.speed / factor
        fill = paint[block.partition]
        faded = block.stale or (one is not None and not one.well)
        stroke = theme.bad if one is None else theme.text if block.target is not None else ""
        items.append(
            {
                "name": str(block.partition),
                "id": str(block.partition),
                "value": [
                    place,
                    round(height, 5),
                    round(top, 5),
                    str(block.partition),
                    fill,
                    colours.on(fill),
                    0.45 if faded else 1,
                    stroke,
                    told(block),
                ],
            }
        )
        height = top
    return items


def told(block: Block) -> str:
    """Say what there is to say of a block."""
    parts = [words.rate(block.speed) if block.measured else "not measured yet"]
    if block.stale:
        parts.append("an old measurement")
    if block.backlog:
        parts.append(f"{words.size(block.backlog)} to read")
    if block.target is not None:
        parts.append(f"goes to consumer {block.target}")
    return ", ".join(parts)


def _outlines(count: int, capacity: float, theme: Theme) -> Option:
    """Draw each bin's outline up to C."""
    return {
        "type": "bar",
        "name": "capacity",
        "data": [round(capacity, 5)] * count,
        "barWidth": "74%",
        "barMaxWidth": 150,
        "silent": True,
        "animation": False,
        "itemStyle": {
            "color": theme.ground,
            "borderColor": theme.line,
            "borderWidth": 1,
            "borderRadius": [3, 3, 0, 0],
        },
        "z": 1,
    }


def _limits(seen: Snapshot, factor: float, theme: Theme) -> Option:
    def line(name: str, value: float, colour: str, kind: str) -> Option:
        return {
            "name": name,
            "yAxis": round(value / factor, 5),
            "lineStyle": {"color": colour, "type": kind, "width": 1.5},
            "label": {
                "formatter": f"{name}\n{words.rate(value)}",
                "color": colour,
                "position": "end",
                "fontSize": 11,
                "lineHeight": 13,
            },
        }

    return {
        "type": "line",
        "name": "limits",
        "data": [],
        "markLine": {
            "symbol": "none",
            "silent": True,
            "animation": False,
            "data": [
                line("C̄", seen.max_rate, theme.bad, "solid"),
                line("C", seen.capacity, theme.accent, "dashed"),
            ],
        },
        "z": 4,
    }
