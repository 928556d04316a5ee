"""The page on the paper: what it points to is there."""

import re
from pathlib import Path

import pytest

import lagless
from lagless.lab.paper import experiments, figures, paper_blocks, paper_page, paper_panels
from tests.lab.paper import drawn

SOURCE = Path(lagless.__file__).parent
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "paper.md"


@pytest.mark.parametrize("published", [True, False])
def test_every_file_and_name_that_the_page_points_to_is_there(published: bool) -> None:
    page = PAGE.read_text() if published else paper_page.document(drawn.PLAN, drawn.found())
    files = set(re.findall(r"\b[a-z_/]+\.py\b", page))
    assert len(files) > 10
    for file in files:
        assert ((ROOT if file.startswith("tests/") else SOURCE) / file).is_file(), file
    pointed = re.findall(r"((?:`\w+`(?:, | and )?)+) in ([a-z_/]+\.py)", page)
    assert len(pointed) > 10
    for names, file in pointed:
        text = (SOURCE / file).read_text("utf-8")
        for name in re.findall(r"`(\w+)`", names):
            defined = rf"^((def|class) {name}\b|{name} = )"
            assert re.search(defined, text, re.MULTILINE), (name, file)


def test_the_page_has_every_claim_with_its_verdict() -> None:
    page = paper_page.document(drawn.PLAN, drawn.found())
    for claim in drawn.found():
        assert claim.says in page
        assert f"{claim.says}**\n— *{claim.verdict}*\n\n:   {claim.measured}" in page
    assert len(drawn.found()) >= 20


def test_every_figure_is_shown_with_what_to_see_and_the_comparison() -> None:
    cbs, rscore = (experiments.mean(drawn.scores(), key) for key in ("cbs", "rscore"))
    shown = [
        *paper_panels.on_packing(cbs, rscore),
        *paper_panels.on_latency(drawn.one(), drawn.waited()),
    ]
    assert [panel.name for panel in shown] == list(figures.CAPTIONS)
    page = paper_page.document(drawn.PLAN, [], shown, pictures="img")
    for panel in shown:
        assert f"](img/{panel.name}.svg)\n\n{panel.see} {panel.beside}" in page
    of_paper = [panel for panel in shown if not panel.paper.startswith("not in the paper")]
    assert len(of_paper) + len(paper_page.LIVE) == 13
    rival = f"{rscore[5.0]['ezzeddine']:.1f} at δ = 5"
    assert any(rival in panel.see for panel in shown)
    assert paper_panels.on_packing({}, {}) == paper_panels.on_latency({}, []) == []


def test_what_was_found_is_said_in_a_few_sentences() -> None:
    cbs, rscore = (experiments.mean(drawn.scores(), key) for key in ("cbs", "rscore"))
    first, *_, last = paper_panels.summary(cbs, rscore, drawn.waited())
    saved = 1 - rscore[5.0]["mwf"] / min(rscore[5.0][a] for a in experiments.EXISTING)
    assert f"moves {saved:.0%} less" in first
    assert "in 2 of 2 streams" in last
    assert paper_panels.summary({}, {}, []) == []


def test_the_block_of_the_evaluation_has_the_scores() -> None:
    cbs, rscore = (experiments.mean(drawn.scores(), key) for key in ("cbs", "rscore"))
    block = paper_blocks.results(drawn.PLAN, cbs, rscore, drawn.waited())
    low, high = rscore[5.0]["mwf"], rscore[25.0]["mwf"]
    assert re.search(
        rf"mwf, the paper's choice \| [0-9.]+ % \| {low:.1f} \|.*\| {high:.1f} \|", block
    )
    assert "the paper's stream needed 15" in block
