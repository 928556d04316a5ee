"""Charts, tables and colours."""

import itertools
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from lagless.dashboard import bins, charts, colours, markup, snapshot, text, view
from lagless.dashboard.observations import Observations
from lagless.dashboard.snapshot import Link, Snapshot
from lagless.model import TopicPartition
from tests.dashboard import plays

NOW = 1_000_000.0
KNOBS = plays.settings()


@pytest.fixture(scope="module")
def seen() -> Snapshot:
    observations = Observations(plays.GROUP, KNOBS.capacity)
    for message in plays.past(plays.Group(KNOBS), NOW, 300, plays.walk(3, KNOBS.capacity)):
        observations.take(message)
    return view.look(observations, KNOBS, NOW, Link(heard=True))


def blocks(option: bins.Option) -> dict[str, list[float]]:
    return {item["name"]: item["value"] for item in option["series"][1]["data"]}


def test_blocks_stand_on_one_another_as_high_as_they_are_fast(seen: Snapshot) -> None:
    drawn = blocks(bins.option(seen, colours.LIGHT))
    assert len(drawn) == 24
    for column, bin_ in enumerate(seen.bins):
        mine = sorted(drawn[str(block.partition)][1:3] for block in bin_.blocks)
        assert all(drawn[str(block.partition)][0] == column for block in bin_.blocks)
        assert mine[0][0] == 0
        assert all(below[1] == above[0] for below, above in itertools.pairwise(mine))
        assert mine[-1][1] == pytest.approx(bin_.load / 1e6, abs=1e-4)


def test_the_lines_are_c_and_max_rate(seen: Snapshot) -> None:
    lines = bins.option(seen, colours.LIGHT)["series"][2]["markLine"]["data"]
    assert {line["name"]: line["yAxis"] for line in lines} == {"C̄": 2.0, "C": 1.66667}


def test_a_block_keeps_its_colour_when_it_moves(seen: Snapshot) -> None:
    before = blocks(bins.option(seen, colours.LIGHT))
    first, second, *rest = seen.bins
    moved = replace(second, blocks=(*second.blocks, first.blocks[0]))
    after = blocks(
        bins.option(
            replace(seen, bins=(replace(first, blocks=first.blocks[1:]), moved, *rest)),
            colours.LIGHT,
        )
    )
    name = str(first.blocks[0].partition)
    assert (before[name][0], after[name][0]) == (0, 1)
    assert {n: v[4] for n, v in before.items()} == {n: v[4] for n, v in after.items()}


def test_everything_that_is_drawn_is_json(seen: Snapshot) -> None:
    for theme in (colours.LIGHT, colours.DARK):
        for draw in (
            bins.option,
            charts.speeds,
            charts.consumers,
            charts.lags,
            charts.reassignments,
        ):
            json.dumps(draw(seen, theme), allow_nan=False)
    json.dumps(snapshot.document(seen), allow_nan=False)


def test_the_layers_of_speeds_add_up(seen: Snapshot) -> None:
    layers = charts.speeds(seen, colours.LIGHT)["series"]
    assert sum(layer["data"][-1][1] for layer in layers) == pytest.approx(
        seen.total / 1e6, rel=1e-2
    )


def test_slow_partitions_share_a_layer(seen: Snapshot) -> None:
    many = {TopicPartition("t", n): float(n) for n in range(100)}
    moments = (replace(seen.moments[-1], speeds=many),)
    layers = charts.speeds(replace(seen, speeds=many, moments=moments), colours.LIGHT)["series"]
    assert len(layers) == charts.LAYERS + 1
    assert layers[-1]["name"] == "60 others"


def test_text_on_blocks_and_tags_has_enough_contrast() -> None:
    many = [TopicPartition(f"t{t}", n) for t in range(8) for n in range(12)]
    for colour in colours.of_partitions(many).values():
        assert colours.contrast(colours.on(colour), colour) >= 4.5
    for theme in (colours.LIGHT, colours.DARK):
        for ink in (theme.text, theme.muted, theme.accent, theme.good, theme.warn, theme.bad):
            assert colours.contrast(ink, theme.surface) >= 4.5
        assert all(colours.contrast(line, theme.surface) >= 3 for line in theme.lines)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)


def test_text_from_outside_is_escaped(seen: Snapshot) -> None:
    evil = "<script>alert(1)</script>"
    line = replace(seen.lines[0], what=evil, why=evil)
    move = replace(seen.reassignments[0], reason=evil)
    hurt = replace(seen, lines=(line,), reassignments=(move,), phase=evil)
    parser = _Tags()
    parser.feed(markup.log(hurt) + markup.reassignments(hurt) + markup.machine(evil, evil))
    assert "script" not in parser.names


def test_tables_say_what_charts_show(seen: Snapshot) -> None:
    listed = markup.partitions(seen)
    for bin_ in seen.bins:
        for block in bin_.blocks:
            row = f"{block.partition}</th><td>{bin_.consumer}</td><td>{bins.describe(block)}"
            assert row in listed
    assert markup.consumers(seen).count("<tr>") == len(seen.bins) + 1
    assert markup.clock(0, 3600) == "01:00:00"


def test_captions_hold_the_numbers(seen: Snapshot) -> None:
    assert bins.caption(seen).startswith(f"{len(seen.bins)} consumers for 24 partitions")
    assert str(seen.plain_kafka) in charts.consumers_caption(seen)
    assert text.controller(seen)[0] == seen.phase


def test_the_consumer_count_mentions_unhealthy_consumers(seen: Snapshot) -> None:
    first, *rest = seen.bins
    count = str(len(seen.bins))
    assert text.consumers(seen) == (count, "all healthy")
    starting = replace(seen, bins=(replace(first, condition="starting"), *rest))
    assert text.consumers(starting) == (count, "1 not ready")
    lost = replace(seen, bins=(replace(first, condition="lost"), *rest))
    assert text.consumers(lost) == (count, "1 silent or lost")
    alone = replace(seen, unassigned=first.blocks[:1])
    assert text.lag(alone)[1] == "1 partition not read"


def test_an_empty_group_can_be_drawn() -> None:
    nothing = view.look(Observations(plays.GROUP, KNOBS.capacity), KNOBS, NOW, Link())
    for draw in (bins.option, charts.speeds, charts.consumers, charts.lags, charts.reassignments):
        assert draw(nothing, colours.LIGHT)["series"] is not None
    assert "No data yet" in text.nothing(nothing)
    assert text.kafka(nothing) == ("connecting", "warn")
    assert "not known" in markup.machine("", "")
